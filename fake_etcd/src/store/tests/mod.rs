//! One test a rule, with the values a new single-member etcd gives.

mod leases;
mod txns;

use super::*;
use crate::api::{
    Compare, CompareOp, CompareTarget, Op, OpResponse, SortOrder, SortTarget, TxnRequest, TxnResponse,
};
use bytes::Bytes;

const START: Instant = Instant::from_nanos(0);

fn run(store: &mut Store, request: Request) -> Result<Response, EtcdError> {
    store.apply(START, &request).response
}

fn put(store: &mut Store, key: &'static str, value: &'static str) -> i64 {
    match run(store, Request::Put(PutRequest::new(key, value))).unwrap() {
        Response::Put(response) => response.revision,
        other => panic!("{other:?}"),
    }
}

fn range(store: &mut Store, request: RangeRequest) -> Result<RangeResponse, EtcdError> {
    run(store, Request::Range(request)).map(|response| match response {
        Response::Range(response) => response,
        other => panic!("{other:?}"),
    })
}

fn txn(store: &mut Store, request: TxnRequest) -> Result<TxnResponse, EtcdError> {
    run(store, Request::Txn(request)).map(|response| match response {
        Response::Txn(response) => response,
        other => panic!("{other:?}"),
    })
}

fn keys(response: &RangeResponse) -> Vec<&str> {
    response.kvs.iter().map(|kv| std::str::from_utf8(&kv.key).unwrap()).collect()
}

fn op(key: &'static str, value: &'static str) -> Op {
    Op::Put(PutRequest::new(key, value))
}

fn then(success: Vec<Op>) -> TxnRequest {
    TxnRequest { success, ..Default::default() }
}

#[test]
fn a_new_store_is_at_revision_1_and_the_first_put_makes_2() {
    let mut store = Store::new();
    assert_eq!(range(&mut store, RangeRequest::key("foo")).unwrap().revision, 1);
    assert_eq!(put(&mut store, "foo", "bar"), 2);
    assert_eq!(put(&mut store, "foo", "baz"), 3);
    let response = range(&mut store, RangeRequest::key("foo")).unwrap();
    let want = KeyValue {
        key: "foo".into(),
        value: "baz".into(),
        create_revision: 2,
        mod_revision: 3,
        version: 2,
        lease: 0,
    };
    assert_eq!(*response.kvs[0], want);
    assert_eq!((response.count, response.more), (1, false));
}

#[test]
fn a_deletion_makes_a_revision_only_if_it_deletes_and_restarts_versions() {
    let mut store = Store::new();
    put(&mut store, "foo", "bar");
    let delete = |store: &mut Store| {
        run(
            store,
            Request::DeleteRange(DeleteRangeRequest { prev_kv: true, ..DeleteRangeRequest::key("foo") }),
        )
    };
    let Ok(Response::DeleteRange(first)) = delete(&mut store) else { panic!() };
    assert_eq!((first.deleted, first.revision, first.prev_kvs[0].value.as_ref()), (1, 3, &b"bar"[..]));
    let Ok(Response::DeleteRange(second)) = delete(&mut store) else { panic!() };
    assert_eq!((second.deleted, second.revision), (0, 3));
    put(&mut store, "foo", "again");
    let kv = range(&mut store, RangeRequest::key("foo")).unwrap().kvs[0].clone();
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version), (4, 4, 1));
}

#[test]
fn a_range_is_half_open_and_its_end_may_be_open() {
    let mut store = Store::new();
    for key in ["a", "b", "b1", "b2", "c"] {
        put(&mut store, key, "");
    }
    let mut between = |key: &'static str, range_end: &'static str| {
        let request = RangeRequest { range_end: range_end.into(), ..RangeRequest::key(key) };
        keys(&range(&mut store, request).unwrap()).join(" ")
    };
    assert_eq!(between("b", "c"), "b b1 b2");
    assert_eq!(between("b1", "\0"), "b1 b2 c");
    assert_eq!(between("\0", "\0"), "a b b1 b2 c");
    assert_eq!(between("c", "a"), "");
    assert_eq!(keys(&range(&mut store, RangeRequest::prefix("b")).unwrap()), ["b", "b1", "b2"]);
    assert_eq!(crate::api::prefix_end(b"a\xff\xff"), "b");
    assert_eq!(crate::api::prefix_end(b"\xff"), "\0");
}

