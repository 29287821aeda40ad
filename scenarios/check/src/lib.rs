//! Histories of Kafka clients and verdicts on them: pure functions, usable on anyone's history.
//!
//! * [`History`]: what clients asked for and were told, in one compact form; [`Atom`] is a key or a value
//! * [`case`]: reading and writing the JSON form `kq-case/1`; [`edn`]: the form in which Jepsen writes histories
//! * [`Conditions`]: what is known of a history beside its events
//! * [`jepsen`]: the verdict of Jepsen's checker, with all its anomalies; [`abort`]: what polls do after aborts
//! * [`strict()`]: the verdict that adds what that checker lacks; [`strict`](mod@strict) has one module an anomaly family, each
//!   of which says what it means by it, whether the history could have failed at all, and what it exercised
//! * families of both: [`aborted_read`], [`lost_write`], [`unseen`], [`duplicate`], [`inconsistent_offset`]
//! * [`oracle`]: the white-box check, which knows which transaction every record was meant for
//! * [`look`]: the log as raw Fetch answers show it, and the checks that judge it: [`moved_back`], [`rewritten`],
//!   [`hole`], [`sequence`], [`zombie`]; refusals and listed ends held against it: [`out_of_range`], [`listed_below`]; and
//!   those that judge single clients: [`order`], [`reading`], [`false_fence`]
//! * [`group`]: what members of a consumer group did and were told, and the checks that judge it: [`ownership`],
//!   [`commit_moved_back`], [`redelivery`], [`undelivered`], [`unprocessed`], [`processed_twice`], [`exactly_once`]
//!
//! The families that Jepsen's `jepsen.tests.kafka` also has keep its names and its rules; tests hold them against the
//! output of that checker.

pub mod abort;
pub mod aborted_read;
pub mod case;
pub mod commit_moved_back;
mod conditions;
pub mod duplicate;
pub mod edn;
pub mod exactly_once;
mod facts;
pub mod false_fence;
pub mod group;
mod hash_order;
mod history;
pub mod hole;
pub mod inconsistent_offset;
mod intern;
pub mod jepsen;
pub mod listed_below;
pub mod look;
pub mod lost_write;
pub mod moved_back;
pub mod oracle;
pub mod order;
pub mod out_of_range;
pub mod ownership;
pub mod processed_twice;
pub mod reading;
pub mod redelivery;
pub mod rewritten;
pub mod sequence;
pub mod strict;
pub mod undelivered;
pub mod unprocessed;
pub mod unseen;
pub mod zombie;

pub use conditions::{Conditions, Timeouts};
pub use history::{Ack, Atom, Event, Function, History, Op, Polled, Status};
pub use strict::exercised::{Exercised, exercised};
pub use strict::{FinalReads, Signature, Verdict, strict};
