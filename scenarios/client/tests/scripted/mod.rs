//! Two scripted agents on the loopback interface, which share one log: enough of a broker to answer a client, and to
//! fall silent on cue. They keep what they were asked.

use bytes::{BufMut, Bytes, BytesMut};
use client::{ProducerRecord, TopicPartition};
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{api_versions_response::ApiVersion, *};
use kafka_protocol::protocol::{
    Encodable, HeaderVersion, Request, StrBytes, decode_request_header_from_buffer,
};
use rt::net::{TcpListener, TcpStream, read_frame};
use std::sync::{Arc, Mutex};

/// What an agent was asked: its number, the API, the header's version, and the request without its header.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) agent: usize,
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) body: Bytes,
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    log: Vec<(i64, Bytes)>,
    next_offset: i64,
    epoch: i16,
    /// Agent 0 stops answering when it reads this API, and answers nothing afterwards.
    silent_on: Option<ApiKey>,
    silent: bool,
    ended_connections: usize,
}

/// The cluster.
#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) addresses: Vec<String>,
    state: Arc<Mutex<State>>,
}

impl Scripted {
    pub(crate) async fn start() -> Self {
        let listeners = [bind().await, bind().await];
        let addresses = listeners.iter().map(|l| l.local_addr().unwrap().to_string()).collect();
        let scripted = Scripted { addresses, state: Arc::default() };
        for (agent, listener) in listeners.into_iter().enumerate() {
            let scripted = scripted.clone();
            rt::spawn("agent", async move {
                while let Ok(stream) = listener.accept().await {
                    rt::spawn("agent.connection", scripted.clone().serve(agent, stream));
                }
            });
        }
        scripted
    }

    /// From now on agent 0 does not answer `api`, nor anything after it.
    pub(crate) fn fall_silent_on(&self, api: ApiKey) {
        self.state.lock().unwrap().silent_on = Some(api);
    }

    /// Every request of `api`, in order.
    pub(crate) fn asked(&self, api: ApiKey) -> Vec<Asked> {
        self.state.lock().unwrap().asked.iter().filter(|asked| asked.api == api).cloned().collect()
    }

    /// Connections that clients have ended.
    pub(crate) fn ended_connections(&self) -> usize {
        self.state.lock().unwrap().ended_connections
    }

    async fn serve(self, agent: usize, stream: TcpStream) {
        let (mut reader, mut writer) = stream.into_split();
        while let Ok(Some(mut frame)) = read_frame(&mut reader, 1 << 20).await {
            let header = decode_request_header_from_buffer(&mut frame).unwrap();
            if let Some(answer) = self.answer(agent, &header, frame) {
                writer.write_frame(&answer, String::new).await.unwrap();
            }
        }
        self.state.lock().unwrap().ended_connections += 1;
    }

    fn answer(&self, agent: usize, header: &RequestHeader, body: Bytes) -> Option<Bytes> {
        let api = ApiKey::try_from(header.request_api_key).unwrap();
        let mut state = self.state.lock().unwrap();
        let asked = Asked { agent, api, version: header.request_api_version, body: body.clone() };
        state.asked.push(asked);
        state.silent |= agent == 0 && state.silent_on == Some(api);
        if agent == 0 && state.silent {
            return None;
        }
        Some(match api {
            ApiKey::ApiVersions => reply(header, versions()),
            ApiKey::Metadata => reply(header, self.metadata(agent, &decode(header, body))),
            ApiKey::FindCoordinator => {
                let (host, port) = self.address(agent);
                let found = find_coordinator_response::Coordinator::default()
                    .with_node_id((agent as i32).into())
                    .with_host(host)
                    .with_port(port);
                reply(header, FindCoordinatorResponse::default().with_coordinators(vec![found]))
            }
            ApiKey::InitProducerId => {
                let request = decode::<InitProducerIdRequest>(header, body);
                state.epoch = request.producer_epoch + 1;
                let answer = InitProducerIdResponse::default().with_producer_id(7.into());
                reply(header, answer.with_producer_epoch(state.epoch))
            }
            ApiKey::AddPartitionsToTxn => reply(header, AddPartitionsToTxnResponse::default()),
            ApiKey::EndTxn => reply(header, EndTxnResponse::default()),
            ApiKey::Produce => reply(header, produce(&mut state, decode::<ProduceRequest>(header, body))),
            ApiKey::ListOffsets => reply(header, earliest()),
            ApiKey::Fetch => reply(header, fetch(&state, decode::<FetchRequest>(header, body))),
            other => panic!("nobody scripted {other:?}"),
        })
    }

