//! Leases by the clock.

use super::*;
use std::time::Duration;

fn seconds(n: f64) -> Instant {
    START + Duration::from_secs_f64(n)
}

fn leased(store: &mut Store, id: i64, ttl_s: i64, keys: &[&'static str]) {
    store.apply(START, &Request::LeaseGrant { ttl_s, id }).response.unwrap();
    for key in keys {
        store
            .apply(START, &Request::Put(PutRequest { lease: id, ..PutRequest::new(*key, "") }))
            .response
            .unwrap();
    }
}

#[test]
fn a_lease_that_runs_out_deletes_its_keys_in_one_revision() {
    let mut store = Store::new();
    leased(&mut store, 5, 3, &["b", "a"]);
    leased(&mut store, 6, 3, &["c"]);
    leased(&mut store, 7, 3, &[]);
    assert_eq!(store.revision(), 4);
    assert_eq!(store.next_expiry(), Some(seconds(3.0)));
    assert_eq!(store.expire(seconds(2.9)), [0; 0]);
    assert_eq!(store.expire(seconds(3.0)), [5, 6]);
    let deleted: Vec<_> = store.events(5).iter().map(|event| event.kv.key.clone()).collect();
    assert_eq!(deleted, ["a", "b"]);
    assert_eq!(run(&mut store, Request::LeaseLeases), Ok(Response::LeaseLeases { revision: 6, ids: vec![] }));
}

#[test]
fn keep_alive_renews_and_answers_0_once_the_lease_is_gone() {
    let mut store = Store::new();
    leased(&mut store, 5, 3, &["k"]);
    let keep = Request::LeaseKeepAlive { id: 5 };
    let renewed = store.apply(seconds(2.0), &keep);
    assert_eq!(renewed.response, Ok(Response::LeaseKeepAlive { revision: 2, id: 5, ttl_s: 3 }));
    assert_eq!(store.next_expiry(), Some(seconds(5.0)));
    // Its time is over, though nobody looked yet: the renewal comes too late, and the keys are gone when it is told so.
    let late = store.apply(seconds(5.0), &keep);
    assert_eq!(late.response, Ok(Response::LeaseKeepAlive { revision: 2, id: 5, ttl_s: 0 }));
    // The header was made before, as in etcd.
    assert_eq!(late.revision, Some(3));
    assert_eq!(store.apply(seconds(5.0), &keep).revision, None);
}

#[test]
fn grants_have_a_least_ttl_and_distinct_ids() {
    let mut store = Store::new();
    let grant = |ttl_s, id| Request::LeaseGrant { ttl_s, id };
    assert_eq!(run(&mut store, grant(1, 5)), Ok(Response::LeaseGrant { revision: 1, id: 5, ttl_s: 2 }));
    assert_eq!(run(&mut store, grant(9, 5)), Err(EtcdError::LEASE_EXISTS));
    assert_eq!(run(&mut store, grant(9_000_000_001, 6)), Err(EtcdError::LEASE_TTL_TOO_LARGE));
    let mut chosen = || match run(&mut store, grant(60, 0)) {
        Ok(Response::LeaseGrant { id, .. }) => id,
        other => panic!("{other:?}"),
    };
    assert!(chosen() != chosen());
}

#[test]
fn time_to_live_counts_whole_seconds_and_says_minus_one_when_gone() {
    let mut store = Store::new();
    leased(&mut store, 5, 10, &["b", "a"]);
    let ask = |store: &mut Store, now| match store
        .apply(now, &Request::LeaseTimeToLive { id: 5, keys: true })
        .response
    {
        Ok(Response::LeaseTimeToLive(response)) => {
            (response.ttl_s, response.granted_ttl_s, response.keys.len())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(ask(&mut store, seconds(0.5)), (9, 10, 2));
    run(&mut store, Request::LeaseRevoke { id: 5 }).unwrap();
    assert_eq!(ask(&mut store, seconds(0.5)), (-1, 0, 0));
    assert_eq!(run(&mut store, Request::LeaseRevoke { id: 5 }), Err(EtcdError::LEASE_NOT_FOUND));
    assert_eq!(store.revision(), 4, "two puts and one revision for both deletions");
}

#[test]
fn a_restart_gives_leases_their_full_ttl_and_an_election_timeout() {
    let mut store = Store::new();
    leased(&mut store, 5, 10, &["k"]);
    store.recover(seconds(9.0));
    assert_eq!(store.next_expiry(), Some(seconds(20.0)));
}

#[test]
fn a_key_leaves_its_lease_when_it_is_deleted_or_put_under_another() {
    let mut store = Store::new();
    leased(&mut store, 5, 10, &["a", "b"]);
    leased(&mut store, 6, 10, &["b"]);
    run(&mut store, Request::DeleteRange(DeleteRangeRequest::key("a"))).unwrap();
    put(&mut store, "a", "mine");
    let before = store.revision();
    run(&mut store, Request::LeaseRevoke { id: 5 }).unwrap();
    assert_eq!(store.revision(), before, "it has no keys left");
    assert_eq!(keys(&range(&mut store, RangeRequest::prefix("")).unwrap()), ["a", "b"]);
}
