//! Real agents under real frames: each test is a simulated world with etcd, an object store and agents, and a client that
//! speaks Kafka's protocol byte by byte. One file per part of the broker.

mod admin;
mod allocations;
mod answers;
mod append;
mod calls;
mod clients;
mod door;
mod errors;
mod errors_groups;
mod groups;
mod harness;
mod hostile;
mod offsets;
mod offsets_model;
mod planted;
mod storage;
mod storm;
mod txn;
