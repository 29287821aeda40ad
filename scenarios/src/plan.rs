//! Plans of Kafka scenarios: what workers do.

use crate::config::Config;
use serde::{Deserialize, Serialize};

/// A plan of a Kafka scenario.
pub type Plan = sim::plan::Plan<Config, Op>;
/// A recording of one.
pub type Recording = sim::plan::Recording<Config, Op>;
/// One operation of a worker, with its id and think time.
pub type Operation = sim::plan::Operation<Op>;

/// What a worker does in one operation. A worker is a client process on a machine of its own, named in the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Op {
    /// A transaction of a transactional producer, whose id is the worker's name unless the configuration gives it one.
    Txn {
        /// Its records, sent one after the other, each awaited.
        sends: Vec<Send>,
        /// The offset of the first partition that the group commits with it, sent before its end; none if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offset: Option<i64>,
        /// How the application ends it.
        end: Decision,
    },
    /// The transactional producer is given up, as by an application that is started again; the next transaction has another.
    Renew,
    /// Records of an idempotent producer without transactions: sent without waiting, then all awaited.
    Send {
        /// The records.
        sends: Vec<Send>,
    },
    /// Polls all partitions from the earliest offset, by a consumer of its own, for a while.
    Consume {
        /// For how long, in milliseconds.
        for_ms: u64,
        /// How long the application works on what a poll returned, in milliseconds.
        #[serde(default, skip_serializing_if = "is_zero")]
        think_ms: u64,
        /// read_uncommitted; read_committed if absent.
        #[serde(default, skip_serializing_if = "is_false")]
        uncommitted: bool,
    },
    /// Is a member of the group for a while.
    Member(Life),
    /// Asks one agent after the other what the group has committed.
    Watch {
        /// For how long, in milliseconds.
        for_ms: u64,
        /// How long it waits between two questions, in milliseconds.
        every_ms: u64,
    },
    /// Reads the whole log by raw Fetch requests, again and again, for a while.
    Look {
        /// For how long, in milliseconds.
        for_ms: u64,
        /// How long it waits between two readings, in milliseconds.
        every_ms: u64,
    },
    /// An operation of the queue workload (jepsen.md A2).
    Queue(Queued),
}

/// An operation of the queue workload. What is decided while it runs is noted in a recording: `keys` is absent in a plan
/// that was never run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Queued {
    /// Sends and polls, in a transaction if the workload has them.
    Work {
        /// In order.
        what: Vec<Micro>,
        /// The application aborts before this one of them; after the last, before the commit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        abort_at: Option<usize>,
    },
    /// The consumer gets other partitions: it assigns them, or subscribes to the topics that have them.
    Give {
        /// Drawn.
        drawn: Vec<u32>,
        /// Beside them, keys of which acknowledged records were never polled.
        #[serde(default, skip_serializing_if = "is_false")]
        unseen: bool,
        /// What that came to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keys: Option<Vec<u32>>,
    },
    /// In a topic of its own, transactions that poll, and send 0 to 3 records: one that commits, two that abort, one that
    /// commits, each again until it polled a record (jepsen.md C).
    Aborts {
        /// The partition: the first of its topic.
        key: u32,
    },
    /// The client is given up; another takes its place.
    Crash,
    /// The client is given up, but goes on: it does this in a transaction while another takes its place.
    Haunt {
        /// In order.
        what: Vec<Micro>,
    },
    /// A consumer outside groups and transactions reads whatever keys there are, from their starts, until the final phase.
    Read {
        /// read_uncommitted; read_committed if absent.
        #[serde(default, skip_serializing_if = "is_false")]
        uncommitted: bool,
    },
    /// The final phase: a fresh client reads all keys from the start.
    FinalReads {
        /// The keys.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keys: Option<Vec<u32>>,
    },
}

/// A part of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Micro {
    /// Sends a record and waits for it.
    Send {
        /// The partition.
        key: u32,
        /// The value, unique per key.
        value: u64,
    },
    /// Polls once.
    Poll,
    /// Waits, in milliseconds.
    Wait(u64),
    /// Polls until nothing comes.
    PollAll,
    /// Waits until another client has taken the place of the one that does this.
    Replaced,
}

/// The life of a group member. A worker that crashes begins the life again in which it was struck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Life {
    /// For how long, in milliseconds; without it until the group has committed everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// How long the application works on what a poll returned, in milliseconds.
    pub think_ms: u64,
    /// It knows the cooperative protocol only; else it also offers `range`, and is eager.
    pub cooperative: bool,
    /// It has a group instance id: the worker's name.
    pub is_static: bool,
    /// `session.timeout.ms`.
    pub session_timeout_ms: u64,
    /// `max.poll.interval.ms`, which is also the rebalance timeout.
    pub max_poll_interval_ms: u64,
    /// How it commits.
    pub commits: Commits,
    /// In the end it closes the member; else it drops it without a word.
    pub closes: bool,
}

/// How a member commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Commits {
    /// By `commitSync` after it worked on what a poll returned.
    Sync,
    /// By `enable.auto.commit`.
    Auto,
    /// With the transaction in which it writes what it made of what a poll returned (KIP-447).
    Transaction,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// The partition.
    pub key: u32,
    /// The value, unique per key.
    pub value: u64,
    /// How long the application waits before it sends, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub think_ms: u64,
}

/// How an application ends a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// With a commit.
    Commit,
    /// With an abort.
    Abort,
    /// With a commit, after so many milliseconds in which it does nothing.
    CommitAfter(u64),
    /// With a commit, which waits for the acknowledgements of all records: nobody has waited for any before.
    CommitUnawaited,
}

fn is_zero(ms: &u64) -> bool {
    *ms == 0
}

fn is_false(flag: &bool) -> bool {
    !*flag
}
