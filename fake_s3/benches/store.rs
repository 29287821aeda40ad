//! Object operations a second in the pure store on one core, and what a list costs as the bucket grows.
//!
//! Run: `cargo bench -p fake_s3 --bench store`. A list's cost must follow the page and not the bucket: the same page out
//! of 10^3 to 10^6 keys may cost a few times more (an ordered map is deeper, and colder), not a thousand times.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark reads the machine's clock"
)]

use bytes::Bytes;
use fake_s3::Store;
use fake_s3::api::{GetConditions, ListRequest, PutCondition, Request, Response};
use std::time::{Duration, Instant};

/// What the store must do, in operations a second.
const LEAST_PER_S: f64 = 500_000.0;
/// How much more the same page may cost out of a thousand times as many keys.
const LIST_GROWTH_MAX: f64 = 10.0;
const ROUNDS: usize = 3;

fn key(n: usize) -> String {
    format!("topic/{:03}/{n:09}", n % 100)
}

fn put(n: usize, body: &Bytes) -> Request {
    let (body, headers, condition) = (body.clone(), Vec::new(), PutCondition::Always);
    Request::Put { key: key(n), body, headers, condition }
}

fn get(n: usize, head: bool) -> Request {
    Request::Get { key: key(n), range: None, conditions: GetConditions::default(), head }
}

fn filled(keys: usize) -> Store {
    let (mut store, body) = (Store::new(), Bytes::from_static(b"a record"));
    for n in 0..keys {
        store.apply(Duration::ZERO, &put(n, &body)).expect("a put succeeds");
    }
    store
}

/// Small objects from creation to deletion.
fn mixed(requests: &[Request]) -> f64 {
    let mut store = filled(10_000);
    let started = Instant::now();
    for request in requests {
        store.apply(Duration::ZERO, request).expect("each finds what it needs");
    }
    requests.len() as f64 / started.elapsed().as_secs_f64()
}

fn requests() -> Vec<Request> {
    let body = Bytes::from(vec![7; 1024]);
    let life = |n| {
        let created = Request::Put {
            key: key(n),
            body: body.clone(),
            headers: Vec::new(),
            condition: PutCondition::IfNoneMatch,
        };
        [
            created,
            get(n, false),
            get(n - 5_000, false),
            get(n, true),
            put(n, &body),
            Request::Delete { key: key(n - 9_000) },
        ]
    };
    (10_000..60_000).flat_map(life).collect()
}

/// Microseconds for one page of `max_keys` keys.
fn list(store: &mut Store, keys: usize, max_keys: u32, delimiter: Option<&str>) -> f64 {
    const PAGES: usize = 200;
    let started = Instant::now();
    for page in 0..PAGES {
        let request = Request::List(ListRequest {
            prefix: "topic/".to_string(),
            start_after: delimiter.is_none().then(|| key(page * 7919 % keys)),
            delimiter: delimiter.map(str::to_string),
            max_keys: Some(max_keys),
            ..Default::default()
        });
        let listed = store.apply(Duration::ZERO, &request).expect("a list succeeds");
        let Response::List { objects, common_prefixes, .. } = listed else { panic!("a list lists") };
        assert!(delimiter.is_none() || objects.is_empty() && common_prefixes.len() == max_keys as usize);
    }
    started.elapsed().as_secs_f64() * 1e6 / PAGES as f64
}

/// The least of some rounds: what else the machine does only adds.
fn least(mut measure: impl FnMut() -> f64) -> f64 {
    (0..ROUNDS).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

fn main() {
    let requests = requests();
    let per_s = (0..ROUNDS).map(|_| mixed(&requests)).fold(0.0, f64::max);
    println!("store: {:.2} M operations/s (1 KiB objects; put, get, head, delete)", per_s / 1e6);
    let mut costs = Vec::new();
    for keys in [1_000, 10_000, 100_000, 1_000_000] {
        let mut store = filled(keys);
        let (ten, hundred, rolled) = (
            least(|| list(&mut store, keys, 10, None)),
            least(|| list(&mut store, keys, 100, None)),
            least(|| list(&mut store, keys, 10, Some("/"))),
        );
        println!(
            "list: {keys:7} keys: {ten:7.2} us for 10 keys, {hundred:7.2} us for 100, {rolled:7.2} us for 10 common prefixes"
        );
        costs.push([ten, hundred, rolled]);
    }
    let (first, last) = (costs[0], costs[costs.len() - 1]);
    for (small, large) in first.iter().zip(last) {
        assert!(
            large < small * LIST_GROWTH_MAX,
            "a page costs {small:.2} us out of 10^3 keys, {large:.2} out of 10^6"
        );
    }
    assert!(per_s >= LEAST_PER_S, "{per_s:.0} operations/s, fewer than {LEAST_PER_S:.0}");
}
