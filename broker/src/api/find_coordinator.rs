//! FindCoordinator (10), single and batched: kafka.md 1.2. The agents coordinate groups (key type 0) and transactions (1);
//! share groups (2) have no coordinator here.

use super::text;
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
    let locate = |key: StrBytes| match &agents {
        Ok(_) if request.key_type == 1 && key.is_empty() => refused(key, ResponseError::InvalidRequest),
        Ok(agents) => found(&routing::coordinator(context, agents, &key), key),
        Err(error) => refused(key, *error),
    };
    if version >= BATCHED {
        let coordinators = request.coordinator_keys.into_iter().map(locate).collect();
        return FindCoordinatorResponse::default().with_coordinators(coordinators);
    }
    let Coordinator { node_id, host, port, error_code, error_message, .. } = locate(request.key);
    FindCoordinatorResponse::default()
        .with_error_code(error_code)
        .with_error_message(error_message)
        .with_node_id(node_id)
        .with_host(host)
        .with_port(port)
}

fn found(agent: &AgentEntry, key: StrBytes) -> Coordinator {
    Coordinator::default()
        .with_key(key)
        .with_node_id(BrokerId(agent.node_id))
        .with_host(text(agent.host.as_str()))
        .with_port(agent.port.into())
}

/// An error names nobody: node -1, no host, port -1.
fn refused(key: StrBytes, error: ResponseError) -> Coordinator {
    Coordinator::default()
        .with_key(key)
        .with_node_id(BrokerId(-1))
        .with_port(-1)
        .with_error_code(error.code())
        .with_error_message(Some(text(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_nobody() {
        let answer = refused(StrBytes::from_static_str("jt1"), ResponseError::CoordinatorNotAvailable);
        assert_eq!((answer.error_code, answer.node_id, answer.port), (15, BrokerId(-1), -1));
        assert!(answer.host.is_empty());
    }
}
