//! An S3 model: a pure store, a server for a node, a client that implements [`object_store::ObjectStore`].
//!
//! * [`api`]: requests and responses, with S3's meanings; [`error`]: its error codes
//! * [`Store`]: what the bucket holds, and what a request does to it; it needs no runtime
//! * [`server`]: puts a store on a node, with latencies; requests proceed concurrently
//! * [`client`]: what the system under test holds, behind `ObjectStore`, `MultipartStore` and
//!   `PaginatedListStore`
//! * [`Quirks`]: errors that S3 may answer, and lists that lag; all off by default
//!
//! Invariants: a read sees every write answered before it was sent; what is written survives a crash of the server.
//!
//! Absent: versions, tags, storage classes, access control, more than one bucket, HTTP. The wire is private; a real
//! S3 is reached through `object_store`'s own client.

pub mod api;
pub mod client;
pub mod error;
mod quirks;
pub mod server;
mod store;
mod wire;

pub use client::{Client, ClientConfig};
pub use quirks::Quirks;
pub use server::{Disk, Latency, ServerConfig, serve};
pub use store::Store;
