//! DeleteTopics (20), versions 1 to 6, by name and by id: kafka.md 1.3, after `ControllerApis.deleteTopics` of Kafka 4.
//! `deletion` does the work.

use super::refuse;
use crate::agent::Context;
use crate::deletion::{self, Begun};
use crate::topics::{self, Listed, NO_ID};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse};
use std::collections::BTreeMap;

/// First version that can name a topic by id (KIP-516).
const IDS_SINCE: i16 = 6;

pub(super) async fn handle(
    context: &Context,
    version: i16,
    request: DeleteTopicsRequest,
) -> DeleteTopicsResponse {
    let asked = match version >= IDS_SINCE {
        true => request.topics,
        false => {
            let by_name = |name| DeleteTopicState::default().with_name(Some(name));
            request.topic_names.into_iter().map(by_name).collect()
        }
    };
    let mut patience = context.patience();
    let known = loop {
        match topics::list(&context.gate).await {
            Ok(known) => break Ok(known),
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => break Err(refuse::admin_error(&fault)),
        }
    };
    let mut responses = Vec::with_capacity(asked.len());
    for (topic, found) in asked.iter().zip(resolve(&asked, known.as_deref())) {
        responses.push(match found {
            Ok(found) => match delete(context, found).await {
                Ok(()) => DeletableTopicResult::default()
                    .with_name(Some(super::text(found.name.as_str()).into()))
                    .with_topic_id(found.id.to_vec().try_into().unwrap_or_default()),
                Err(error) => refuse::deleted_topic(topic, error),
            },
            Err(error) => refuse::deleted_topic(topic, error),
        });
    }
    DeleteTopicsResponse::default().with_responses(responses)
}

/// The topic that each item of the request names, or why it is refused.
fn resolve<'a>(
    asked: &[DeleteTopicState],
    known: Result<&'a [Listed], &ResponseError>,
) -> Vec<Result<&'a Listed, ResponseError>> {
    let known = match known {
        Ok(known) => known,
        Err(error) => return vec![Err(*error); asked.len()],
    };
    // A topic must be named in exactly one way; one that is not spoils the request.
    let named_once =
        |topic: &DeleteTopicState| topic.name.is_some() != (topic.topic_id.into_bytes() != NO_ID);
    if !asked.iter().all(named_once) {
        return asked.iter().map(|_| Err(ResponseError::InvalidRequest)).collect();
    }
    let by_name: BTreeMap<&str, &Listed> = known.iter().map(|known| (known.name.as_str(), known)).collect();
    let by_id: BTreeMap<[u8; 16], &Listed> = known.iter().map(|known| (known.id, known)).collect();
    let find = |topic: &DeleteTopicState| match &topic.name {
        Some(name) => by_name.get(name.as_str()).copied().ok_or(ResponseError::UnknownTopicOrPartition),
        None => by_id.get(&topic.topic_id.into_bytes()).copied().ok_or(ResponseError::UnknownTopicId),
    };
    let found: Vec<_> = asked.iter().map(find).collect();
    // A topic that is there counts by its id, however it is named.
    let named = |at: usize| match &found[at] {
        Ok(known) => (None, known.id),
        Err(_) => (asked[at].name.as_ref().map(|name| name.as_str()), asked[at].topic_id.into_bytes()),
    };
    let mut times: BTreeMap<(Option<&str>, [u8; 16]), u32> = BTreeMap::new();
    (0..asked.len()).for_each(|at| *times.entry(named(at)).or_default() += 1);
    let checked = (0..asked.len())
        .map(|at| if times[&named(at)] > 1 { Err(ResponseError::InvalidRequest) } else { found[at] });
    checked.collect()
}

/// Deletes the topic. What the agent cannot purge while the client waits is left to a scan.
async fn delete(context: &Context, topic: &Listed) -> Result<(), ResponseError> {
    let mut patience = context.patience();
    let mut tried = false;
    loop {
        match deletion::begin(context, &topic.name, topic.create_revision, &mut tried).await {
            Ok(Begun::Gone) => break,
            Ok(Begun::Unknown) => return Err(ResponseError::UnknownTopicOrPartition),
            Ok(Begun::Changed) if patience.is_over() => return Err(ResponseError::RequestTimedOut),
            Ok(Begun::Changed) => {}
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return Err(refuse::admin_error(&fault)),
        }
    }
    while let Err(fault) = deletion::purge(context, &topic.name).await {
        if !fault.passes() || !patience.pause().await {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::TopicEntry;
    use kafka_protocol::protocol::StrBytes;

    fn named(name: &'static str) -> DeleteTopicState {
        DeleteTopicState::default().with_name(Some(StrBytes::from_static_str(name).into()))
    }

    fn by_id(name: &str, create_revision: i64) -> DeleteTopicState {
        let id = topics::id_of(name, create_revision);
        DeleteTopicState::default().with_topic_id(id.to_vec().try_into().unwrap())
    }

    fn listed(name: &str, create_revision: i64) -> Listed {
        let entry = TopicEntry { partitions: 1, replication_factor: 1, configs: Default::default() };
        Listed { name: name.into(), id: topics::id_of(name, create_revision), create_revision, entry }
    }

    #[test]
    fn each_item_finds_its_topic_or_kafkas_error() {
        let known = [listed("t", 5), listed("u", 6)];
        let found = |asked: &[DeleteTopicState]| -> Vec<Result<String, i16>> {
            let found = resolve(asked, Ok(&known));
            found.into_iter().map(|f| f.map(|t| t.name.clone()).map_err(|error| error.code())).collect()
        };
        let (t, u) = (|| Ok("t".to_string()), || Ok("u".to_string()));
        assert_eq!(found(&[named("t"), by_id("u", 6)]), [t(), u()]);
        assert_eq!(found(&[named("x"), by_id("t", 4), named("u")]), [Err(3), Err(100), u()]);
        assert_eq!(found(&[named("t"), named("t"), named("u")]), [Err(42), Err(42), u()]);
        assert_eq!(found(&[named("t"), by_id("t", 5)]), [Err(42), Err(42)], "twice the same topic");
        assert_eq!(found(&[named("x"), named("x")]), [Err(42), Err(42)]);
        let both = by_id("t", 5).with_name(named("t").name);
        assert_eq!(found(&[both, named("u")]), [Err(42), Err(42)], "one item spoils the request");
        assert_eq!(found(&[DeleteTopicState::default()]), [Err(42)]);
    }
}
