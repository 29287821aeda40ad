//! DescribeConfigs (32), versions 1 to 4, of topics and brokers, after `ConfigHelper.describeConfigs` of Kafka 4. What is
//! told is in `described`. Nothing is sensitive: an agent has no secrets among its settings.
//!
//! Limit: loggers, client metrics and groups have no settings here and are refused.

use super::described::{self, Setting, Synonym};
use super::{refuse, text};
use crate::agent::Context;
use crate::coordinator::Range;
use crate::gate::{Fault, Stored};
use crate::layout;
use crate::records::TopicEntry;
use crate::topics;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};

/// Resource types (`ConfigResource.Type`).
const TOPIC: i8 = 2;
const BROKER: i8 = 4;

pub(super) async fn handle(
    context: &Context,
    _version: i16,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let (synonyms, documentation) = (request.include_synonyms, request.include_documentation);
    let mut results = Vec::with_capacity(request.resources.len());
    for resource in request.resources {
        results.push(match settings(context, &resource).await {
            Ok(settings) => {
                let wanted = |setting: &Setting| match &resource.configuration_keys {
                    Some(keys) => keys.iter().any(|key| key.as_str() == setting.name),
                    None => true,
                };
                let told = settings.into_iter().filter(wanted);
                let configs = told.map(|setting| config(setting, synonyms, documentation)).collect();
                DescribeConfigsResult::default()
                    .with_resource_type(resource.resource_type)
                    .with_resource_name(resource.resource_name)
                    .with_configs(configs)
            }
            Err(error) => refuse::described_configs(resource, error),
        });
    }
    DescribeConfigsResponse::default().with_results(results)
}

async fn settings(
    context: &Context,
    resource: &DescribeConfigsResource,
) -> Result<Vec<Setting>, ResponseError> {
    let name = resource.resource_name.as_str();
    match resource.resource_type {
        TOPIC if !topics::is_legal(name) => Err(ResponseError::InvalidTopicException),
        TOPIC => match topic(context, name).await? {
            Some(entry) => Ok(described::topic(&context.config, &entry.configs)),
            None => Err(ResponseError::UnknownTopicOrPartition),
        },
        // The empty name asks for what was set for all brokers at once: nothing can be.
        BROKER if name.is_empty() => Ok(Vec::new()),
        // A broker is asked for its own settings only.
        BROKER if name.parse() == Ok(context.config.node_id) => Ok(described::broker(&context.config)),
        _ => Err(ResponseError::InvalidRequest),
    }
}

async fn topic(context: &Context, name: &str) -> Result<Option<TopicEntry>, ResponseError> {
    let mut patience = context.patience();
    loop {
        let answer: Result<Stored<TopicEntry>, Fault> =
            async { Ok(context.gate.read(vec![Range::key(layout::topic(name))]).await?.one()?) }.await;
        match answer {
            Ok(stored) => return Ok(stored.into_value()),
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return Err(refuse::admin_error(&fault)),
        }
    }
}

fn config(setting: Setting, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult {
    let synonym = |Synonym { name, value, source }| {
        DescribeConfigsSynonym::default()
            .with_name(text(name))
            .with_value(Some(text(value)))
            .with_source(source as i8)
    };
    let in_force = setting.synonyms.first().cloned();
    let (value, source) = in_force.map_or((None, 0), |s| (Some(text(s.value)), s.source as i8));
    let told = if synonyms { setting.synonyms } else { Vec::new() };
    DescribeConfigsResourceResult::default()
        .with_name(text(setting.name))
        .with_value(value)
        .with_read_only(setting.read_only)
        .with_config_source(source)
        .with_is_sensitive(false)
        .with_synonyms(told.into_iter().map(synonym).collect())
        .with_config_type(setting.kind as i8)
        .with_documentation(documentation.then(|| text(setting.documentation)))
}
