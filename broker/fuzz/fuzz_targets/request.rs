//! Any bytes as a request's frame: nothing may panic, abort or hang. The coordinator refuses everything, so that an input
//! says all there is to a run; what lies behind it is tried by the mutated requests of `scenarios/tests/agent`.
//!
//! `cargo +nightly fuzz run request` in `broker/`.
#![no_main]

use async_trait::async_trait;
use broker::coordinator::{Coordinator, CoordinatorError, Range, RangeResponse, Txn, TxnResponse, Watch};
use broker::{Agent, AgentConfig};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use object_store::memory::InMemory;
use std::sync::Arc;

struct Refuses;

fn refused<T>() -> Result<T, CoordinatorError> {
    Err(CoordinatorError::Refused("fuzzing".into()))
}

#[async_trait]
impl Coordinator for Refuses {
    async fn range(&self, _: Range) -> Result<RangeResponse, CoordinatorError> {
        refused()
    }

    async fn txn(&self, _: Txn) -> Result<TxnResponse, CoordinatorError> {
        refused()
    }

    async fn lease_grant(&self, _: i64) -> Result<i64, CoordinatorError> {
        refused()
    }

    async fn lease_keep_alive(&self, _: i64) -> Result<i64, CoordinatorError> {
        refused()
    }

    async fn lease_revoke(&self, _: i64) -> Result<(), CoordinatorError> {
        refused()
    }

    async fn watch(&self, _: Bytes, _: i64) -> Result<Box<dyn Watch>, CoordinatorError> {
        refused()
    }
}

fuzz_target!(|frame: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let config = AgentConfig { connections_max_idle_ms: 10, request_limit_ms: 10, ..AgentConfig::default() };
    let agent = Agent::new(config, Arc::new(Refuses), Arc::new(InMemory::new()));
    runtime.block_on(agent.answer(Bytes::copy_from_slice(frame)));
});
