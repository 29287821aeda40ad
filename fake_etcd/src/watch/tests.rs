use super::*;
use crate::api::{DeleteRangeRequest, EventKind, Op, PutRequest, Request, TxnRequest};
use crate::quirks::Quirks;
use proptest::prelude::*;
use rt::time::Instant;

const NOW: Instant = Instant::from_nanos(0);

fn put(store: &mut Store, key: &'static str, value: &'static str) -> i64 {
    store.apply(NOW, &Request::Put(PutRequest::new(key, value))).revision.unwrap()
}

fn told(responses: &[(WatchKey, WatchResponse)]) -> Vec<(u64, i64, String)> {
    let events =
        responses.iter().flat_map(|((_, id), response)| response.events.iter().map(move |e| (*id, e)));
    events.map(|(id, e)| (id, e.kv.mod_revision, String::from_utf8_lossy(&e.kv.key).into_owned())).collect()
}

#[test]
fn one_response_holds_all_events_of_one_revision_in_order() {
    let (mut store, mut hub) = (Store::new(), Hub::default());
    put(&mut store, "b", "0");
    let created = hub.create(&store, (1, 1), WatchRequest { prev_kv: true, ..WatchRequest::prefix("", 0) });
    assert!(created.created && created.revision == 2);
    let txn = TxnRequest {
        success: vec![
            Op::Put(PutRequest::new("c", "1")),
            Op::Put(PutRequest::new("a", "1")),
            Op::DeleteRange(DeleteRangeRequest::key("b")),
        ],
        ..Default::default()
    };
    let revision = store.apply(NOW, &Request::Txn(txn)).revision.unwrap();
    let responses = hub.notify(&store, revision, false, |_| true);
    assert_eq!(responses.len(), 1);
    assert_eq!(told(&responses), [(1, 3, "c".into()), (1, 3, "a".into()), (1, 3, "b".into())]);
    let deleted = &responses[0].1.events[2];
    assert_eq!(deleted.kind, EventKind::Delete);
    assert_eq!(deleted.prev_kv.as_ref().unwrap().value, "0");
    assert_eq!((deleted.kv.create_revision, deleted.kv.version), (0, 0));
}

#[test]
fn a_watch_starts_in_the_past_now_or_in_the_future() {
    let (mut store, mut hub) = (Store::new(), Hub::default());
    put(&mut store, "k", "2");
    put(&mut store, "k", "3");
    hub.create(&store, (1, 1), WatchRequest::key("k", 2));
    hub.create(&store, (1, 2), WatchRequest::key("k", 0));
    hub.create(&store, (1, 3), WatchRequest::key("k", 5));
    assert_eq!(told(&hub.catch_up(&store, 1)), [(1, 2, "k".into()), (1, 3, "k".into())]);
    let fourth = put(&mut store, "k", "4");
    assert_eq!(told(&hub.notify(&store, fourth, false, |_| true)), [(1, 4, "k".into()), (2, 4, "k".into())]);
    let fifth = put(&mut store, "k", "5");
    assert_eq!(hub.notify(&store, fifth, false, |_| true).len(), 3);
}

#[test]
fn a_watch_of_what_was_compacted_is_canceled_with_the_compact_revision() {
    let (mut store, mut hub) = (Store::new(), Hub::default());
    for value in ["2", "3", "4"] {
        put(&mut store, "k", value);
    }
    store.apply(NOW, &Request::Compact { revision: 4 }).response.unwrap();
    hub.create(&store, (1, 1), WatchRequest::key("k", 3));
    hub.create(&store, (1, 2), WatchRequest::key("k", 4));
    let responses = hub.catch_up(&store, 1);
    assert_eq!(responses[0].0, (1, 1));
    assert!(responses[0].1.canceled && responses[0].1.compact_revision == 4);
    // The compacted revision itself is still there.
    assert_eq!(told(&responses), [(2, 4, "k".into())]);
    assert!(!hub.cancel((1, 1)) && hub.cancel((1, 2)) && !hub.cancel((1, 2)));
}

#[test]
fn a_deletion_at_the_compacted_revision_is_told_unless_the_quirk_is_on() {
    // etcd issue 18089: put, put, put, delete, put; compact at the deletion; watch from it.
    for drops in [false, true] {
        let quirks = Quirks { compaction_drops_tombstones: drops, ..Default::default() };
        let (mut store, mut hub) = (Store::with_quirks(quirks), Hub::default());
        for value in ["v2", "v3", "v4"] {
            put(&mut store, "k1", value);
        }
        store.apply(NOW, &Request::DeleteRange(DeleteRangeRequest::key("k1"))).response.unwrap();
        put(&mut store, "k1", "v6");
        store.apply(NOW, &Request::Compact { revision: 5 }).response.unwrap();
        hub.create(&store, (1, 1), WatchRequest::key("k1", 5));
        let revisions: Vec<_> =
            told(&hub.catch_up(&store, 1)).iter().map(|(_, revision, _)| *revision).collect();
        assert_eq!(revisions, if drops { vec![6] } else { vec![5, 6] });
    }
}

