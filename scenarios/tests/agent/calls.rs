//! What tests of several parts say to an agent: a transaction's requests, a group's offsets, topics.

use crate::harness::{Connection, Writer, batch, text};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, BrokerId, EndTxnRequest, FetchRequest,
    InitProducerIdRequest, OffsetCommitRequest, OffsetFetchRequest, ProduceRequest, ProducerId,
    TxnOffsetCommitRequest,
};
use std::time::Duration;

const CONCURRENT_TRANSACTIONS: i16 = 51;

/// A producer with a transactional id, as the requests name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Txn {
    pub(crate) id: &'static str,
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
}

impl Txn {
    /// InitProducerId, asked again while an earlier transaction is being ended.
    pub(crate) async fn init(agent: &mut Connection, id: &'static str) -> Self {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(text(id).into()))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        loop {
            let answer = agent.call(4, &request).await;
            if answer.error_code != CONCURRENT_TRANSACTIONS {
                assert_eq!(answer.error_code, 0);
                return Txn { id, producer_id: answer.producer_id.0, epoch: answer.producer_epoch };
            }
            again().await;
        }
    }

    /// AddPartitionsToTxn of one partition, asked again while the last transaction is being ended.
    pub(crate) async fn add_partition(self, agent: &mut Connection, topic: &str, partition: i32) -> i16 {
        let topic =
            AddPartitionsToTxnTopic::default().with_name(text(topic).into()).with_partitions(vec![partition]);
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(text(self.id).into())
            .with_v3_and_below_producer_id(ProducerId(self.producer_id))
            .with_v3_and_below_producer_epoch(self.epoch)
            .with_v3_and_below_topics(vec![topic]);
        loop {
            let answer = agent.call(3, &request).await;
            let code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code;
            if code != CONCURRENT_TRANSACTIONS {
                return code;
            }
            again().await;
        }
    }

    /// AddOffsetsToTxn, asked again while the last transaction is being ended.
    pub(crate) async fn add_offsets(self, agent: &mut Connection, version: i16, group: &str) -> i16 {
        let request = AddOffsetsToTxnRequest::default()
            .with_transactional_id(text(self.id).into())
            .with_producer_id(ProducerId(self.producer_id))
            .with_producer_epoch(self.epoch)
            .with_group_id(text(group).into());
        loop {
            let code = agent.call(version, &request).await.error_code;
            if code != CONCURRENT_TRANSACTIONS {
                return code;
            }
            again().await;
        }
    }

    /// A TxnOffsetCommit of the topic `t`, without group membership.
    pub(crate) fn offsets(self, group: &str, offsets: &[(i32, i64)]) -> TxnOffsetCommitRequest {
        let partition = |(partition, offset): &(i32, i64)| {
            TxnOffsetCommitRequestPartition::default()
                .with_partition_index(*partition)
                .with_committed_offset(*offset)
                .with_committed_metadata(Some(text("m")))
        };
        let topic = TxnOffsetCommitRequestTopic::default()
            .with_name(text("t").into())
            .with_partitions(offsets.iter().map(partition).collect());
        TxnOffsetCommitRequest::default()
            .with_transactional_id(text(self.id).into())
            .with_group_id(text(group).into())
            .with_producer_id(ProducerId(self.producer_id))
            .with_producer_epoch(self.epoch)
            .with_generation_id(-1)
            .with_topics(vec![topic])
    }

    /// Sends that; the codes of the partitions.
    pub(crate) async fn commit_offsets(
        self,
        agent: &mut Connection,
        version: i16,
        group: &str,
        offsets: &[(i32, i64)],
    ) -> Vec<i16> {
        let answer = agent.call(version, &self.offsets(group, offsets)).await;
        answer.topics[0].partitions.iter().map(|partition| partition.error_code).collect()
    }

    /// EndTxn; its code.
    pub(crate) async fn end(self, agent: &mut Connection, committed: bool) -> i16 {
        let request = EndTxnRequest::default()
            .with_transactional_id(text(self.id).into())
            .with_producer_id(ProducerId(self.producer_id))
            .with_producer_epoch(self.epoch)
            .with_committed(committed);
        agent.call(3, &request).await.error_code
    }

    /// EndTxn of transaction version 2; the producer as it goes on.
    pub(crate) async fn end_v2(self, agent: &mut Connection, committed: bool) -> Self {
        let request = EndTxnRequest::default()
            .with_transactional_id(text(self.id).into())
            .with_producer_id(ProducerId(self.producer_id))
            .with_producer_epoch(self.epoch)
            .with_committed(committed);
        let answer = agent.call(5, &request).await;
        assert_eq!(answer.error_code, 0);
        Txn { id: self.id, producer_id: answer.producer_id.0, epoch: answer.producer_epoch }
    }

    /// Produces one record to a partition; error code and offset.
    pub(crate) async fn produce(
        self,
        agent: &mut Connection,
        topic: &str,
        partition: i32,
        base_sequence: i32,
    ) -> (i16, i64) {
        let Txn { producer_id, epoch, .. } = self;
        let records = batch(Writer { producer_id, epoch, base_sequence, transactional: true }, 1_000, &["v"]);
        let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
        let topic = TopicProduceData::default().with_name(text(topic).into()).with_partition_data(vec![data]);
        let request = ProduceRequest::default()
            .with_transactional_id(Some(text(self.id).into()))
            .with_acks(-1)
            .with_timeout_ms(5_000)
            .with_topic_data(vec![topic]);
        let answer = agent.call(9, &request).await.responses[0].partition_responses[0].clone();
        (answer.error_code, answer.base_offset)
    }
}

