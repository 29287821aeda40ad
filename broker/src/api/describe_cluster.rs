//! DescribeCluster (60), versions 0 to 2 (KIP-700, KIP-919, KIP-1073): the live agents. No agent is ever fenced: one that
//! lost its lease is not listed.

use super::{refuse, text};
use crate::agent::Context;
use crate::membership;
use crate::records::AgentEntry;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{BrokerId, DescribeClusterRequest, DescribeClusterResponse};

/// Endpoints of brokers; those of controllers are 2.
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;
/// What anybody may do to the cluster when nothing is protected: a bit for each operation that a cluster has (create,
/// alter, describe, cluster action, describe and alter configs, idempotent write).
const ALL_OPERATIONS: i32 = 0b1_1111_1010_0000;
/// The client did not ask what it may do.
const NOT_ASKED: i32 = i32::MIN;

pub(super) async fn handle(
    context: &Context,
    _version: i16,
    request: DescribeClusterRequest,
) -> DescribeClusterResponse {
    let refusal = match request.endpoint_type {
        BROKERS => None,
        CONTROLLERS => Some(ResponseError::MismatchedEndpointType),
        _ => Some(ResponseError::UnsupportedEndpointType),
    };
    if let Some(error) = refusal {
        return refuse::cluster(request.endpoint_type, error);
    }
    let mut patience = context.patience();
    let agents = loop {
        match membership::live_agents(context).await {
            Ok(agents) => break agents,
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return refuse::cluster(BROKERS, refuse::admin_error(&fault)),
        }
    };
    let operations = if request.include_cluster_authorized_operations { ALL_OPERATIONS } else { NOT_ASKED };
    DescribeClusterResponse::default()
        .with_endpoint_type(BROKERS)
        .with_cluster_id(text(context.config.cluster_id.as_str()))
        .with_controller_id(BrokerId(context.config.node_id))
        .with_brokers(agents.iter().map(broker).collect())
        .with_cluster_authorized_operations(operations)
}

fn broker(agent: &AgentEntry) -> DescribeClusterBroker {
    DescribeClusterBroker::default()
        .with_broker_id(BrokerId(agent.node_id))
        .with_host(text(agent.host.as_str()))
        .with_port(agent.port.into())
}
