//! Multipart uploads, and what is listed of them.

use super::*;
use crate::api::ListUploadsRequest;

fn create(store: &mut Store) -> String {
    match store.apply(NOW, &Request::CreateUpload { key: "k".to_string(), headers: vec![] }) {
        Ok(Response::Upload { id }) => id,
        other => panic!("{other:?}"),
    }
}

fn part(store: &mut Store, id: &str, number: u32, body: Vec<u8>) -> Result<String, S3Error> {
    let (key, upload_id) = ("k".to_string(), id.to_string());
    store.apply(NOW, &Request::UploadPart { key, upload_id, number, body: body.into() }).map(|response| {
        match response {
            Response::Part { etag } => etag,
            other => panic!("{other:?}"),
        }
    })
}

fn complete(store: &mut Store, id: &str, parts: Vec<(u32, String)>) -> Result<String, S3Error> {
    let (key, upload_id, condition) = ("k".to_string(), id.to_string(), PutCondition::Always);
    store.apply(NOW, &Request::CompleteUpload { key, upload_id, parts, condition }).map(|response| {
        match response {
            Response::Written { etag } => etag,
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn parts_make_one_object_in_order_of_number() {
    const MIN: usize = 5 * 1024 * 1024;
    let mut store = Store::new();
    let id = create(&mut store);
    let last = part(&mut store, &id, 7, b"end".to_vec()).unwrap();
    let first = part(&mut store, &id, 2, vec![b'x'; MIN]).unwrap();
    assert_eq!(
        get(&mut store, None, GetConditions::default()),
        Err(S3Error::NoSuchKey),
        "not there before completion"
    );
    let reversed = vec![(7, last.clone()), (2, first.clone())];
    assert_eq!(complete(&mut store, &id, reversed), Err(S3Error::InvalidPartOrder));
    assert_eq!(complete(&mut store, &id, vec![(2, last.clone())]), Err(S3Error::InvalidPart));
    let etag = complete(&mut store, &id, vec![(2, first), (7, last)]).unwrap();
    assert!(etag.ends_with("-2\""), "{etag}");
    let body = get(&mut store, None, GetConditions::default()).unwrap();
    assert_eq!((body.len(), &body[MIN..]), (MIN + 3, &b"end"[..]));
    assert_eq!(complete(&mut store, &id, vec![]), Err(S3Error::NoSuchUpload));
}

#[test]
fn small_parts_wrong_numbers_and_aborted_uploads_are_refused() {
    let mut store = Store::new();
    let id = create(&mut store);
    let one = part(&mut store, &id, 1, vec![0; 9]).unwrap();
    let two = part(&mut store, &id, 2, vec![0; 9]).unwrap();
    assert_eq!(complete(&mut store, &id, vec![(1, one), (2, two)]), Err(S3Error::EntityTooSmall));
    assert_eq!(part(&mut store, &id, 0, vec![]), Err(S3Error::InvalidArgument));
    assert_eq!(part(&mut store, &id, 10_001, vec![]), Err(S3Error::InvalidArgument));
    let abort = Request::AbortUpload { key: "k".to_string(), upload_id: id.clone() };
    assert_eq!(store.apply(NOW, &abort), Ok(Response::Deleted));
    assert_eq!(part(&mut store, &id, 1, vec![]), Err(S3Error::NoSuchUpload));
}

fn list_parts(
    store: &mut Store,
    id: &str,
    marker: u32,
    max_parts: Option<u32>,
) -> (Vec<(u32, u64)>, Option<u32>) {
    let (key, upload_id) = ("k".to_string(), id.to_string());
    match store.apply(NOW, &Request::ListParts { key, upload_id, number_marker: marker, max_parts }) {
        Ok(Response::Parts { parts, next_number_marker }) => {
            assert!(parts.iter().all(|part| part.last_modified_ms == 1_700_000_000_000));
            (parts.iter().map(|part| (part.number, part.size)).collect(), next_number_marker)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn parts_are_listed_by_number_and_by_page() {
    let mut store = Store::new();
    let id = create(&mut store);
    for (number, size) in [(3, 1), (1, 2), (9, 3), (3, 4)] {
        part(&mut store, &id, number, vec![0; size]).unwrap();
    }
    assert_eq!(list_parts(&mut store, &id, 0, None), (vec![(1, 2), (3, 4), (9, 3)], None));
    assert_eq!(list_parts(&mut store, &id, 0, Some(2)), (vec![(1, 2), (3, 4)], Some(3)));
    assert_eq!(list_parts(&mut store, &id, 3, Some(2)), (vec![(9, 3)], None));
    assert_eq!(list_parts(&mut store, &id, 9, None), (vec![], None));
    let unknown =
        Request::ListParts { key: "other".to_string(), upload_id: id, number_marker: 0, max_parts: None };
    assert_eq!(store.apply(NOW, &unknown), Err(S3Error::NoSuchUpload), "an upload has one key");
}

/// `key#n` for the n-th upload, the common prefixes, and the markers of the next page.
fn list_uploads(
    store: &mut Store,
    request: &ListUploadsRequest,
) -> (String, String, Option<(String, String)>) {
    match store.apply(NOW, &Request::ListUploads(request.clone())) {
        Ok(Response::Uploads { uploads, common_prefixes, next_markers }) => {
            let number = |id: &str| id.trim_start_matches("upload-").parse::<u64>().unwrap();
            let uploads: Vec<_> =
                uploads.iter().map(|one| format!("{}#{}", one.key, number(&one.upload_id))).collect();
            (uploads.join(" "), common_prefixes.join(" "), next_markers)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn uploads_are_listed_by_key_and_creation_rolled_up_and_by_page() {
    let mut store = Store::new();
    for key in ["b", "a/2", "b", "a/1", "c"] {
        store.apply(NOW, &Request::CreateUpload { key: key.to_string(), headers: vec![] }).unwrap();
    }
    let all = ListUploadsRequest::default();
    assert_eq!(list_uploads(&mut store, &all).0, "a/1#4 a/2#2 b#1 b#3 c#5");
    let rolled = ListUploadsRequest { delimiter: Some("/".to_string()), ..all.clone() };
    let (uploads, prefixes, next) = list_uploads(&mut store, &rolled);
    assert_eq!((uploads.as_str(), prefixes.as_str(), next), ("b#1 b#3 c#5", "a/", None));
    let below = ListUploadsRequest { prefix: "a/".to_string(), ..rolled.clone() };
    assert_eq!(list_uploads(&mut store, &below).0, "a/1#4 a/2#2");
    let after = |key: &str| ListUploadsRequest { key_marker: Some(key.to_string()), ..all.clone() };
    assert_eq!(list_uploads(&mut store, &after("b")).0, "c#5", "without an upload, no more of that key");
    assert_eq!(list_uploads(&mut store, &after("a")).0, "a/1#4 a/2#2 b#1 b#3 c#5");
    let upload_id_marker = Some("nonsense".to_string());
    let forged = ListUploadsRequest { upload_id_marker, ..after("b") };
    assert_eq!(store.apply(NOW, &Request::ListUploads(forged)), Err(S3Error::InvalidArgument));
    for (request, want) in [(all, "a/1#4 a/2#2 b#1 b#3 c#5"), (rolled, "a/ b#1 b#3 c#5")] {
        let (mut pages, mut page) = (Vec::new(), ListUploadsRequest { max_uploads: Some(1), ..request });
        loop {
            let (uploads, prefixes, next) = list_uploads(&mut store, &page);
            pages.push(uploads + &prefixes);
            let Some((key, id)) = next else { break };
            (page.key_marker, page.upload_id_marker) = (Some(key), Some(id));
        }
        assert_eq!(pages.join(" "), want);
    }
}

#[test]
fn what_is_over_is_listed_no_more() {
    let mut store = Store::new();
    let (aborted, completed) = (create(&mut store), create(&mut store));
    let one = part(&mut store, &completed, 1, vec![1]).unwrap();
    complete(&mut store, &completed, vec![(1, one)]).unwrap();
    let abort = Request::AbortUpload { key: "k".to_string(), upload_id: aborted };
    store.apply(NOW, &abort).unwrap();
    assert_eq!(list_uploads(&mut store, &ListUploadsRequest::default()).0, "");
}
