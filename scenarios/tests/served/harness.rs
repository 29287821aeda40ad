//! Clusters, proxies, clients and HTTP requests of these tests. Every port is any free one.

use client::{
    Consumer, ConsumerConfig, Delivery, IsolationLevel, OffsetReset, Producer, ProducerConfig,
    ProducerRecord, TopicPartition, Variant,
};
use rt::net::TcpStream;
use rt::time::{Instant, sleep};
use scenarios::HostPort;
use scenarios::serve::{NewTopic, Options, Serving, Settings};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The longest wait for anything.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// The topic of these tests, with two partitions.
pub(crate) const TOPIC: &str = "orders";

/// Any free port of loopback.
pub(crate) fn anywhere() -> HostPort {
    "127.0.0.1:0".parse().unwrap()
}

/// So many agents with these settings, and the topic.
pub(crate) fn options(agents: u16, settings: Settings) -> Options {
    Options {
        settings,
        agents,
        first_node_id: 1,
        listen: anywhere(),
        advertise: None,
        admin: anywhere(),
        topics: vec![NewTopic { name: TOPIC.into(), partitions: 2 }],
        real: None,
    }
}

/// Serves so many agents with these settings, and the topic.
pub(crate) async fn serve(agents: u16, settings: Settings) -> Serving {
    start(options(agents, settings)).await
}

/// Serves, and waits until all is ready.
pub(crate) async fn start(options: Options) -> Serving {
    let serving = Serving::start(options).await.unwrap();
    rt::time::timeout(LIMIT, serving.ready()).await.expect("ready soon");
    serving
}

/// The settings for tests: transactions of this version, leases that run out soon.
pub(crate) fn settings(transaction_version: u8) -> Settings {
    let settings =
        Settings::embedded().with_key(&format!("transactions.version={transaction_version}")).unwrap();
    settings.with_key("lease_ttl_s=2").unwrap()
}

/// A producer; `id` is its client's and, if it is transactional, its transactional id. It gives up on a request soon.
pub(crate) fn producer(
    bootstrap_servers: Vec<String>,
    id: &str,
    transactional: bool,
    variant: Variant,
) -> Producer {
    let config = ProducerConfig {
        bootstrap_servers,
        client_id: id.into(),
        transactional_id: transactional.then(|| id.into()),
        request_timeout_ms: 500,
        max_block_ms: 15_000,
        ..ProducerConfig::default()
    };
    Producer::new(config, variant.model())
}

/// Hands a record to a producer.
pub(crate) async fn send(producer: &Producer, partition: i32, value: &'static str) -> Delivery {
    let partition = TopicPartition::new(TOPIC, partition);
    producer.send(ProducerRecord::new(partition, value)).await.unwrap()
}

/// Reads both partitions from the start until so many records came: partition, offset, value.
pub(crate) async fn read(
    bootstrap_servers: Vec<String>,
    isolation_level: IsolationLevel,
    count: usize,
) -> Vec<(i32, i64, String)> {
    let mut consumer = Consumer::new(ConsumerConfig {
        bootstrap_servers,
        isolation_level,
        auto_offset_reset: OffsetReset::Earliest,
        ..ConsumerConfig::default()
    });
    consumer.assign(&[TopicPartition::new(TOPIC, 0), TopicPartition::new(TOPIC, 1)]).unwrap();
    let mut found = Vec::new();
    let deadline = Instant::now() + LIMIT;
    while found.len() < count {
        assert!(Instant::now() < deadline, "{count} records were expected, {found:?} came");
        for record in consumer.poll(100).await.unwrap() {
            let value = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
            found.push((record.partition.partition, record.offset, value));
        }
    }
    found.sort();
    found
}

/// An HTTP request: status and body of its answer.
pub(crate) async fn http(address: &HostPort, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(&address.to_string()).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string())
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds().await {
        assert!(Instant::now() < deadline, "{what} does not come about");
        sleep(Duration::from_millis(10)).await;
    }
}
