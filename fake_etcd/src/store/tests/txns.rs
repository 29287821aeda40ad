//! Nested transactions, and which overlaps are refused.

use super::*;
use crate::api::DeleteRangeRequest;

fn nested(request: TxnRequest) -> Op {
    Op::Txn(request)
}

fn delete(key: &'static str, range_end: &'static str) -> Op {
    Op::DeleteRange(DeleteRangeRequest { key: key.into(), range_end: range_end.into(), prev_kv: false })
}

fn absent(key: &'static str) -> Compare {
    Compare::new(key, CompareOp::Equal, CompareTarget::Version(0))
}

#[test]
fn conditions_of_a_nested_transaction_do_not_see_what_the_outer_one_writes() {
    let mut store = Store::new();
    let inner =
        TxnRequest { compare: vec![absent("a")], success: vec![op("b", "1")], failure: vec![op("c", "1")] };
    let response = txn(&mut store, then(vec![op("a", "1"), nested(inner)])).unwrap();
    assert_eq!(response.revision, 2);
    let OpResponse::Txn(inner) = &response.responses[1] else { panic!("{response:?}") };
    // The inner response has no revision of its own.
    assert_eq!((inner.succeeded, inner.revision, inner.responses.len()), (true, 0, 1));
    assert_eq!(keys(&range(&mut store, RangeRequest::prefix("")).unwrap()), ["a", "b"]);
    let events: Vec<_> = store.events(2).iter().map(|event| event.kv.key.clone()).collect();
    assert_eq!(events, ["a", "b"]);
}

#[test]
fn a_refusal_deep_inside_leaves_nothing_behind() {
    let mut store = Store::new();
    let future = Op::Range(RangeRequest { revision: 9, ..RangeRequest::key("a") });
    let request = then(vec![op("a", "1"), nested(then(vec![nested(then(vec![future]))]))]);
    assert_eq!(txn(&mut store, request), Err(EtcdError::FUTURE_REVISION));
    assert_eq!((store.revision(), range(&mut store, RangeRequest::key("a")).unwrap().count), (1, 0));
}

#[test]
fn nested_operations_share_the_limit() {
    let mut store = Store::new();
    let puts = |n: usize| (0..n).map(|i| Op::Range(RangeRequest::key(format!("k{i}")))).collect::<Vec<_>>();
    let with = |outer: usize, inner: usize| {
        let mut ops = puts(outer - 1);
        ops.push(nested(then(puts(inner))));
        then(ops)
    };
    assert!(txn(&mut store, with(100, 28)).is_ok());
    assert_eq!(txn(&mut store, with(100, 29)), Err(EtcdError::TOO_MANY_OPS));
}

#[test]
fn branches_of_a_nested_transaction_may_put_one_key_and_siblings_may_not() {
    let mut store = Store::new();
    let either = TxnRequest { compare: vec![], success: vec![op("a", "1")], failure: vec![op("a", "2")] };
    assert!(txn(&mut store, then(vec![nested(either.clone())])).is_ok());
    let twice = then(vec![nested(either.clone()), nested(either.clone())]);
    assert_eq!(txn(&mut store, twice), Err(EtcdError::DUPLICATE_KEY));
    let with_a_put = then(vec![nested(either.clone()), op("a", "3")]);
    assert_eq!(txn(&mut store, with_a_put), Err(EtcdError::DUPLICATE_KEY));
    // A deletion counts against the puts of later transactions beside it, not of earlier ones.
    let deletes = || nested(then(vec![delete("a", "b")]));
    let after = then(vec![deletes(), nested(either.clone())]);
    assert_eq!(txn(&mut store, after), Err(EtcdError::DUPLICATE_KEY));
    assert!(txn(&mut store, then(vec![nested(either), deletes()])).is_ok());
}

#[test]
fn a_deletion_of_every_key_from_one_on_may_meet_a_put_unless_the_put_keeps_something() {
    let mut store = Store::new();
    put(&mut store, "b", "0");
    let both = then(vec![op("b", "1"), delete("a", "\0")]);
    assert!(txn(&mut store, both).is_ok());
    assert_eq!(range(&mut store, RangeRequest::key("b")).unwrap().count, 0);
    assert_eq!(store.events(3).len(), 2);
    put(&mut store, "b", "2");
    let keeps = Op::Put(PutRequest { ignore_value: true, ..PutRequest::new("b", "") });
    let request = then(vec![delete("a", "\0"), keeps]);
    // Here etcd would end, and end again at every start.
    assert_eq!(txn(&mut store, request), Err(EtcdError::DUPLICATE_KEY));
}

#[test]
fn a_negative_revision_is_now_for_a_range_and_compacted_inside_a_transaction() {
    let mut store = Store::new();
    put(&mut store, "a", "0");
    let past = || RangeRequest { revision: -2, ..RangeRequest::key("a") };
    assert_eq!(range(&mut store, past()).unwrap().count, 1);
    assert_eq!(txn(&mut store, then(vec![Op::Range(past())])), Err(EtcdError::COMPACTED));
}

#[test]
fn status_counts_proposals_starts_and_bytes() {
    let mut store = Store::new();
    let status = |store: &mut Store| match run(store, Request::Status) {
        Ok(Response::Status(status)) => status,
        other => panic!("{other:?}"),
    };
    put(&mut store, "key", "value");
    let refused = run(&mut store, Request::LeaseRevoke { id: 7 });
    assert_eq!(refused, Err(EtcdError::LEASE_NOT_FOUND));
    range(&mut store, RangeRequest::key("key")).unwrap();
    let before = status(&mut store);
    assert_eq!((before.revision, before.raft_index, before.raft_term, before.db_size_bytes), (2, 2, 1, 8));
    store.recover(START);
    put(&mut store, "key", "longer value");
    assert_eq!(status(&mut store).db_size_bytes, 23);
    run(&mut store, Request::Compact { revision: 3 }).unwrap();
    let after = status(&mut store);
    assert_eq!((after.raft_index, after.raft_term, after.db_size_bytes), (5, 2, 15));
}

#[test]
fn a_serializable_read_lags_only_by_its_quirk() {
    for (lag, value) in [(0, "2"), (1, "1")] {
        let quirks = Quirks { serializable_lag_revisions: lag, ..Default::default() };
        let mut store = Store::with_quirks(quirks);
        put(&mut store, "k", "1");
        put(&mut store, "k", "2");
        let serializable = RangeRequest { serializable: true, ..RangeRequest::key("k") };
        let response = range(&mut store, serializable.clone()).unwrap();
        assert_eq!((response.kvs[0].value.as_ref(), response.revision), (value.as_bytes(), 3 - lag));
        assert_eq!(range(&mut store, RangeRequest::key("k")).unwrap().kvs[0].value, "2");
        // What was compacted meanwhile nobody reads, however far behind.
        run(&mut store, Request::Compact { revision: 3 }).unwrap();
        assert_eq!(range(&mut store, serializable).unwrap().kvs[0].value, "2");
    }
}
