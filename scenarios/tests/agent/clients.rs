//! What real clients send and one would not think of: each frame here was taken off a socket.

use crate::harness::{World, text};
use bytes::Buf;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{BrokerId, ListOffsetsRequest, MetadataResponse, ResponseHeader};
use kafka_protocol::protocol::Decodable;

/// librdkafka 2.16 asks for all topics: it leaves room for four bytes of a count, and fills in one (no array). What it means to
/// be "create topics" comes where nobody looks. Kafka lets what is behind a request pass.
const LIBRDKAFKA_METADATA_12: &[u8] = b"\0\0\0\x19\0\x03\0\x0c\0\0\0\x03\0\x07rdkafka\0\0\0\0\0\x01\0\0";

#[test]
fn librdkafka_asks_for_all_topics_with_three_bytes_too_many() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        agent.write(LIBRDKAFKA_METADATA_12).await;
        let mut answer = agent.read().await.expect("an answer");
        assert_eq!(ResponseHeader::decode(&mut answer, 1).expect("a header").correlation_id, 3);
        let metadata = MetadataResponse::decode(&mut answer, 12).expect("a body");
        let names: Vec<_> = metadata.topics.into_iter().map(|topic| topic.name).collect();
        assert_eq!((names, answer.remaining()), (vec![Some(text("t").into())], 0));
    });
}

/// kcat of Debian asks in version 2, from before leader epochs; the newest clients in 8 and above.
#[test]
fn offsets_are_listed_in_every_version() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic("t", 1, &[]).await;
        for version in 1..=8 {
            let latest = ListOffsetsPartition::default().with_partition_index(0).with_timestamp(-1);
            let topic = ListOffsetsTopic::default().with_name(text("t").into()).with_partitions(vec![latest]);
            let request =
                ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
            let answer = agent.call(version, &request).await;
            let found = &answer.topics[0].partitions[0];
            let leader_epoch = if version < 4 { -1 } else { 0 };
            assert_eq!(
                (found.error_code, found.offset, found.leader_epoch),
                (0, 0, leader_epoch),
                "{version}"
            );
        }
    });
}
