//! Groups: who is in them, who has which partitions, and what they committed. kafka.md 1.7.
//!
//! Everything of a group is in the coordinator: `groups/<group>` (the head) guards its offsets, `group_state/<group>` its
//! members. A commit compares both and writes the head; a change of the members compares and writes the state. So commits
//! disturb no rebalance, and a rebalance makes the commits on their way be decided anew.
//!
//! * `classic`, `join`, `sync`, `leave`: the classic protocol as a pure state machine
//! * `consumer`, `beat`, `assignor`: the consumer protocol (KIP-848), pure as well
//! * `state`: one or the other
//! * `timer`: what a group waits for, and what happens when it does not come
//! * `commit`: who may commit offsets
//! * `subscription`: which topics the members read
//! * `owner`: the one agent that decides, and how it reads and writes
//! * `keeper`: the owner's timers, the only thing about a group that is in no store
//! * `listing`, `deletion`, `retention`: all groups, and the end of one. Any agent does these

mod assignor;
mod beat;
mod classic;
mod commit;
mod consumer;
mod deletion;
mod join;
mod keeper;
mod leave;
mod listing;
mod owner;
mod retention;
mod state;
mod subscription;
mod sync;
mod timer;

pub(crate) use assignor::Assignor;
pub(crate) use beat::Beat;
pub(crate) use classic::{ClassicGroup, GroupPhase, Member};
pub(crate) use commit::{
    Claim, CommittedOffset, GroupHead, METADATA_MAX, TxnGroup, admit, commit_error, fits, may_commit,
    may_fetch,
};
pub(crate) use consumer::{AWAY, Catalogue, ConsumerGroup, ConsumerMember, Partitions, Topic};
pub(crate) use deletion::delete;
pub(crate) use join::{Joined, Joiner};
pub(crate) use keeper::{Keeper, run};
pub(crate) use leave::Leaver;
pub(crate) use listing::{StoredGroup, list, read};
pub(crate) use owner::{change, look, wait};
pub(crate) use retention::retain;
pub(crate) use state::GroupState;
pub(crate) use subscription::CONSUMER;
pub(crate) use sync::Syncer;