/// A pause before a request is sent again.
pub(crate) async fn again() {
    rt::time::sleep(Duration::from_millis(20)).await;
}

/// An OffsetCommit of the topic `t`.
pub(crate) fn offset_commit(group: &str, generation_id: i32, offsets: &[(i32, i64)]) -> OffsetCommitRequest {
    let partition = |(partition, offset): &(i32, i64)| {
        OffsetCommitRequestPartition::default()
            .with_partition_index(*partition)
            .with_committed_offset(*offset)
            .with_committed_leader_epoch(-1)
            .with_committed_metadata(Some(text("m")))
    };
    let topic = OffsetCommitRequestTopic::default()
        .with_name(text("t").into())
        .with_partitions(offsets.iter().map(partition).collect());
    OffsetCommitRequest::default()
        .with_group_id(text(group).into())
        .with_generation_id_or_member_epoch(generation_id)
        .with_topics(vec![topic])
}

/// Offset and error code of the topic `t`'s partitions, as a reader of stable offsets sees them.
pub(crate) async fn stable_offsets(
    agent: &mut Connection,
    group: &str,
    partitions: &[i32],
) -> Vec<(i64, i16)> {
    let topic = OffsetFetchRequestTopic::default()
        .with_name(text("t").into())
        .with_partition_indexes(partitions.to_vec());
    let request = OffsetFetchRequest::default()
        .with_group_id(text(group).into())
        .with_require_stable(true)
        .with_topics(Some(vec![topic]));
    let answer = agent.call(7, &request).await;
    assert_eq!(answer.error_code, 0);
    let partitions = &answer.topics[0].partitions;
    partitions.iter().map(|partition| (partition.committed_offset, partition.error_code)).collect()
}

/// Fetches a partition from `offset`, read_committed, without waiting.
pub(crate) async fn fetch(agent: &mut Connection, topic: &str, partition: i32, offset: i64) -> PartitionData {
    let partition = FetchPartition::default()
        .with_partition(partition)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(text(topic).into()).with_partitions(vec![partition]);
    let request = FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_bytes(1 << 20)
        .with_isolation_level(1)
        .with_topics(vec![topic]);
    agent.call(11, &request).await.responses[0].partitions[0].clone()
}
