//! etcd's lease, transaction and watch model: a pure store, a server for a node, a client.
//!
//! * [`api`]: requests and responses, with etcd's names; [`error`]: etcd's refusals, with its codes and texts
//! * [`Store`]: what is on disk, and what a request does to it. It needs no runtime, so unit and differential tests drive
//!   it directly
//! * [`server`]: puts a store on a node: one order for all requests, fsync delays, lease expiry, watches
//! * [`client`]: what the system under test holds; it says of every failed request whether it may have been applied
//! * [`recipes`]: sessions, locks and elections, as in etcd's own client
//! * [`Quirks`]: documented deviations, all off by default
//!
//! Invariants: the store is a function of its requests and their times; every revision is made by one transaction; a
//! write is answered only after it is in the store, which a crash of the server does not touch.
//!
//! Absent: authentication, more than one member, snapshots and alarms, gRPC. The wire is private; a real etcd is reached
//! through its own client. How it compares with real servers: `docs/fidelity-etcd.md`.

pub mod api;
pub mod client;
pub mod error;
mod quirks;
pub mod recipes;
pub mod server;
mod store;
mod watch;
mod wire;

pub use client::{Client, ClientConfig, Error, Watcher};
pub use quirks::Quirks;
pub use server::{Disk, ServerConfig, serve};
pub use store::{Applied, Store};