    fn address(&self, agent: usize) -> (StrBytes, i32) {
        let (host, port) = self.addresses[agent].split_once(':').unwrap();
        (StrBytes::from_string(host.to_string()), port.parse().unwrap())
    }

    /// Both agents, and the topic if it was asked for; the agent that answers leads.
    fn metadata(&self, agent: usize, request: &MetadataRequest) -> MetadataResponse {
        let brokers = (0..2).map(|id| {
            let (host, port) = self.address(id);
            MetadataResponseBroker::default().with_node_id((id as i32).into()).with_host(host).with_port(port)
        });
        let partition = MetadataResponsePartition::default().with_leader_id((agent as i32).into());
        let topic =
            MetadataResponseTopic::default().with_name(Some(topic())).with_partitions(vec![partition]);
        let asked = request.topics.as_deref().unwrap_or_default();
        let topics = if asked.is_empty() { vec![] } else { vec![topic] };
        MetadataResponse::default().with_brokers(brokers.collect()).with_topics(topics)
    }
}

async fn bind() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

fn topic() -> TopicName {
    TopicName(StrBytes::from_static_str("t"))
}

pub(crate) fn decode_body<R: Request>(asked: &Asked) -> R {
    R::decode(&mut asked.body.clone(), asked.version).unwrap()
}

fn decode<R: Request>(header: &RequestHeader, mut body: Bytes) -> R {
    R::decode(&mut body, header.request_api_version).unwrap()
}

fn reply<R: Encodable + HeaderVersion>(header: &RequestHeader, response: R) -> Bytes {
    let version = header.request_api_version;
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    let answer = ResponseHeader::default().with_correlation_id(header.correlation_id);
    answer.encode(&mut frame, R::header_version(version)).unwrap();
    response.encode(&mut frame, version).unwrap();
    let length = (frame.len() - 4) as i32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame.freeze()
}

fn versions() -> ApiVersionsResponse {
    let all = [
        (0, 3, 11),
        (1, 4, 12),
        (2, 1, 8),
        (3, 0, 9),
        (10, 0, 4),
        (18, 0, 3),
        (22, 0, 4),
        (24, 0, 3),
        (26, 0, 5),
    ];
    let range = |(key, min, max): &(i16, i16, i16)| {
        ApiVersion::default().with_api_key(*key).with_min_version(*min).with_max_version(*max)
    };
    ApiVersionsResponse::default().with_api_keys(all.iter().map(range).collect())
}

fn produce(state: &mut State, request: ProduceRequest) -> ProduceResponse {
    let records = request.topic_data[0].partition_data[0].records.clone().unwrap();
    let count = i32::from_be_bytes(records[57..61].try_into().unwrap());
    let mut batch = BytesMut::from(&records[..]);
    let base_offset = state.next_offset;
    batch[..8].copy_from_slice(&base_offset.to_be_bytes());
    state.log.push((base_offset, batch.freeze()));
    state.next_offset += i64::from(count);
    let partition = PartitionProduceResponse::default().with_base_offset(base_offset);
    let response =
        TopicProduceResponse::default().with_name(topic()).with_partition_responses(vec![partition]);
    ProduceResponse::default().with_responses(vec![response])
}

fn earliest() -> ListOffsetsResponse {
    let partition = ListOffsetsPartitionResponse::default().with_offset(0);
    let response = ListOffsetsTopicResponse::default().with_name(topic()).with_partitions(vec![partition]);
    ListOffsetsResponse::default().with_topics(vec![response])
}

fn fetch(state: &State, request: FetchRequest) -> FetchResponse {
    let from = request.topics[0].partitions[0].fetch_offset;
    let batches: Vec<&[u8]> =
        state.log.iter().filter(|(base, _)| *base >= from).map(|(_, b)| &b[..]).collect();
    let partition = PartitionData::default()
        .with_high_watermark(state.next_offset)
        .with_last_stable_offset(state.next_offset)
        .with_records(Some(batches.concat().into()));
    let response = FetchableTopicResponse::default().with_topic(topic()).with_partitions(vec![partition]);
    FetchResponse::default().with_responses(vec![response])
}

pub(crate) fn record(value: &'static str) -> ProducerRecord {
    ProducerRecord {
        partition: TopicPartition::new("t", 0),
        key: None,
        value: Bytes::from_static(value.as_bytes()),
    }
}
