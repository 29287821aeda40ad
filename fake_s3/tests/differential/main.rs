//! The fake against real S3-compatible servers: the same generated operations at both, through `object_store`'s
//! traits, every answer compared.
//!
//! Method: a case is a seed; its steps run on a fresh bucket of the server and on a fresh fake, one by one. What
//! differs and is not explained is shrunk and reported. Compared are results, error variants and codes, keys, sizes,
//! bytes, page boundaries and which ETags are equal to which. Not compared: the ETags themselves, dates, and texts.
//!
//! Run: `.ci/s3-differential`, which starts the servers. By hand: `WAVETANK_S3_SERVERS="moto=127.0.0.1:5000"
//! cargo test -p fake_s3 --features differential --test differential`; `WAVETANK_S3_CASES="moto=300"` sets how many.
#![expect(clippy::disallowed_methods, reason = "meets real servers, named by the environment")]

mod case;
mod explained;
mod listing;
mod ops;
mod outcome;
mod raw;
mod shrink;
mod side;

use case::{Server, Verdict};
use futures_util::{StreamExt, stream};
use std::collections::BTreeMap;

const STEPS: u32 = 50;
/// Cases at work at once.
const LANES: usize = 6;

/// The servers to compare with; none, and a line that says so, where the environment names none.
fn servers() -> Vec<Server> {
    let named = std::env::var("WAVETANK_S3_SERVERS").unwrap_or_default();
    if named.is_empty() {
        println!("skipped: WAVETANK_S3_SERVERS names no server; run .ci/s3-differential, which starts some");
    }
    let pairs = named.split_whitespace().filter_map(|server| server.split_once('='));
    pairs.map(|(name, address)| Server::new(name, address)).collect()
}

fn cases(server: &str) -> u64 {
    let named = std::env::var("WAVETANK_S3_CASES").unwrap_or_default();
    let mut pairs = named.split_whitespace().filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(name, _)| *name == server);
    found.map_or(20, |(_, cases)| cases.parse().expect("a number of cases"))
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_operations_have_the_same_results() {
    for server in servers() {
        let (mut compared, mut explained, mut different) = (0, BTreeMap::new(), Vec::new());
        let seeds = 1..=cases(&server.name);
        let mut verdicts = stream::iter(seeds.clone().map(|seed| {
            let server = server.clone();
            async move { (seed, case::run(&server, &ops::case(seed, STEPS, server.keys)).await) }
        }))
        .buffer_unordered(LANES);
        while let Some((seed, Verdict { compared: steps, explained: names, difference })) =
            verdicts.next().await
        {
            compared += steps;
            for name in names {
                *explained.entry(name).or_insert(0) += 1;
            }
            if difference.is_some() {
                different.push(seed);
            }
        }
        let unexplained = different.len();
        println!(
            "{}: {} cases, {compared} operations compared, {unexplained} cases with an unexplained difference; explained:",
            server.name,
            seeds.count()
        );
        for (name, times) in &explained {
            println!("  {times:6} {name}");
        }
        for seed in different.iter().take(6) {
            println!(
                "seed {seed}:\n{}",
                shrink::shortest(&server, ops::case(*seed, STEPS, server.keys)).await
            );
        }
        assert_eq!(unexplained, 0, "seeds {different:?}");
        assert!(compared > 0, "{}: nothing was compared", server.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_explained_difference_still_shows() {
    for server in servers() {
        for one in explained::of(&server.name) {
            let verdict = case::run(&server, &one.steps()).await;
            let Verdict { explained, difference, .. } = verdict;
            assert!(
                difference.is_none() && explained.last() == Some(&one.name),
                "{}, {}: differs no longer, or otherwise: {explained:?} {difference:?}",
                server.name,
                one.name,
            );
        }
    }
}
