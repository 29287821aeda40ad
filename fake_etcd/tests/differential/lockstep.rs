//! Does the same operations at a real server and at the fake, compares every answer, and makes a difference small.

use crate::operation::{Step, step};
use crate::outcome::{self, Outcome, same};
use crate::real;
use crate::watches::Watches;
use bytes::Bytes;
use etcd_client as etcd;
use fake_etcd::Client;
use fake_etcd::api::*;
use std::collections::BTreeMap;

/// How often a failing case may be run again to make it small.
const SHRINK_RUNS: u32 = 200;

pub(crate) struct Lockstep {
    pub(crate) real: etcd::Client,
    pub(crate) fake: Client,
    /// Requests, watches and sentinels done at both sides.
    pub(crate) operations: u64,
    pub(crate) events: u64,
    /// Differences that `docs/fidelity-etcd.md` has.
    pub(crate) explained: u64,
    pub(crate) version: String,
}

/// Why a case failed, and after which of its steps.
struct Difference {
    at: usize,
    what: String,
}

impl Lockstep {
    /// Runs a case of `length` steps; a difference comes back made small, in words.
    pub(crate) async fn case(&mut self, seed: u64, length: u64) -> Result<(), String> {
        let whole: Vec<u64> = (0..length).collect();
        let Err(first) = self.run(seed, length, &whole).await else { return Ok(()) };
        let mut steps = whole[..=first.at].to_vec();
        let mut difference = first;
        let (mut chunk, mut runs) = (steps.len().div_ceil(2), 0);
        while chunk > 0 && runs < SHRINK_RUNS {
            let mut from = 0;
            while from < steps.len() && runs < SHRINK_RUNS {
                let mut fewer = steps.clone();
                fewer.drain(from..(from + chunk).min(steps.len()));
                runs += 1;
                match self.run(seed, length, &fewer).await {
                    Err(smaller) => {
                        fewer.truncate(smaller.at + 1);
                        (steps, difference) = (fewer, smaller);
                    }
                    Ok(()) => from += chunk,
                }
            }
            chunk /= 2;
        }
        let told: Vec<_> = steps.iter().map(|n| format!("  {n}: {:?}", step(seed, *n, length, 0))).collect();
        Err(format!("seed {seed}, steps (from revision 0):\n{}\n{}", told.join("\n"), difference.what))
    }

    async fn run(&mut self, seed: u64, length: u64, steps: &[u64]) -> Result<(), Difference> {
        let base = self.reset().await;
        let mut watches = Watches::default();
        for (at, n) in steps.iter().enumerate() {
            let step = step(seed, *n, length, base);
            self.step(&mut watches, step).await.map_err(|what| Difference { at, what })?;
        }
        let at = steps.len().saturating_sub(1);
        self.settle(&mut watches).await.map_err(|what| Difference { at, what })?;
        self.events += watches.events();
        watches.compare(&self.version).map_err(|what| Difference { at, what })
    }

    async fn step(&mut self, watches: &mut Watches, step: Step) -> Result<(), String> {
        match step {
            Step::Call(request) => {
                // What a watch that is still behind would lose to a compaction depends on the real server's timers.
                if matches!(request, Request::Compact { .. }) {
                    self.settle(watches).await?;
                }
                self.both(&request).await.map(drop)
            }
            Step::Watch(id, request) => {
                self.operations += 1;
                watches.begin(&self.real, &self.fake, id, request).await;
                Ok(())
            }
            Step::Unwatch(id) => {
                watches.end(id).await;
                Ok(())
            }
        }
    }

    /// Does a request at both sides; the answer, if they agree on it.
    pub(crate) async fn both(&mut self, request: &Request) -> Result<Outcome, String> {
        self.operations += 1;
        let (real, fake) = tokio::join!(real::call(&self.real, request), self.fake(request));
        if same(&real, &fake) {
            return Ok(real);
        }
        if outcome::explained(&self.version, request, &real, &fake) {
            self.explained += 1;
            return Ok(real);
        }
        Err(format!("{request:?}\n  real: {real:?}\n  fake: {fake:?}"))
    }

    /// Does a request at both sides, whatever they agree on.
    pub(crate) async fn same(&mut self, request: &Request) -> Result<(), String> {
        self.both(request).await.map(drop)
    }

    async fn fake(&self, request: &Request) -> Outcome {
        outcome::of_fake(self.fake.call(request.clone()).await)
    }

    /// Brings every watch to the current revision at both sides.
    async fn settle(&mut self, watches: &mut Watches) -> Result<(), String> {
        let mut made = BTreeMap::new();
        for key in watches.sentinels() {
            let put = self.both(&Request::Put(PutRequest::new(key.clone(), "sentinel"))).await?;
            let delete = self.both(&Request::DeleteRange(DeleteRangeRequest::key(key.clone()))).await?;
            let (Ok(Response::Put(put)), Ok(Response::DeleteRange(delete))) = (put, delete) else {
                return Err("a sentinel was refused".to_string());
            };
            made.insert(key, (put.revision, delete.revision));
        }
        watches.settle(&made).await
    }

    /// Empties both stores and brings them to one revision, where a case begins, even after a difference.
    async fn reset(&mut self) -> i64 {
        let everything = Request::DeleteRange(DeleteRangeRequest::prefix(""));
        let leases = |outcome: Outcome| match outcome {
            Ok(Response::LeaseLeases { ids, .. }) => ids,
            other => panic!("{other:?}"),
        };
        let revision = |outcome: Outcome| match outcome {
            Ok(Response::Range(range)) => range.revision,
            other => panic!("{other:?}"),
        };
        real::call(&self.real, &everything).await.expect("the real server serves");
        self.fake(&everything).await.expect("the fake serves");
        for id in leases(real::call(&self.real, &Request::LeaseLeases).await) {
            real::call(&self.real, &Request::LeaseRevoke { id }).await.expect("it was listed");
        }
        for id in leases(self.fake(&Request::LeaseLeases).await) {
            self.fake(&Request::LeaseRevoke { id }).await.expect("it was listed");
        }
        let now = Request::Range(RangeRequest::key("any"));
        let made = Request::Put(PutRequest::new("z", ""));
        loop {
            let real = revision(real::call(&self.real, &now).await);
            let fake = revision(self.fake(&now).await);
            match real.cmp(&fake) {
                std::cmp::Ordering::Less => drop(real::call(&self.real, &made).await),
                std::cmp::Ordering::Greater => drop(self.fake(&made).await),
                std::cmp::Ordering::Equal => {
                    let rest = Request::DeleteRange(DeleteRangeRequest::key(Bytes::from_static(b"z")));
                    if self.both(&rest).await.is_ok() {
                        // Refused at both sides if nothing was written since the last time.
                        let compact = Request::Compact { revision: real };
                        let _ = (real::call(&self.real, &compact).await, self.fake(&compact).await);
                        return revision(self.fake(&now).await);
                    }
                }
            }
        }
    }
}