#[test]
fn limit_count_keys_only_sort_and_bounds() {
    let mut store = Store::new();
    for (key, value) in [("a", "3"), ("b", "1"), ("c", "2"), ("a", "4")] {
        put(&mut store, key, value);
    }
    let all = RangeRequest::prefix("");
    let limited = range(&mut store, RangeRequest { limit: 2, ..all.clone() }).unwrap();
    assert_eq!((keys(&limited), limited.count, limited.more), (vec!["a", "b"], 3, true));
    let exact = range(&mut store, RangeRequest { limit: 3, ..all.clone() }).unwrap();
    assert_eq!((exact.kvs.len(), exact.more), (3, false));
    let counted = range(&mut store, RangeRequest { count_only: true, limit: 1, ..all.clone() }).unwrap();
    assert_eq!((counted.kvs.len(), counted.count, counted.more), (0, 3, false));
    let named = range(&mut store, RangeRequest { keys_only: true, ..all.clone() }).unwrap();
    assert!(named.kvs.iter().all(|kv| kv.value.is_empty()));
    let sort = Some((SortTarget::Value, SortOrder::Descend));
    let sorted = range(&mut store, RangeRequest { sort, limit: 2, ..all.clone() }).unwrap();
    assert_eq!((keys(&sorted), sorted.more), (vec!["a", "c"], true));
    let bounded =
        range(&mut store, RangeRequest { min_mod_revision: 4, max_mod_revision: 4, ..all }).unwrap();
    assert_eq!((keys(&bounded), bounded.count), (vec!["c"], 3));
}

#[test]
fn a_range_reads_the_past_until_it_is_compacted() {
    let mut store = Store::new();
    put(&mut store, "k", "2");
    put(&mut store, "k", "3");
    put(&mut store, "k", "4");
    let mut at = |revision| range(&mut store, RangeRequest { revision, ..RangeRequest::key("k") });
    assert_eq!(at(2).unwrap().kvs[0].value, "2");
    assert_eq!(at(2).unwrap().revision, 4, "the header has the current revision");
    assert_eq!(at(1).unwrap().kvs, []);
    assert_eq!(at(5), Err(EtcdError::FUTURE_REVISION));
    assert_eq!(run(&mut store, Request::Compact { revision: 5 }), Err(EtcdError::FUTURE_REVISION));
    run(&mut store, Request::Compact { revision: 3 }).unwrap();
    assert_eq!(run(&mut store, Request::Compact { revision: 3 }), Err(EtcdError::COMPACTED));
    let mut at = |revision| range(&mut store, RangeRequest { revision, ..RangeRequest::key("k") });
    assert_eq!(at(2), Err(EtcdError::COMPACTED));
    assert_eq!(at(3).unwrap().kvs[0].value, "3");
}

#[test]
fn a_transaction_makes_one_revision_and_sees_its_own_writes() {
    let mut store = Store::new();
    put(&mut store, "a", "0");
    let ops = vec![
        Op::Range(RangeRequest::key("b")),
        op("b", "1"),
        Op::Range(RangeRequest::key("b")),
        Op::DeleteRange(DeleteRangeRequest::key("a")),
    ];
    let response = txn(&mut store, then(ops)).unwrap();
    assert_eq!((response.revision, response.succeeded), (3, true));
    let [
        OpResponse::Range(before),
        OpResponse::Put(put),
        OpResponse::Range(after),
        OpResponse::DeleteRange(gone),
    ] = &response.responses[..]
    else {
        panic!("{response:?}")
    };
    assert_eq!((before.revision, before.count), (2, 0));
    assert_eq!(put.revision, 3);
    assert_eq!((after.revision, after.kvs[0].mod_revision), (3, 3));
    assert_eq!((gone.revision, gone.deleted), (3, 1));
    let events: Vec<_> = store.events(3).iter().map(|event| (event.kind, event.kv.key.clone())).collect();
    assert_eq!(events, [(EventKind::Put, Bytes::from("b")), (EventKind::Delete, Bytes::from("a"))]);
}

