//! Real agents under real frames: each test is a simulated world with etcd, an object store and agents, and a client that
//! speaks Kafka's protocol byte by byte. One file per part of the broker.

mod allocations;
mod door;
mod harness;
mod hostile;
mod storage;
mod storm;
