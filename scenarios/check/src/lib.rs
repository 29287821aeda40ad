//! Histories of Kafka clients and verdicts on them: pure functions, usable on anyone's history.
//!
//! * [`History`]: what clients asked for and were told, in one compact form; [`Atom`] is a key or a value
//! * [`case`]: reading and writing the JSON form `kq-case/1`
//! * [`strict`]: the verdict, with one module an anomaly family, each of which says what it means by it:
//!   [`torn`], [`aborted_read`], [`lost_write`], [`unseen`], [`duplicate`], [`inconsistent_offset`]
//! * [`vacuity`]: whether the history could have failed at all
//! * [`oracle`]: the white-box check, which knows which transaction every record was meant for
//! * [`look`]: the log as raw Fetch answers show it, and the checks that judge it: [`moved_back`], [`rewritten`],
//!   [`hole`], [`sequence`], [`zombie`]; and those that judge single clients: [`order`], [`reading`]
//! * [`group`]: what members of a consumer group did and were told, and the checks that judge it: [`ownership`],
//!   [`commit_moved_back`], [`redelivery`], [`undelivered`], [`processed_twice`]
//!
//! The families that Jepsen's `jepsen.tests.kafka` also has keep its names and its rules; tests hold them against the
//! output of that checker.

pub mod aborted_read;
pub mod case;
pub mod commit_moved_back;
pub mod duplicate;
mod facts;
pub mod group;
mod history;
pub mod hole;
pub mod inconsistent_offset;
pub mod look;
pub mod lost_write;
pub mod moved_back;
pub mod oracle;
pub mod order;
pub mod ownership;
pub mod processed_twice;
pub mod reading;
pub mod redelivery;
pub mod rewritten;
pub mod sequence;
pub mod torn;
pub mod undelivered;
pub mod unseen;
pub mod vacuity;
mod verdict;
pub mod zombie;

pub use history::{Ack, Atom, Event, Function, History, Op, Polled, Status};
pub use verdict::{FinalReads, Signature, Verdict, strict};
