//! Topics that are there when the cluster is ready.

use broker::Agent;
use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::{
    ApiKey, CreateTopicsRequest, CreateTopicsResponse, RequestHeader, ResponseHeader,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use rt::time::sleep;
use std::time::Duration;

/// A topic to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: i32,
}

impl std::str::FromStr for NewTopic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once(':').and_then(|(name, count)| Some((name, count.parse().ok()?)));
        let (name, partitions) = parts.ok_or("write NAME:PARTITIONS, for example orders:3")?;
        Ok(NewTopic { name: name.into(), partitions })
    }
}

/// The version of CreateTopics that is asked.
const VERSION: i16 = 5;
/// Pause before a topic is tried again while the coordinator is away.
const RETRY: Duration = Duration::from_millis(200);

/// Creates `topic` by way of `agent`, unless there is one of that name. Tries until the coordinator answers.
///
/// # Errors
/// What the agent has against the topic.
pub(super) async fn create(agent: &Agent, topic: &NewTopic) -> Result<(), String> {
    loop {
        let answer = agent.answer(request(topic)).await.ok_or("the agent does not answer")?;
        let code = code(answer).ok_or("the agent's answer cannot be read")?;
        match ResponseError::try_from_code(code) {
            None | Some(ResponseError::TopicAlreadyExists) => return Ok(()),
            Some(error) if error.is_retriable() => sleep(RETRY).await,
            Some(error) => return Err(error.to_string()),
        }
    }
}

fn request(topic: &NewTopic) -> Bytes {
    let header = RequestHeader::default()
        .with_request_api_key(ApiKey::CreateTopics as i16)
        .with_request_api_version(VERSION)
        .with_client_id(Some(StrBytes::from_static_str("wavetank")));
    let topic = CreatableTopic::default()
        .with_name(StrBytes::from_string(topic.name.clone()).into())
        .with_num_partitions(topic.partitions)
        .with_replication_factor(-1);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(5_000);
    let mut frame = BytesMut::new();
    let encoded = header
        .encode(&mut frame, CreateTopicsRequest::header_version(VERSION))
        .and_then(|()| request.encode(&mut frame, VERSION));
    encoded.expect("every field exists in that version");
    frame.freeze()
}

/// The error code of the one topic in an answer.
fn code(mut answer: Bytes) -> Option<i16> {
    answer.advance(4.min(answer.len()));
    ResponseHeader::decode(&mut answer, CreateTopicsResponse::header_version(VERSION)).ok()?;
    let response = CreateTopicsResponse::decode(&mut answer, VERSION).ok()?;
    Some(response.topics.first()?.error_code)
}
