//! An agent that does not bear trouble: what the planted defect `exits_on_trouble` does (finding 15). Without it nothing of
//! this is used.
//!
//! At its start it reads a file that all agents share, and ends if it cannot. While it serves it ends as soon as the
//! coordinator or the store has left a call without an answer.

use crate::agent::Context;
use crate::health::Dependency;
use rt::time::sleep;
use std::sync::Arc;
use std::time::Duration;

/// Pause between two looks at whether something is away.
const LOOK: Duration = Duration::from_millis(100);

/// Serves until there is trouble.
pub(crate) async fn serve(context: Arc<Context>, serving: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        why = trouble(&context) => rt::event!("agent.gave-up", node_id = context.config.node_id, why = why),
        () = serving => {}
    }
}

/// What the agent ends for.
async fn trouble(context: &Context) -> &'static str {
    if context.chunks.read_shared().await.is_err() {
        return "the shared file cannot be read";
    }
    loop {
        sleep(LOOK).await;
        if context.health.is_away(Dependency::Coordinator) {
            return "the coordinator is away";
        }
        if context.health.is_away(Dependency::Store) {
            return "the store is away";
        }
    }
}
