//! `ListObjectsV2`.

use super::*;
use std::collections::BTreeSet;

fn rolled_up_by_slash() -> ListRequest {
    ListRequest { delimiter: Some("/".to_string()), ..Default::default() }
}

#[test]
fn a_list_rolls_up_common_prefixes_and_counts_them_as_keys() {
    let mut store = Store::new();
    for key in ["a", "b/1", "b/2", "b0", "c/x/1", "d"] {
        put(&mut store, key, "");
    }
    let rolled = rolled_up_by_slash();
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
    // A common prefix, too, must be after it.
    let inside = ListRequest { start_after: Some("b/1".to_string()), ..rolled_up_by_slash() };
    assert_eq!(list(&mut store, inside).1, ["c/"]);
    let before = ListRequest { start_after: Some("b".to_string()), ..rolled_up_by_slash() };
    assert_eq!(list(&mut store, before).1, ["b/", "c/"]);
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
fn a_list_can_be_made_as_it_was_before_the_latest_changes() {
    let mut store = Store::new();
    put(&mut store, "early", "");
    store.remember(4);
    put(&mut store, "a", "1");
    let old = put(&mut store, "b", "1");
    put(&mut store, "b", "22");
    store.apply(NOW, &Request::Delete { key: "a".to_string() }).unwrap();
    // Deleting what is not there is no change.
    store.apply(NOW, &Request::Delete { key: "a".to_string() }).unwrap();
    assert_eq!(store.changes(), 5);
    let keys = |unseen, max_keys| {
        let request = ListRequest { max_keys, ..Default::default() };
        match store.list_behind(&request, unseen).unwrap() {
            Response::List { objects, next_token, .. } => {
                (objects.iter().map(|object| object.key.clone()).collect::<Vec<_>>().join(" "), next_token)
            }
            other => panic!("{other:?}"),
        }
    };
    let shown = |unseen| keys(unseen, None).0;
    assert_eq!(
        [0, 1, 2, 3, 4, 99].map(shown),
        ["b early", "a b early", "a b early", "a early", "early", "early"]
    );
    assert_eq!(keys(1, Some(1)), ("a".to_string(), Some("ka".to_string())));
    let Ok(Response::List { objects, .. }) = store.list_behind(&ListRequest::default(), 2) else {
        panic!("a list lists")
    };
    assert_eq!(
        (objects[1].etag.as_str(), objects[1].size),
        (old.as_str(), 1),
        "as it was, not only that it was"
    );
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
                Some(at) => {
                    let rolled = key[..=prefix.len() + at].to_string();
                    if start_after.as_ref().is_none_or(|start| rolled > *start) {
                        want_prefixes.insert(rolled);
                    }
                }
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
}
