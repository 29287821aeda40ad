//! The pure store on one core: guarded transactions a second, and what a range costs in stores of 10^3 to 10^6 keys.
//!
//! Run: `cargo bench -p fake_etcd --bench store`. A transaction compares a key's version and puts it, over 10,000 keys. A
//! range returns ten keys, so its cost should not grow with the store.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's clock"
)]

use fake_etcd::Store;
use fake_etcd::api::*;
use rt::time::Instant as Moment;
use std::time::Instant;

const TRANSACTIONS: u64 = 1_000_000;
const RANGES: u64 = 200_000;
const START: Moment = Moment::from_nanos(0);

fn main() {
    let mut store = Store::new();
    let requests: Vec<_> = (0..10_000).map(|n| guarded(&format!("key/{n:07}"))).collect();
    let started = Instant::now();
    for request in requests.iter().cycle().take(TRANSACTIONS as usize) {
        assert!(store.apply(START, request).revision.is_some(), "the guard holds");
    }
    let rate = TRANSACTIONS as f64 / started.elapsed().as_secs_f64();
    println!("etcd store: {:.0} k transactions/s", rate / 1e3);

    let costs = [1_000, 10_000, 100_000, 1_000_000].map(range_costs);
    for (n, which) in ["any", "50 of them, so from cache"].into_iter().enumerate() {
        let line: Vec<_> = costs.iter().map(|cost| format!("{:.2} us", cost[n])).collect();
        println!(
            "etcd store: a range of 10 keys among 10^3, 10^4, 10^5, 10^6 ({which}): {}",
            line.join(", ")
        );
    }
}

fn guarded(key: &str) -> Request {
    Request::Txn(TxnRequest {
        compare: vec![Compare::new(key.to_string(), CompareOp::Greater, CompareTarget::Version(-1))],
        success: vec![Op::Put(PutRequest::new(key.to_string(), "value"))],
        failure: vec![],
    })
}

/// Microseconds of a range anywhere, and of one among fifty that are read over and over: the first also pays for memory
/// that the processor does not have at hand.
fn range_costs(keys: u64) -> [f64; 2] {
    let mut store = Store::new();
    for n in 0..keys {
        let put = PutRequest::new(format!("key/{n:07}"), "value");
        store.apply(START, &Request::Put(put)).response.expect("a put is taken");
    }
    let groups: Vec<_> =
        (0..keys / 10).map(|n| Request::Range(RangeRequest::prefix(format!("key/{n:06}")))).collect();
    let few = groups.iter().step_by(groups.len() / 50).cloned().collect();
    [groups, few].map(|groups: Vec<Request>| {
        let started = Instant::now();
        for n in 0..RANGES {
            let group = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % groups.len() as u64;
            match store.apply(START, &groups[group as usize]).response {
                Ok(Response::Range(range)) => assert_eq!(range.kvs.len(), 10),
                other => panic!("{other:?}"),
            }
        }
        started.elapsed().as_secs_f64() * 1e6 / RANGES as f64
    })
}
