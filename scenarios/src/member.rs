//! Workers that are members of the group: each polls, works on what it got, and commits. One that commits with
//! transactions writes what it made of each record: where it read it.
//!
//! What happens to its partitions and commits is told by events, from which `group` makes the history.

use crate::config::{Config, RESULTS, TOPIC};
use crate::log::Log;
use crate::plan::{Commits, Life};
use crate::workload::{POLL_MS, RETRY};
use client::{ConsumerRecord, Member, Producer, ProducerRecord, TopicPartition};
use rt::time::{Instant, sleep};
use std::time::Duration;

/// How long a member that closes waits for that.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// A newcomer is in a generation by then: longer than any rebalance without trouble.
const NEWCOMER_LIMIT: Duration = Duration::from_secs(60);

/// Lives one life of a member: a new one after each that failed.
pub(crate) async fn live(worker: &str, config: &Config, life: &Life, log: &Log) {
    let until = life.for_ms.map(|for_ms| Instant::now() + Duration::from_millis(for_ms));
    let is_over = || match until {
        Some(until) => until <= Instant::now(),
        None => log.lock().drained,
    };
    while !is_over() {
        let name = log.incarnation(worker);
        let member = Member::new(config.member(&name, worker, life), config.member_flaws, &[TOPIC]);
        let mut member = member.expect("the configuration has a group and an assignor");
        let mut writer = Writer { worker, name: &name, config, producers: 0, producer: None };
        let fails_on = config.members.fails_on.filter(|_| name == worker);
        let mut work = Work { name: &name, records: 0, fails_on, beside: rt::JoinSet::new() };
        if be(&mut member, &mut writer, &mut work, config, life, is_over).await.is_err() {
            sleep(RETRY).await;
        } else if life.closes {
            work.end().await;
            member.close(CLOSE_LIMIT).await;
        }
    }
}

/// One more member comes when all is over, and stays until it is in a generation: nothing goes wrong in a rebalance
/// without trouble either. Then the members may go.
pub(crate) async fn newcomer(config: Config, log: Log) {
    let life = Life {
        for_ms: None,
        think_ms: 0,
        cooperative: true,
        is_static: false,
        session_timeout_ms: 6_000,
        max_poll_interval_ms: 8_000,
        commits: Commits::Sync,
        closes: true,
    };
    let member = Member::new(config.member("newcomer", "newcomer", &life), config.member_flaws, &[TOPIC]);
    let mut member = member.expect("the configuration has a group and an assignor");
    let deadline = Instant::now() + NEWCOMER_LIMIT;
    while member.group_metadata().generation_id < 0 && Instant::now() < deadline {
        // It is not there to read.
        let _ = member.poll(POLL_MS).await;
    }
    member.close(CLOSE_LIMIT).await;
    log.lock().drained = true;
}

/// Polls until the life is over, its work fails, or the group wants the member no more.
async fn be(
    member: &mut Member,
    writer: &mut Writer<'_>,
    work: &mut Work<'_>,
    config: &Config,
    life: &Life,
    is_over: impl Fn() -> bool,
) -> Result<(), client::Error> {
    let mut uncommitted = false;
    while !is_over() {
        if life.commits == Commits::Transaction {
            writer.be_ready().await;
        }
        let records = member.poll(POLL_MS).await?;
        if records.is_empty() && !uncommitted {
            continue;
        }
        let think = Duration::from_millis(life.think_ms);
        if config.members.work_beside && life.commits == Commits::Auto {
            work.begin(records, think);
            continue;
        }
        if !records.is_empty() {
            sleep(think).await;
        }
        if life.commits != Commits::Transaction && !work.on(&records) {
            return Ok(());
        }
        match life.commits {
            Commits::Auto => {}
            // Who cannot commit polls on, and commits what it has by then.
            Commits::Sync => uncommitted = member.commit().await.is_err(),
            Commits::Transaction => {
                if !writer.write(member, &records).await {
                    member.seek_to_committed();
                }
            }
        }
    }
    Ok(())
}

/// What a member does with records beside handing them on.
struct Work<'a> {
    name: &'a str,
    /// Records worked on.
    records: u64,
    fails_on: Option<u64>,
    /// What it works on while it polls.
    beside: rt::JoinSet<()>,
}

impl Work<'_> {
    /// Begins to work on records, which takes some time.
    fn begin(&mut self, records: Vec<ConsumerRecord>, think: Duration) {
        let name = self.name.to_string();
        self.beside.spawn("member.work", async move {
            sleep(think).await;
            records.iter().for_each(|record| tell(&name, record));
        });
    }

    /// Waits for all that it began.
    async fn end(&mut self) {
        while self.beside.join_next().await.is_some() {}
    }

    /// Works on one record after the other. False if that failed.
    fn on(&mut self, records: &[ConsumerRecord]) -> bool {
        for record in records {
            self.records += 1;
            if self.fails_on == Some(self.records) {
                return false;
            }
            tell(self.name, record);
        }
        true
    }
}

/// The work on a record is done.
fn tell(name: &str, record: &ConsumerRecord) {
    let partition = record.partition.to_string();
    rt::event!("member.processed", client = name, partition = &partition, offset = record.offset);
}

/// The producing side of a member. Its transactional id is the worker's, so that each incarnation fences the one before.
struct Writer<'a> {
    worker: &'a str,
    name: &'a str,
    config: &'a Config,
    producers: u32,
    producer: Option<Producer>,
}

impl Writer<'_> {
    /// Writes a result for each record and commits the member's positions, all or nothing. False if it did not, or does
    /// not know: then whatever there is was decided before the next transaction.
    async fn write(&mut self, member: &Member, records: &[ConsumerRecord]) -> bool {
        let Some(producer) = self.producer.take() else { return false };
        let outcome = transaction(&producer, &self.producer_name(), member, records).await;
        let goes_on = match &outcome {
            Ok(()) => true,
            Err(error) if error.is_definite() => producer.abort_transaction().await.is_ok(),
            Err(_) => false,
        };
        self.producer = goes_on.then_some(producer);
        outcome.is_ok()
    }

    fn producer_name(&self) -> String {
        format!("{}.writer.{}", self.name, self.producers)
    }

    /// Has a producer; a new one after each that was given up, which decides what that left open.
    async fn be_ready(&mut self) {
        if self.producer.is_some() {
            return;
        }
        self.producers += 1;
        let name = self.producer_name();
        let config = self.config.producer(&name, Some(&format!("writer-{}", self.worker)));
        let producer = Producer::new(config, self.config.model());
        self.producer = producer.init_transactions().await.is_ok().then_some(producer);
    }
}

/// The payload of a result is where its record was read, and in which attempt it was made: no two are the same.
async fn transaction(
    producer: &Producer,
    name: &str,
    member: &Member,
    records: &[ConsumerRecord],
) -> Result<(), client::Error> {
    let number = producer.begin_transaction()?;
    let mut deliveries = Vec::with_capacity(records.len());
    for record in records {
        let partition = TopicPartition::new(RESULTS, record.partition.partition);
        let result = ProducerRecord::new(partition, format!("{} {name} {number}", record.offset));
        deliveries.push(producer.send(result).await?);
    }
    producer.send_offsets_to_transaction(member.positions(), member.group_metadata()).await?;
    for delivery in deliveries {
        delivery.await?;
    }
    producer.commit_transaction().await
}
