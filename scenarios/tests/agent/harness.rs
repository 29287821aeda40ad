//! The world of these tests: the cluster wiring of the scenarios, agents with the settings a test wants, and a client
//! machine on which the test's body runs. A failed assertion of the body, a broken `always` mark and a panic of an agent
//! fail the test; the seed and the settings are all that a failure needs to be repeated.
//!
//! ```ignore
//! World::default().run(|cluster| async move {
//!     let mut agent = cluster.connect("agent-1").await;
//!     let answer = agent.call(4, &MetadataRequest::default()).await;
//! });
//! ```

use broker::{AgentConfig, Health};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::TryStreamExt;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::{CreateTopicsRequest, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use kafka_protocol::records::{Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType};
use object_store::ObjectStore;
use object_store::path::Path;
use rt::net::{TcpListener, TcpStream, read_frame};
use scenarios::cluster::{self, AgentSeat, ETCD_PORT, KAFKA_PORT, MakeAgent, S3_PORT};
use scenarios::{Config, EtcdCoordinator};
use sim::fault::Scheduled;
use sim::node::{self, Role};
use sim::run::{End, Run};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;

/// Largest answer accepted.
const FRAME_MAX_BYTES: usize = 100 << 20;

/// What a test may set.
pub(crate) struct World {
    pub(crate) seed: u64,
    /// Agents, coordinator, storage and network.
    pub(crate) config: Config,
    /// Settings of every agent, but for its name and number.
    pub(crate) agent: AgentConfig,
    pub(crate) faults: Vec<Scheduled>,
    /// Where each agent leaves the handle on its health, by name, when it starts.
    pub(crate) health: Healths,
}

/// Handles on the agents' health.
pub(crate) type Healths = Arc<Mutex<BTreeMap<String, Health>>>;

impl Default for World {
    /// One agent, `agent-1`, with the default settings.
    fn default() -> Self {
        World {
            seed: 1,
            config: Config { agents: 1, ..Config::default() },
            agent: AgentConfig::default(),
            faults: Vec::new(),
            health: Healths::default(),
        }
    }
}

impl World {
    /// Runs `body` on a client machine of this world, to its end.
    pub(crate) fn run<F>(self, body: impl FnOnce(Cluster) -> F + Send + 'static) -> Run<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let plan = sim::run::Config {
            seed: self.seed,
            faults: self.faults,
            net: self.config.net.clone(),
            frame_ports: vec![KAFKA_PORT, ETCD_PORT, S3_PORT],
            preempt: self.config.preempt,
            keep: sim::trace::Keep::Events,
            ..sim::run::Config::default()
        };
        // An agent that a test ends stays down.
        let config = Config { supervisor: None, ..self.config };
        let (agent, health) = (self.agent, self.health);
        let run = sim::run(&plan, move || async move {
            cluster::start(&config, &make_agent(agent, health));
            on_a_client_machine(body(Cluster)).await;
        });
        assert!(run.failures.is_empty(), "seed {}: {:#?}", plan.seed, run.failures);
        assert_eq!(run.end, End::Done, "seed {}", plan.seed);
        for fault in &plan.faults {
            assert!(run.landed.contains(&fault.id), "fault {} had no effect", fault.id);
        }
        run
    }
}

fn make_agent(settings: AgentConfig, health: Healths) -> MakeAgent {
    Arc::new(move |_, seat| {
        let AgentSeat { name, node_id, port, coordinator, storage } = seat;
        let settings =
            AgentConfig { node_id, advertised_host: name.clone(), advertised_port: port, ..settings.clone() };
        let health = health.clone();
        Box::pin(async move {
            let etcd = fake_etcd::Client::new(coordinator, fake_etcd::ClientConfig::default());
            let store = fake_s3::Client::new(storage, fake_s3::ClientConfig::default());
            let agent = broker::Agent::new(settings, Arc::new(EtcdCoordinator(etcd)), Arc::new(store));
            let listener = TcpListener::bind(&format!("{name}:{port}")).await.expect("a port of its own");
            health.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(name, agent.health());
            agent.serve(listener).await;
        })
    })
}

async fn on_a_client_machine(body: impl Future<Output = ()> + Send + 'static) {
    let (send, ended) = oneshot::channel::<()>();
    let once = Arc::new(Mutex::new(Some(async move {
        body.await;
        drop(send);
    })));
    node::add("test", Role::Client, None, move |_| {
        let body = once.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        Box::pin(async move {
            if let Some(body) = body {
                body.await;
            }
        })
    });
    // The sender is dropped at the end, also by a panic; nothing is ever sent.
    let _ = ended.await;
}

/// The cluster, as seen from the client machine.
#[derive(Clone, Copy)]
pub(crate) struct Cluster;

