//! One test a rule, with what S3 documents for it.

use super::*;
use crate::api::ListRequest;
use proptest::prelude::*;
use std::collections::BTreeSet;

const NOW: Duration = Duration::from_millis(1_700_000_000_999);

fn put_if(
    store: &mut Store,
    key: &str,
    body: &'static str,
    condition: PutCondition,
) -> Result<String, S3Error> {
    let request = Request::Put { key: key.to_string(), body: body.into(), headers: vec![], condition };
    store.apply(NOW, &request).map(|response| match response {
        Response::Written { etag } => etag,
        other => panic!("{other:?}"),
    })
}

fn put(store: &mut Store, key: &str, body: &'static str) -> String {
    put_if(store, key, body, PutCondition::Always).unwrap()
}

fn get(store: &mut Store, range: Option<ByteRange>, conditions: GetConditions) -> Result<Bytes, S3Error> {
    let request = Request::Get { key: "k".to_string(), range, conditions, head: false };
    store.apply(NOW, &request).map(|response| match response {
        Response::Object { body, .. } => body,
        other => panic!("{other:?}"),
    })
}

fn list(store: &mut Store, request: ListRequest) -> (Vec<String>, Vec<String>, Option<String>) {
    match store.apply(NOW, &Request::List(request)).unwrap() {
        Response::List { objects, common_prefixes, next_token } => {
            (objects.into_iter().map(|object| object.key).collect(), common_prefixes, next_token)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_put_is_there_with_tag_time_and_headers() {
    let mut store = Store::new();
    let headers = vec![("Content-Type".to_string(), "text/plain".to_string())];
    let request = Request::Put {
        key: "k".to_string(),
        body: "hello".into(),
        headers: headers.clone(),
        condition: PutCondition::Always,
    };
    store.apply(NOW, &request).unwrap();
    let head = Request::Get { key: "k".to_string(), range: None, conditions: Default::default(), head: true };
    // XXH3's 128-bit digest of "hello", by its reference implementation; S3 tells whole seconds.
    let info = ObjectInfo {
        key: "k".to_string(),
        size: 5,
        etag: "\"b5e9c1ad071b3e7fc779cfaa5e523818\"".to_string(),
        last_modified_ms: 1_700_000_000_000,
    };
    let want = Response::Object { info, headers, range: 0..5, body: Bytes::new() };
    assert_eq!(store.apply(NOW, &head), Ok(want));
    assert_eq!(get(&mut store, None, GetConditions::default()).unwrap(), "hello");
}

#[test]
fn conditional_puts_create_once_and_replace_only_what_was_seen() {
    let mut store = Store::new();
    let stale = put_if(&mut store, "k", "1", PutCondition::IfNoneMatch).unwrap();
    let again = put_if(&mut store, "k", "2", PutCondition::IfNoneMatch);
    assert_eq!(again, Err(S3Error::PreconditionFailed));
    let fresh = put_if(&mut store, "k", "2", PutCondition::IfMatch(stale.clone())).unwrap();
    assert_ne!(stale, fresh);
    let late = put_if(&mut store, "k", "3", PutCondition::IfMatch(stale.clone()));
    assert_eq!(late, Err(S3Error::PreconditionFailed));
    assert_eq!(put_if(&mut store, "gone", "3", PutCondition::IfMatch(stale)), Err(S3Error::NoSuchKey));
    assert_eq!(get(&mut store, None, GetConditions::default()).unwrap(), "2");
}

#[test]
fn a_range_is_cut_at_the_end_and_must_begin_before_it() {
    let mut store = Store::new();
    put(&mut store, "k", "0123456789");
    let mut read = |range| get(&mut store, Some(range), GetConditions::default());
    assert_eq!(read(ByteRange::Bounded(2..4)).unwrap(), "23");
    assert_eq!(read(ByteRange::Bounded(8..99)).unwrap(), "89");
    assert_eq!(read(ByteRange::From(7)).unwrap(), "789");
    assert_eq!(read(ByteRange::Last(3)).unwrap(), "789");
    assert_eq!(read(ByteRange::Last(99)).unwrap(), "0123456789");
    assert_eq!(read(ByteRange::Bounded(10..11)), Err(S3Error::InvalidRange));
    assert_eq!(read(ByteRange::From(10)), Err(S3Error::InvalidRange));
    assert_eq!(read(ByteRange::Last(0)), Err(S3Error::InvalidRange));
}

#[test]
fn conditional_gets_follow_rfc_9110() {
    let mut store = Store::new();
    let etag = put(&mut store, "k", "v");
    let time = 1_700_000_000_000;
    let mut read = |conditions| get(&mut store, None, conditions).map(drop);
    let none = GetConditions::default;
    assert_eq!(read(GetConditions { if_match: Some(format!("\"x\", {etag}")), ..none() }), Ok(()));
    assert_eq!(read(GetConditions { if_match: Some("*".into()), ..none() }), Ok(()));
    let wrong = GetConditions { if_match: Some("\"x\"".into()), ..none() };
    assert_eq!(read(wrong), Err(S3Error::PreconditionFailed));
    let known = GetConditions { if_none_match: Some(etag.clone()), ..none() };
    assert_eq!(read(known), Err(S3Error::NotModified));
    assert_eq!(read(GetConditions { if_modified_since_ms: Some(time), ..none() }), Err(S3Error::NotModified));
    assert_eq!(read(GetConditions { if_modified_since_ms: Some(time - 1), ..none() }), Ok(()));
    let since = |since| GetConditions { if_unmodified_since_ms: Some(since), ..none() };
    assert_eq!(read(since(time)), Ok(()));
    assert_eq!(read(since(time - 1)), Err(S3Error::PreconditionFailed));
    // If-Match holds, so If-Unmodified-Since is not looked at.
    assert_eq!(read(GetConditions { if_match: Some(etag), ..since(time - 1) }), Ok(()));
}

#[test]
fn deletion_succeeds_whether_or_not_there_is_something() {
    let mut store = Store::new();
    put(&mut store, "k", "v");
    for _ in 0..2 {
        assert_eq!(store.apply(NOW, &Request::Delete { key: "k".to_string() }), Ok(Response::Deleted));
    }
    assert_eq!(get(&mut store, None, GetConditions::default()), Err(S3Error::NoSuchKey));
    let many = |keys: usize| Request::DeleteMany { keys: (0..keys).map(|n| n.to_string()).collect() };
    put(&mut store, "999", "v");
    assert_eq!(store.apply(NOW, &many(1000)), Ok(Response::Deleted));
    assert_eq!(list(&mut store, ListRequest::default()).0, Vec::<String>::new());
    assert_eq!(store.apply(NOW, &many(1001)), Err(S3Error::MalformedXml));
    assert_eq!(store.apply(NOW, &many(0)), Err(S3Error::MalformedXml));
}

#[test]
fn a_list_rolls_up_common_prefixes_and_counts_them_as_keys() {
    let mut store = Store::new();
    for key in ["a", "b/1", "b/2", "b0", "c/x/1", "d"] {
        put(&mut store, key, "");
    }
    let rolled = ListRequest { delimiter: Some("/".to_string()), ..Default::default() };
    let (keys, prefixes, token) = list(&mut store, rolled.clone());
    assert_eq!(
        (keys.join(" "), prefixes.join(" "), token),
        ("a b0 d".to_string(), "b/ c/".to_string(), None)
    );
    let below = ListRequest { prefix: "c/".to_string(), ..rolled.clone() };
    assert_eq!(list(&mut store, below).1, ["c/x/"]);
    let (keys, prefixes, token) = list(&mut store, ListRequest { max_keys: Some(2), ..rolled.clone() });
    assert_eq!((keys, prefixes), (vec!["a".to_string()], vec!["b/".to_string()]));
    let (keys, prefixes, token) =
        list(&mut store, ListRequest { max_keys: Some(2), continuation_token: token, ..rolled.clone() });
    assert_eq!((keys, prefixes), (vec!["b0".to_string()], vec!["c/".to_string()]));
    let rest = list(&mut store, ListRequest { max_keys: Some(2), continuation_token: token, ..rolled });
    assert_eq!(rest, (vec!["d".to_string()], vec![], None));
    let after = ListRequest { start_after: Some("b0".to_string()), ..Default::default() };
    assert_eq!(list(&mut store, after).0, ["c/x/1", "d"]);
    let forged = ListRequest { continuation_token: Some("?".to_string()), ..Default::default() };
    assert_eq!(store.apply(NOW, &Request::List(forged)), Err(S3Error::InvalidArgument));
}

#[test]
fn a_page_holds_a_thousand_keys() {
    let mut store = Store::new();
    for n in 0..1001 {
        put(&mut store, &format!("{n:04}"), "");
    }
    let more = ListRequest { max_keys: Some(5000), ..Default::default() };
    let (keys, _, token) = list(&mut store, more.clone());
    assert_eq!(keys.len(), 1000);
    assert_eq!(list(&mut store, ListRequest { continuation_token: token, ..more }).0, ["1000"]);
    let nothing = ListRequest { max_keys: Some(0), ..Default::default() };
    assert_eq!(list(&mut store, nothing), (vec![], vec![], None));
}

#[test]
fn a_copy_is_whole_and_may_refuse_to_replace() {
    let mut store = Store::new();
    let etag = put(&mut store, "k", "v");
    let copy = |from: &str, to: &str, if_none_match| Request::Copy {
        from: from.to_string(),
        to: to.to_string(),
        if_none_match,
    };
    assert_eq!(store.apply(NOW, &copy("k", "l", true)), Ok(Response::Written { etag: etag.clone() }));
    assert_eq!(store.apply(NOW, &copy("k", "l", true)), Err(S3Error::PreconditionFailed));
    assert_eq!(store.apply(NOW, &copy("k", "l", false)), Ok(Response::Written { etag }));
    assert_eq!(store.apply(NOW, &copy("gone", "l", false)), Err(S3Error::NoSuchKey));
    assert_eq!(store.apply(NOW, &copy("k", "k", false)), Err(S3Error::InvalidRequest));
}

#[test]
fn keys_are_one_to_1024_bytes() {
    let mut store = Store::new();
    put(&mut store, &"k".repeat(1024), "");
    assert_eq!(put_if(&mut store, &"k".repeat(1025), "", PutCondition::Always), Err(S3Error::KeyTooLong));
    assert_eq!(put_if(&mut store, "", "", PutCondition::Always), Err(S3Error::InvalidArgument));
}

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

proptest! {
    /// Pages of any size make the list that a look at every key makes.
    #[test]
    fn pages_of_a_list_make_the_whole(
        keys in prop::collection::btree_set("[ab/\u{d7ff}\u{10ffff}]{1,5}", 0..40),
        prefix in "[ab/]{0,2}",
        delimiter in prop::option::of(Just("/".to_string())),
        start_after in prop::option::of("[ab/]{1,3}"),
        max_keys in 1..6u32,
    ) {
        let mut store = Store::new();
        for key in &keys {
            put(&mut store, key, "");
        }
        let (mut want_keys, mut want_prefixes) = (Vec::new(), BTreeSet::new());
        for key in keys.iter().filter(|key| key.starts_with(&prefix)) {
            if start_after.as_ref().is_some_and(|start| key <= start) {
                continue;
            }
            match delimiter.as_ref().and_then(|_| key[prefix.len()..].find('/')) {
                Some(at) => drop(want_prefixes.insert(key[..=prefix.len() + at].to_string())),
                None => want_keys.push(key.clone()),
            }
        }
        let mut request = ListRequest { prefix, delimiter, start_after, max_keys: Some(max_keys), ..Default::default() };
        let (mut got_keys, mut got_prefixes) = (Vec::new(), Vec::new());
        loop {
            let (keys, prefixes, token) = list(&mut store, request.clone());
            prop_assert!(keys.len() + prefixes.len() <= max_keys as usize);
            got_keys.extend(keys);
            got_prefixes.extend(prefixes);
            match token {
                Some(token) => request.continuation_token = Some(token),
                None => break,
            }
        }
        prop_assert_eq!(got_keys, want_keys);
        prop_assert_eq!(got_prefixes, want_prefixes.into_iter().collect::<Vec<_>>());
    }

    /// The store against a map: what is there, under which tag, and which conditional writes win.
    #[test]
    fn writes_win_as_their_conditions_say(
        steps in prop::collection::vec((0..3u8, 0..3usize, 0..5u8, 0..3usize), 1..60)
    ) {
        const BODIES: [&str; 3] = ["x", "y", "z"];
        let mut store = Store::new();
        let mut model: BTreeMap<u8, &str> = BTreeMap::new();
        let tags = BODIES.map(|body| put(&mut Store::new(), "any", body));
        for (key, body, kind, seen) in steps {
            let there = model.get(&key).copied();
            let (condition, want) = match kind {
                0 => (PutCondition::IfNoneMatch, if there.is_some() { Err(S3Error::PreconditionFailed) } else { Ok(()) }),
                1 => (PutCondition::IfMatch(tags[seen].clone()), match there {
                    Some(there) if there == BODIES[seen] => Ok(()),
                    Some(_) => Err(S3Error::PreconditionFailed),
                    None => Err(S3Error::NoSuchKey),
                }),
                2 => {
                    store.apply(NOW, &Request::Delete { key: key.to_string() }).unwrap();
                    model.remove(&key);
                    continue;
                }
                _ => (PutCondition::Always, Ok(())),
            };
            let got = put_if(&mut store, &key.to_string(), BODIES[body], condition);
            prop_assert_eq!(got, want.map(|()| tags[body].clone()));
            if want.is_ok() {
                model.insert(key, BODIES[body]);
            }
        }
        let (keys, ..) = list(&mut store, ListRequest::default());
        prop_assert_eq!(keys, model.keys().map(u8::to_string).collect::<Vec<_>>());
    }
}
