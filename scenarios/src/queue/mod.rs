//! The queue workload: what Jepsen's test of Bufstream did (jepsen.md A).
//!
//! Clients send to and poll from partitions called keys, in transactions or not; their consumers are assigned partitions by
//! hand or subscribe to topics. What was sent and what was polled is a history that any of `check`'s verdicts judges.
//!
//! * [`Queue`]: its settings; [`generator`]: the operations of every worker, as a function of the seed
//! * [`early`]: those of Jepsen's early-read workload
//! * [`aborts`]: Jepsen's abort workload
//! * [`worker`]: carries them out; [`client`]: the clients of one process; [`told`]: what an error means for an operation
//! * [`payload`]: records that describe themselves; [`reader`]: consumers beside the workers
//! * [`zombie`]: clients that were given up and go on
//! * [`Progress`]: what workers share; [`final_reads`]: the end, in which every worker reads everything
//! * [`script`]: the course of a run; [`judge`]: what is held against it

pub(crate) mod aborts;
mod client;
pub(crate) mod early;
mod final_reads;
pub(crate) mod generator;
pub(crate) mod judge;
mod payload;
mod progress;
mod reader;
pub(crate) mod script;
mod settings;
mod told;
mod worker;
pub(crate) mod zombie;

pub(crate) use progress::Progress;
pub use settings::{Queue, SubVia};