#[test]
fn the_other_quirks_do_what_they_say() {
    let quirks =
        Quirks { future_watch_sees_old_events: true, lease_deletions_are_silent: true, ..Default::default() };
    for (quirks, early, expiry) in [(quirks, 1, 0), (Quirks::default(), 0, 1)] {
        let (mut store, mut hub) = (Store::with_quirks(quirks), Hub::default());
        hub.create(&store, (1, 1), WatchRequest::key("k", 9));
        let revision = put(&mut store, "k", "v");
        assert_eq!(hub.notify(&store, revision, false, |_| true).len(), early);
        hub.create(&store, (1, 2), WatchRequest::key("l", 0));
        store.apply(NOW, &Request::LeaseGrant { ttl_s: 2, id: 7 }).response.unwrap();
        store
            .apply(NOW, &Request::Put(PutRequest { lease: 7, ..PutRequest::new("l", "") }))
            .response
            .unwrap();
        let revisions = store.expire(Instant::from_nanos(2_000_000_000));
        assert_eq!(hub.notify(&store, revisions[0], true, |_| true).len(), expiry);
    }
}

#[test]
fn filters_and_progress() {
    let (mut store, mut hub) = (Store::new(), Hub::default());
    hub.create(
        &store,
        (1, 1),
        WatchRequest { no_put: true, progress_notify: true, ..WatchRequest::key("k", 0) },
    );
    hub.create(&store, (2, 1), WatchRequest { no_delete: true, ..WatchRequest::key("k", 0) });
    let revision = put(&mut store, "k", "v");
    assert_eq!(told(&hub.notify(&store, revision, false, |_| true)), [(1, 2, "k".into())]);
    let progress = hub.progress(&store, 1);
    assert_eq!(progress, [((1, 1), WatchResponse { revision: 2, ..Default::default() })]);
    let delete = store.apply(NOW, &Request::DeleteRange(DeleteRangeRequest::key("k"))).revision.unwrap();
    let responses = hub.notify(&store, delete, false, |_| true);
    assert_eq!(responses.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [(1, 1)]);
    assert!(hub.progress(&store, 1).is_empty(), "it was told something since");
    assert_eq!(hub.progress(&store, 1).len(), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Delete(u8),
    DeleteAll,
    CatchUp,
    Watch { start: i64, key: Option<u8>, connection: u64 },
    Room(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..4u8).prop_map(Step::Put),
        2 => (0..4u8).prop_map(Step::Delete),
        1 => Just(Step::DeleteAll),
        2 => Just(Step::CatchUp),
        2 => (0..40i64, prop::option::of(0..4u8), 1..3u64)
            .prop_map(|(start, key, connection)| Step::Watch { start, key, connection }),
        2 => any::<bool>().prop_map(Step::Room),
    ]
}

proptest! {
    /// Whatever falls behind and catches up, each watch is told each change once, in order, from its start on.
    #[test]
    fn watches_are_told_everything_once_and_in_order(steps in prop::collection::vec(step(), 1..120)) {
        let (mut store, mut hub) = (Store::new(), Hub::default());
        let mut log: Vec<(i64, Bytes)> = Vec::new();
        let mut got: BTreeMap<WatchKey, Vec<(i64, Bytes)>> = BTreeMap::new();
        let mut wanted: BTreeMap<WatchKey, (i64, Option<Bytes>)> = BTreeMap::new();
        let mut room = true;
        let take = |got: &mut BTreeMap<WatchKey, Vec<(i64, Bytes)>>, responses: Vec<(WatchKey, WatchResponse)>| {
            for (id, response) in responses {
                let events = response.events.iter().map(|event| (event.kv.mod_revision, event.kv.key.clone()));
                got.entry(id).or_default().extend(events);
            }
        };
        let name = |key: u8| Bytes::from(vec![b'a' + key]);
        for (number, step) in steps.into_iter().chain([Step::CatchUp]).enumerate() {
            let request = match step {
                Step::Put(key) => Request::Put(PutRequest::new(name(key), "v")),
                Step::Delete(key) => Request::DeleteRange(DeleteRangeRequest::key(name(key))),
                Step::DeleteAll => Request::DeleteRange(DeleteRangeRequest::prefix("")),
                Step::CatchUp => {
                    for connection in 1..3 {
                        take(&mut got, hub.catch_up(&store, connection));
                    }
                    continue;
                }
                Step::Watch { start, key, connection } => {
                    let id = (connection, number as u64);
                    let request = match key {
                        Some(key) => WatchRequest::key(name(key), start),
                        None => WatchRequest::prefix("", start),
                    };
                    hub.create(&store, id, request);
                    let first = if start == 0 { store.revision() + 1 } else { start };
                    wanted.insert(id, (first, key.map(name)));
                    continue;
                }
                Step::Room(now) => { room = now; continue; }
            };
            if let Some(revision) = store.apply(NOW, &request).revision {
                log.extend(store.events(revision).iter().map(|event| (revision, event.kv.key.clone())));
                take(&mut got, hub.notify(&store, revision, false, |_| room));
            }
        }
        for (id, (first, key)) in wanted {
            let want: Vec<_> = log
                .iter()
                .filter(|(revision, of)| *revision >= first && key.as_ref().is_none_or(|key| key == of))
                .cloned()
                .collect();
            prop_assert_eq!(got.remove(&id).unwrap_or_default(), want);
        }
    }
}
