//! One test a rule, with what S3 documents for it.

mod lists;
mod multipart;

use super::*;
use crate::api::ListRequest;
use proptest::prelude::*;

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
    // The ETag itself is wanted: a star is none, its quotes do not matter.
    let any = put_if(&mut store, "k", "3", PutCondition::IfMatch("*".to_string()));
    assert_eq!(any, Err(S3Error::PreconditionFailed));
    let unquoted = fresh.trim_matches('"').to_string();
    assert_eq!(put_if(&mut store, "k", "2", PutCondition::IfMatch(unquoted)), Ok(fresh));
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

proptest! {
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