impl Cluster {
    /// A connection to an agent, tried until the agent listens.
    pub(crate) async fn connect(self, agent: &str) -> Connection {
        loop {
            match TcpStream::connect(&format!("{agent}:{KAFKA_PORT}")).await {
                Ok(stream) => return Connection { stream, last_id: 0 },
                Err(_) => rt::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// A client of the coordinator beside the agents'.
    pub(crate) fn etcd(self) -> fake_etcd::Client {
        let endpoint = format!("{}:{ETCD_PORT}", cluster::COORDINATOR);
        fake_etcd::Client::new(endpoint, fake_etcd::ClientConfig::default())
    }

    /// Names of the chunks in the object store.
    pub(crate) async fn chunks(self) -> Vec<String> {
        let endpoint = format!("{}:{S3_PORT}", cluster::STORAGE);
        let store = fake_s3::Client::new(endpoint, fake_s3::ClientConfig::default());
        let listed = store.list(Some(&Path::from("chunks"))).map_ok(|object| object.location.to_string());
        listed.try_collect().await.expect("the store answers")
    }

    /// Names of the coordinator's keys that begin with `prefix`.
    pub(crate) async fn keys(self, prefix: &str) -> Vec<String> {
        let range = fake_etcd::api::RangeRequest {
            key: Bytes::from(prefix.to_string()),
            range_end: Bytes::from(format!("{prefix}\u{7f}")),
            ..fake_etcd::api::RangeRequest::default()
        };
        let found = self.etcd().range(range).await.expect("the coordinator answers");
        found.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned()).collect()
    }
}

/// One TCP connection to an agent.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    last_id: i32,
}

impl Connection {
    /// Sends a request and waits for its answer.
    pub(crate) async fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.send(version, request).await;
        self.receive::<R>(version).await
    }

    /// Sends a request and waits for its answer for a time; `None` if the connection broke, or is no good any more.
    pub(crate) async fn try_call<R: Request>(
        &mut self,
        version: i16,
        request: &R,
        limit: Duration,
    ) -> Option<R::Response> {
        self.last_id += 1;
        let frame = frame(version, self.last_id, request);
        let answer = async {
            self.stream.write_frame(&frame, || "test".into()).await.ok()?;
            self.read().await
        };
        let mut answer = rt::time::timeout(limit, answer).await.ok().flatten()?;
        ResponseHeader::decode(&mut answer, R::Response::header_version(version)).expect("a header");
        Some(R::Response::decode(&mut answer, version).expect("a body"))
    }

    /// Sends a request, as a real client would.
    pub(crate) async fn send<R: Request>(&mut self, version: i16, request: &R) {
        self.last_id += 1;
        let frame = frame(version, self.last_id, request);
        self.write(&frame).await;
    }

    /// The answer to the oldest request of this kind that was not answered yet.
    pub(crate) async fn receive<R: Request>(&mut self, version: i16) -> R::Response {
        let mut answer = self.read().await.expect("the agent answers");
        ResponseHeader::decode(&mut answer, R::Response::header_version(version)).expect("a header");
        let response = R::Response::decode(&mut answer, version).expect("a body");
        assert!(answer.is_empty(), "{} bytes after the answer", answer.len());
        response
    }

    /// Writes bytes as they are.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_frame(bytes, || "test".into()).await.expect("the socket takes it");
    }

    /// The next frame without its length, or `None` when the agent closed the connection.
    pub(crate) async fn read(&mut self) -> Option<Bytes> {
        read_frame(&mut self.stream, FRAME_MAX_BYTES).await.ok().flatten()
    }

    /// Creates a topic; panics unless it was created.
    pub(crate) async fn create_topic(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        let config = |(key, value): &(&str, &str)| {
            CreatableTopicConfig::default().with_name(text(key)).with_value(Some(text(value)))
        };
        let topic = CreatableTopic::default()
            .with_name(text(name).into())
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(configs.iter().map(config).collect());
        let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(5_000);
        let answer = self.call(5, &request).await;
        assert_eq!(answer.topics[0].error_code, 0, "{:?}", answer.topics[0].error_message);
    }
}

/// A request as one frame, length included.
pub(crate) fn frame<R: Request>(version: i16, correlation_id: i32, request: &R) -> Bytes {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(text("test")));
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    header.encode(&mut frame, R::header_version(version)).expect("a header");
    request.encode(&mut frame, version).expect("a body of that version");
    let length = (frame.len() - 4) as i32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame.freeze()
}

/// Text as the protocol carries it.
pub(crate) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_string())
}

/// Who writes a batch.
#[derive(Clone, Copy)]
pub(crate) struct Writer {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    pub(crate) base_sequence: i32,
    pub(crate) transactional: bool,
}

/// A producer without idempotence.
pub(crate) const PLAIN: Writer =
    Writer { producer_id: -1, epoch: -1, base_sequence: -1, transactional: false };

/// One batch as a producer would encode it, with a record per value, all of one timestamp.
pub(crate) fn batch(writer: Writer, timestamp_ms: i64, values: &[&str]) -> Bytes {
    let record = |(n, value): (i32, &&str)| Record {
        transactional: writer.transactional,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: writer.producer_id,
        producer_epoch: writer.epoch,
        timestamp_type: TimestampType::Creation,
        offset: i64::from(n),
        sequence: writer.base_sequence.wrapping_add(n),
        timestamp: timestamp_ms,
        key: None,
        value: Some(Bytes::from(value.to_string())),
        headers: Default::default(),
    };
    let records: Vec<Record> = (0..).zip(values).map(record).collect();
    let mut out = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut out, &records, &options).expect("a batch");
    out.freeze()
}