#[test]
fn a_transaction_that_writes_nothing_makes_no_revision() {
    let mut store = Store::new();
    put(&mut store, "a", "0");
    let reads = txn(&mut store, then(vec![Op::Range(RangeRequest::key("a"))])).unwrap();
    assert_eq!(reads.revision, 2);
    let deletes = txn(&mut store, then(vec![Op::DeleteRange(DeleteRangeRequest::key("zzz"))])).unwrap();
    assert_eq!(deletes.revision, 2);
    assert_eq!(store.revision(), 2);
}

#[test]
fn compares_choose_the_branch() {
    let mut store = Store::new();
    put(&mut store, "k", "b");
    put(&mut store, "k", "c");
    use CompareOp::{Equal, Greater, Less, NotEqual};
    use CompareTarget::{CreateRevision, Lease, ModRevision, Value, Version};
    let mut holds = |key: &'static str, op, target| {
        let compare = vec![Compare::new(key, op, target)];
        txn(&mut store, TxnRequest { compare, ..Default::default() }).unwrap().succeeded
    };
    assert!(holds("k", Equal, Version(2)) && !holds("k", NotEqual, Version(2)));
    assert!(holds("k", Equal, CreateRevision(2)) && holds("k", Less, CreateRevision(3)));
    assert!(holds("k", Equal, ModRevision(3)) && holds("k", Greater, ModRevision(2)));
    assert!(holds("k", Equal, Value("c".into())) && holds("k", Greater, Value("b".into())));
    assert!(holds("k", Equal, Lease(0)) && !holds("k", Equal, Lease(1)));
    assert!(holds("gone", Equal, Version(0)) && holds("gone", Equal, ModRevision(0)));
    assert!(!holds("gone", Equal, Value("".into())) && !holds("gone", NotEqual, Value("x".into())));
    let range = Compare { range_end: "\0".into(), ..Compare::new("\0", Greater, CreateRevision(1)) };
    assert!(txn(&mut store, TxnRequest { compare: vec![range], ..Default::default() }).unwrap().succeeded);
}

#[test]
fn the_failure_branch_is_taken_when_one_compare_fails() {
    let mut store = Store::new();
    let request = TxnRequest {
        compare: vec![
            Compare::new("k", CompareOp::Equal, CompareTarget::Version(0)),
            Compare::new("k", CompareOp::Equal, CompareTarget::Version(1)),
        ],
        success: vec![op("won", "")],
        failure: vec![op("lost", "")],
    };
    let response = txn(&mut store, request).unwrap();
    assert_eq!((response.succeeded, response.revision), (false, 2));
    assert_eq!(keys(&range(&mut store, RangeRequest::prefix("")).unwrap()), ["lost"]);
}

#[test]
fn a_key_is_put_once_in_a_transaction_and_not_where_it_is_deleted() {
    let mut store = Store::new();
    assert_eq!(txn(&mut store, then(vec![op("k", "1"), op("k", "2")])), Err(EtcdError::DUPLICATE_KEY));
    let overlap = vec![op("k", "1"), Op::DeleteRange(DeleteRangeRequest::prefix("k"))];
    // Also in the branch that is not taken.
    let request = TxnRequest { failure: overlap, ..Default::default() };
    assert_eq!(txn(&mut store, request), Err(EtcdError::DUPLICATE_KEY));
    let twice =
        vec![Op::DeleteRange(DeleteRangeRequest::key("k")), Op::DeleteRange(DeleteRangeRequest::key("k"))];
    assert!(txn(&mut store, then(twice)).is_ok());
    assert_eq!(store.revision(), 1);
}

#[test]
fn requests_are_limited_in_operations_and_bytes() {
    let mut store = Store::new();
    let ops = |n: usize| (0..n).map(|i| Op::Put(PutRequest::new(format!("k{i}"), ""))).collect::<Vec<_>>();
    assert_eq!(txn(&mut store, then(ops(128))).unwrap().responses.len(), 128);
    assert_eq!(txn(&mut store, then(ops(129))), Err(EtcdError::TOO_MANY_OPS));
    let put = |bytes: usize| Request::Put(PutRequest::new("k", vec![0; bytes]));
    assert!(run(&mut store, put(1_572_864 - 25)).is_ok());
    assert_eq!(run(&mut store, put(1_572_864 - 24)), Err(EtcdError::REQUEST_TOO_LARGE));
    assert_eq!(store.revision(), 3);
}

