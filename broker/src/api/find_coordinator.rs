//! FindCoordinator (10), single and batched: kafka.md 1.2. The agents coordinate groups (key type 0) and transactions (1);
//! share groups (2) have no coordinator here.

use super::{refuse, text};
use crate::agent::Context;
use crate::membership;
use crate::records::AgentEntry;
use crate::routing;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;

/// First version that asks for many keys at once (KIP-699).
const BATCHED: i16 = 4;

pub(super) async fn handle(
    context: &Context,
    version: i16,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let agents = match request.key_type {
        0 | 1 => membership::live_agents(context).await.map_err(|fault| fault.coordinator_error()),
        _ => Err(ResponseError::InvalidRequest),
    };
    let locate = |key: &str| match &agents {
        Ok(_) if request.key_type == 1 && key.is_empty() => Err(ResponseError::InvalidRequest),
        Ok(agents) => Ok(routing::coordinator(context, agents, key)),
        Err(error) => Err(*error),
    };
    if version >= BATCHED {
        let coordinator = |key: StrBytes| match locate(&key) {
            Ok(agent) => found(&agent, key),
            Err(error) => refuse::coordinator(key, error),
        };
        let coordinators = request.coordinator_keys.iter().cloned().map(coordinator).collect();
        return FindCoordinatorResponse::default().with_coordinators(coordinators);
    }
    match locate(&request.key) {
        Ok(agent) => FindCoordinatorResponse::default()
            .with_node_id(BrokerId(agent.node_id))
            .with_host(text(agent.host))
            .with_port(agent.port.into()),
        Err(error) => refuse::only_coordinator(error),
    }
}

fn found(agent: &AgentEntry, key: StrBytes) -> Coordinator {
    Coordinator::default()
        .with_key(key)
        .with_node_id(BrokerId(agent.node_id))
        .with_host(text(agent.host.as_str()))
        .with_port(agent.port.into())
}
