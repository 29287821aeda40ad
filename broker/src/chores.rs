//! What is done for the store's sake, now and then: retention, compaction, collection.
//!
//! One agent is enough for each, so the one with the lowest node id among those that hold a lease takes its turn. That
//! only saves work: two that do the same at once are kept apart by the guards of what they write. Each goes on in steps
//! of bounded size, and gives up until the next turn at the first trouble.

use crate::agent::Context;
use crate::gate::Fault;
use crate::trim::{self, Reach};
use crate::{membership, topics};
use rt::time::sleep;
use std::sync::Arc;
use std::time::Duration;

/// Steps of retention on one partition in one turn; the next turn goes on from there.
const STEPS_MAX: usize = 100;

/// Returns when it is this agent's turn again, an interval later at the earliest; never if the interval is 0.
pub(crate) async fn turn(context: &Context, interval_ms: u64) {
    if interval_ms == 0 {
        return std::future::pending().await;
    }
    loop {
        sleep(Duration::from_millis(interval_ms)).await;
        let Ok(live) = membership::live_agents(context).await else { continue };
        if live.first().is_some_and(|agent| agent.node_id == context.config.node_id) {
            return;
        }
    }
}

/// Deletes what retention no longer keeps, for as long as the agent serves.
pub(crate) async fn retain(context: Arc<Context>) {
    loop {
        turn(&context, context.config.retention_interval_ms).await;
        // Trouble is not the end: the next turn comes.
        let _ = retain_all(&context).await;
    }
}

async fn retain_all(context: &Context) -> Result<(), Fault> {
    for topic in topics::list(&context.gate).await? {
        for partition in 0..topic.entry.partitions {
            let mut steps = 0;
            while steps < STEPS_MAX && trim::step(context, &topic.name, partition, Reach::Old).await? {
                steps += 1;
            }
        }
    }
    Ok(())
}
