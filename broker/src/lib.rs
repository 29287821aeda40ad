//! The system under test: a Kafka-compatible agent over a coordinator and an object store.
//!
//! An [`Agent`] keeps nothing of its own. Offsets, producer state, transactions and topics live in the coordinator
//! ([`coordinator`], an etcd-like port); the bytes of batches live in an object store. Any agent serves any request, and
//! what belongs together changes in one coordinator transaction or not at all. It meets the world through `rt` only, so
//! the same code runs in the tank and on real TCP.
//!
//! * [`Agent`], [`AgentConfig`], [`Defects`]: what a host starts, its settings, its planted bugs
//! * [`coordinator`]: the port that a host implements
//! * `layout`, `records`, `codec`: keys, values and their encoding. **Start here**: the guards are in `layout`
//! * `gate`, `chunks`: the bounded ways to coordinator and store
//! * `batch`, `producer`, `transaction`, `fetch_plan`: pure rules, each with its tables as tests
//! * `append`, `read`, `finish`: the three things done to a partition: batches in, batches out, markers
//! * `steward`, `membership`, `head_watch`: what an agent does unasked
//! * `connection`, `api`: the wire, one file per API
//! * `topics`, `routing`: names and places

mod agent;
mod api;
mod append;
mod batch;
mod chunks;
mod codec;
mod config;
mod connection;
pub mod coordinator;
mod defects;
mod fetch_plan;
mod finish;
mod gate;
mod head_watch;
mod layout;
mod membership;
mod producer;
mod read;
mod records;
mod routing;
mod steward;
mod topics;
mod transaction;

pub use agent::Agent;
pub use config::{AgentConfig, Outside, Routing, Timeouts, TransactionConfig, TransactionVersion};
pub use coordinator::Coordinator;
pub use defects::Defects;
