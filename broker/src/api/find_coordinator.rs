//! FindCoordinator (10), single and batched: kafka.md 1.2. A group (key type 0) has one owner among the agents that are
//! registered; transactions (1) go as the setting `routing` says; share groups (2) have no coordinator here.

use super::{refuse, text};
use crate::agent::Context;
use crate::gate::Fault;
use crate::membership;
use crate::records::AgentEntry;
use crate::routing;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;

/// First version that asks for many keys at once (KIP-699).
const BATCHED: i16 = 4;

/// Key type of groups.
const GROUP: i8 = 0;
/// Key type of transactional ids.
const TRANSACTION: i8 = 1;

pub(super) async fn handle(
    context: &Context,
    version: i16,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let agents = match request.key_type {
        GROUP => registered(context).await.map_err(|fault| fault.coordinator_error()),
        TRANSACTION => membership::live_agents(context).await.map_err(|fault| fault.coordinator_error()),
        _ => Err(ResponseError::InvalidRequest),
    };
    let locate = |key: &str| match &agents {
        Ok(agents) if request.key_type == GROUP => {
            routing::owner(agents, key).cloned().ok_or(ResponseError::CoordinatorNotAvailable)
        }
        Ok(_) if key.is_empty() => Err(ResponseError::InvalidRequest),
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

async fn registered(context: &Context) -> Result<Vec<AgentEntry>, Fault> {
    membership::entries(&context.gate.range(membership::registered()).await?.kvs)
}

fn found(agent: &AgentEntry, key: StrBytes) -> Coordinator {
    Coordinator::default()
        .with_key(key)
        .with_node_id(BrokerId(agent.node_id))
        .with_host(text(agent.host.as_str()))
        .with_port(agent.port.into())
}
