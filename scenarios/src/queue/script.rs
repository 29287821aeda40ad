//! The course of a run of the queue workload: a cluster, the workers, and their end.

use super::settings::Queue;
use super::worker;
use crate::cluster::{self, MakeAgent};
use crate::log::Log;
use crate::plan::{Op, Plan, Queued};
use sim::node::{self, Role};
use std::collections::BTreeSet;
use std::time::Duration;

/// Beyond the main phase, the pause after it and the limit of the final phase: for what its last operations may take.
const SPARE: Duration = Duration::from_secs(200);

/// Runs the workers of a plan to their end.
pub(crate) async fn run(plan: Plan, queue: Queue, log: Log, agent: MakeAgent) {
    let config = plan.config.clone();
    cluster::start(&config, &agent);
    let trouble = sim::fault::over_after(&plan.faults).max(Duration::from_millis(queue.until_ms));
    {
        let mut facts = log.lock();
        facts.queue.healed_ns = trouble.as_nanos() as u64;
        let is_final = |what: &Op| matches!(what, Op::Queue(Queued::FinalReads { .. }));
        let finishes = plan.operations.values().filter(|all| all.iter().any(|one| is_final(&one.what)));
        facts.queue.finishers = finishes.count();
    }
    let all: BTreeSet<String> = plan.operations.keys().cloned().collect();
    for (name, operations) in plan.operations {
        let (config, queue, log) = (config.clone(), queue.clone(), log.clone());
        node::add(&name.clone(), Role::Client, None, move |_| {
            Box::pin(worker::run(
                name.clone(),
                config.clone(),
                queue.clone(),
                operations.clone(),
                log.clone(),
            ))
        });
    }
    let limit = trouble + Duration::from_millis(queue.settle_ms + queue.final_limit_ms) + SPARE;
    sim::property::eventually("every worker is done", limit, || log.lock().finished.is_superset(&all)).await;
}