#[test]
fn malformed_requests_are_refused() {
    let mut store = Store::new();
    assert_eq!(range(&mut store, RangeRequest::key("")), Err(EtcdError::EMPTY_KEY));
    assert_eq!(txn(&mut store, then(vec![op("", "")])), Err(EtcdError::EMPTY_KEY));
    let put = |request: PutRequest| Request::Put(request);
    let keep = PutRequest { ignore_value: true, ..PutRequest::new("k", "") };
    assert_eq!(run(&mut store, put(keep.clone())), Err(EtcdError::KEY_NOT_FOUND));
    assert_eq!(
        run(&mut store, put(PutRequest { value: "v".into(), ..keep })),
        Err(EtcdError::VALUE_PROVIDED)
    );
    let leased = PutRequest { lease: 9, ..PutRequest::new("k", "v") };
    assert_eq!(run(&mut store, put(leased.clone())), Err(EtcdError::LEASE_NOT_FOUND));
    // Nothing of a transaction is done when one of its operations is refused.
    assert_eq!(txn(&mut store, then(vec![op("a", ""), Op::Put(leased)])), Err(EtcdError::LEASE_NOT_FOUND));
    let future = Op::Range(RangeRequest { revision: 9, ..RangeRequest::key("a") });
    assert_eq!(txn(&mut store, then(vec![op("a", ""), future])), Err(EtcdError::FUTURE_REVISION));
    assert_eq!(store.revision(), 1);
}

#[test]
fn a_put_may_keep_value_or_lease_and_return_what_was() {
    let mut store = Store::new();
    run(&mut store, Request::LeaseGrant { ttl_s: 10, id: 5 }).unwrap();
    run(&mut store, Request::Put(PutRequest { lease: 5, ..PutRequest::new("k", "1") })).unwrap();
    let keep_lease = PutRequest { ignore_lease: true, prev_kv: true, ..PutRequest::new("k", "2") };
    let Ok(Response::Put(response)) = run(&mut store, Request::Put(keep_lease)) else { panic!() };
    assert_eq!(response.prev_kv.unwrap().value, "1");
    let keep_value = PutRequest { ignore_value: true, ..PutRequest::new("k", "") };
    run(&mut store, Request::Put(keep_value)).unwrap();
    let kv = range(&mut store, RangeRequest::key("k")).unwrap().kvs[0].clone();
    // The last put named no lease, and so detached it.
    assert_eq!((kv.value.as_ref(), kv.lease, kv.version), (&b"2"[..], 0, 3));
    let Ok(Response::LeaseTimeToLive(ttl)) = run(&mut store, Request::LeaseTimeToLive { id: 5, keys: true })
    else {
        panic!()
    };
    assert_eq!(ttl.keys, Vec::<Bytes>::new());
}

#[test]
fn compaction_gives_back_what_was_superseded() {
    let mut store = Store::new();
    for _ in 0..10 {
        put(&mut store, "a", "");
        put(&mut store, "b", "");
    }
    run(&mut store, Request::DeleteRange(DeleteRangeRequest::key("a"))).unwrap();
    assert_eq!(store.index().kept(), (21, 21));
    run(&mut store, Request::Compact { revision: 21 }).unwrap();
    // The last put of "b" at 21, the last put of "a" before it at 20, and its deletion at 22.
    assert_eq!(store.index().kept(), (3, 2));
    run(&mut store, Request::Compact { revision: 22 }).unwrap();
    assert_eq!(store.index().kept(), (2, 1));
    put(&mut store, "c", "");
    run(&mut store, Request::Compact { revision: 23 }).unwrap();
    assert_eq!(store.index().kept(), (2, 1), "of \"a\" nothing is left");
}

#[test]
fn previous_values_are_gone_once_compacted() {
    let mut store = Store::new();
    put(&mut store, "k", "2");
    put(&mut store, "k", "3");
    assert_eq!(store.events(3)[0].prev_kv.as_ref().unwrap().value, "2");
    run(&mut store, Request::Compact { revision: 3 }).unwrap();
    assert_eq!(store.events(3)[0].prev_kv, None);
    assert_eq!(store.events(2), []);
}
