//! Raw readers: what they see of the whole log, by Fetch requests to one agent after the other, and what is left at the
//! end of a run.

use crate::cluster::COORDINATOR;
use crate::config::{Config, ETCD_PORT, TOPIC};
use crate::log::{Log, Remains};
use check::look::{Batch, Kind, Look};
use check::out_of_range::Refused;
use client::{IsolationLevel, Probe, Probed, ProbedBatch};
use rt::time::{Instant, sleep};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long it waits for one answer, in milliseconds.
const ANSWER_LIMIT_MS: u64 = 3_000;
/// Kafka's error code.
const OFFSET_OUT_OF_RANGE: i16 = 1;
/// Everything must be decided this long after the last worker is done: a transaction that was given up runs into its
/// timeout, is found by a scan, and is finished by another.
const DECIDED_LIMIT: Duration = Duration::from_secs(120);
/// A prepared transaction must be finished this long after all trouble: two scans, and the time-outs between.
const FINISHED_LIMIT: Duration = Duration::from_secs(30);
/// What is being ended is ended in that time, where there is no trouble.
const ENDED_LIMIT: Duration = Duration::from_secs(5);
/// Wait between two looks at what is not over yet.
const PAUSE: Duration = Duration::from_secs(1);

/// A raw reader. Its machine's clocks must be right: looks of several are compared.
pub(crate) struct Looker {
    probe: Probe,
    agents: Vec<String>,
    partitions: Vec<i32>,
    log: Log,
    turn: usize,
}

impl Looker {
    pub(crate) fn new(name: &str, config: &Config, log: Log) -> Self {
        Looker {
            probe: Probe::new(name, ANSWER_LIMIT_MS),
            agents: config.bootstrap_servers(),
            partitions: (0..config.partitions as i32).collect(),
            log,
            turn: 0,
        }
    }

    /// Reads everything again and again.
    pub(crate) async fn look_for(&mut self, for_ms: u64, every_ms: u64) {
        let deadline = Instant::now() + Duration::from_millis(for_ms);
        while Instant::now() < deadline {
            self.read_all().await;
            sleep(Duration::from_millis(every_ms)).await;
        }
    }

    /// Reads every partition from its start to its end, by one agent, which is another one the next time. False if
    /// that agent did not answer to the end.
    async fn read_all(&mut self) -> bool {
        self.turn += 1;
        let agent = self.agents[self.turn % self.agents.len()].clone();
        let mut from: BTreeMap<i32, i64> = self.partitions.iter().map(|partition| (*partition, 0)).collect();
        while !from.is_empty() {
            let offsets: Vec<(i32, i64)> =
                from.iter().map(|(partition, offset)| (*partition, *offset)).collect();
            let Some(answer) = self.ask(&agent, &offsets).await else { return false };
            let stuck = answer
                .iter()
                .all(|probed| probed.batches.is_empty() && probed.high_watermark > from[&probed.partition]);
            if stuck {
                return false;
            }
            for probed in answer {
                let end = probed.batches.last().map(|batch| batch.last_offset + 1);
                match end.filter(|end| *end < probed.high_watermark) {
                    Some(end) => from.insert(probed.partition, end),
                    // An empty part of an answer that is full says nothing about the end of the log.
                    None if end.is_none() && from[&probed.partition] < probed.high_watermark => continue,
                    None => from.remove(&probed.partition),
                };
            }
        }
        true
    }

    /// One request, and a note of what it showed; `None` if it failed, for a partition or as a whole.
    async fn ask(&mut self, agent: &str, offsets: &[(i32, i64)]) -> Option<Vec<Probed>> {
        let invoked_ns = Instant::now().as_nanos();
        let answer = self.probe.fetch(agent, TOPIC, offsets, IsolationLevel::ReadUncommitted).await.ok()?;
        let answered_ns = Instant::now().as_nanos();
        let asked_for = |partition: i32| {
            offsets.iter().find(|(asked, _)| *asked == partition).map_or(-1, |(_, from)| *from)
        };
        let out_of_range = answer.iter().filter(|probed| probed.code == OFFSET_OUT_OF_RANGE);
        let refused = out_of_range.map(|probed| Refused {
            invoked_ns,
            answered_ns,
            partition: i64::from(probed.partition),
            from_offset: asked_for(probed.partition),
        });
        self.log.lock().refused.extend(refused);
        let good = answer.iter().filter(|probed| probed.code == 0);
        let looks = good.map(|probed| Look {
            invoked_ns,
            answered_ns,
            partition: i64::from(probed.partition),
            from_offset: asked_for(probed.partition),
            high_watermark: probed.high_watermark,
            last_stable_offset: probed.last_stable_offset,
            log_start_offset: probed.log_start_offset,
            batches: probed.batches.iter().map(batch).collect(),
        });
        self.log.lock().looks.extend(looks);
        answer.iter().all(|probed| probed.code == 0).then_some(answer)
    }

    /// Partitions that the last look at each found undecided, or that nobody could look at.
    fn undecided(&self) -> Vec<i64> {
        let facts = self.log.lock();
        let newest = |partition: i64| facts.looks.iter().rev().find(|look| look.partition == partition);
        let decided = |look: &Look| look.last_stable_offset == look.high_watermark;
        let all = self.partitions.iter().map(|partition| i64::from(*partition));
        all.filter(|partition| !newest(*partition).is_some_and(decided)).collect()
    }
}

fn batch(probed: &ProbedBatch) -> Batch {
    Batch {
        base_offset: probed.base_offset,
        last_offset: probed.last_offset,
        producer_id: probed.producer_id,
        epoch: probed.epoch,
        base_sequence: probed.base_sequence,
        kind: match (probed.marker, probed.transactional) {
            (Some(true), _) => Kind::Commit,
            (Some(false), _) => Kind::Abort,
            (None, true) => Kind::Transactional,
            (None, false) => Kind::Plain,
        },
        digest: rt::choice::stable_hash(&probed.bytes),
    }
}

/// Looks until everything is decided, reads the log once more by every agent, and notes what is left.
pub(crate) async fn last_looks(config: Config, log: Log) {
    let began = Instant::now();
    let mut looker = Looker::new("looker", &config, log.clone());
    loop {
        let whole = looker.read_all().await;
        if (whole && looker.undecided().is_empty()) || began + DECIDED_LIMIT < Instant::now() {
            break;
        }
        sleep(PAUSE).await;
    }
    for _ in 0..config.agents {
        looker.read_all().await;
    }
    rt::time::sleep_until(began + FINISHED_LIMIT).await;
    let etcd =
        fake_etcd::Client::new(format!("{COORDINATOR}:{ETCD_PORT}"), fake_etcd::ClientConfig::default());
    // One that is being ended just now, because it has timed out, is another one in a while.
    let before = transactions(&etcd).await;
    sleep(ENDED_LIMIT).await;
    let mut transactions = transactions(&etcd).await;
    transactions.retain(|id, revision| before.get(id) == Some(revision));
    let remains = Remains { undecided: looker.undecided(), transactions };
    log.lock().remains = Some(remains);
}

/// The mod revision of every transactional id's state.
async fn transactions(etcd: &fake_etcd::Client) -> BTreeMap<String, i64> {
    loop {
        match etcd.range(fake_etcd::api::RangeRequest::prefix("txns/")).await {
            Ok(found) => {
                let states = found.kvs.iter();
                return states
                    .map(|kv| (String::from_utf8_lossy(&kv.key).into_owned(), kv.mod_revision))
                    .collect();
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}
