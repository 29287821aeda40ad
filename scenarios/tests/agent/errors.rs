//! Every API's error answer, in every version served: the values that stand for "none" are there. The schema's defaults are
//! often legal values (offset 0, epoch 0, node 0), which clients take for them.

use crate::calls::{Txn, offset_commit, stable_offsets};
use crate::harness::{Connection, PLAIN, World, batch, text};
use broker::{AgentConfig, TransactionConfig, TransactionVersion};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, ApiKey, ApiVersionsRequest,
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, CreatePartitionsRequest,
    CreateTopicsRequest, DeleteGroupsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeClusterRequest, DescribeConfigsRequest, DescribeGroupsRequest, DescribeProducersRequest,
    DescribeTransactionsRequest, EndTxnRequest, FetchRequest, FindCoordinatorRequest, HeartbeatRequest,
    InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest, ListOffsetsRequest, ListTransactionsRequest,
    MetadataRequest, OffsetDeleteRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest, ProduceRequest,
    ProducerId, SyncGroupRequest,
};

/// A topic that is not there.
const NO_TOPIC: &str = "no-topic";
/// A transactional producer that nobody knows.
const NOBODY: Txn = Txn { id: "nobody", producer_id: 7, epoch: 0 };

#[test]
fn no_error_answer_holds_a_legal_value() {
    for version in [TransactionVersion::V1, TransactionVersion::V2] {
        let transactions = TransactionConfig { version, ..TransactionConfig::default() };
        let agent = AgentConfig { transactions, ..AgentConfig::default() };
        World { agent, ..World::default() }.run(|cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            agent.create_topic("t", 1, &[]).await;
            let txn = Txn::init(&mut agent, "jt1").await;
            assert_eq!(txn.add_offsets(&mut agent, 3, "g").await, 0);
            assert_eq!(txn.commit_offsets(&mut agent, 3, "g", &[(0, 5)]).await, [0]);
            assert_eq!(stable_offsets(&mut agent, "g", &[0]).await, [(-1, 88)], "for OffsetFetch to refuse");
            let served = agent.call(3, &ApiVersionsRequest::default()).await.api_keys;
            assert!(served.len() >= 19, "{served:?}");
            for api in served {
                let key = ApiKey::try_from(api.api_key).expect("an API of Kafka");
                // Produce is advertised from version 0 and served from 3 (KAFKA-18659).
                let first = if key == ApiKey::Produce { 3 } else { api.min_version };
                for version in first..=api.max_version {
                    provoke(&mut agent, key, version).await;
                }
            }
        });
    }
}

/// Has one API answer an error, and checks what stands beside it.
async fn provoke(agent: &mut Connection, api: ApiKey, version: i16) {
    let at = format!("{api:?} {version}");
    match api {
        ApiKey::Produce | ApiKey::Fetch | ApiKey::ListOffsets | ApiKey::OffsetForLeaderEpoch => {
            log(agent, api, version, &at).await;
        }
        ApiKey::OffsetCommit | ApiKey::OffsetFetch | ApiKey::FindCoordinator | ApiKey::TxnOffsetCommit => {
            group(agent, api, version, &at).await;
        }
        ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::Heartbeat | ApiKey::LeaveGroup => {
            membership(agent, api, version, &at).await;
        }
        ApiKey::DescribeGroups
        | ApiKey::ListGroups
        | ApiKey::DeleteGroups
        | ApiKey::OffsetDelete
        | ApiKey::ConsumerGroupHeartbeat
        | ApiKey::ConsumerGroupDescribe => {
            groups(agent, api, version, &at).await;
        }
        ApiKey::InitProducerId | ApiKey::AddPartitionsToTxn | ApiKey::AddOffsetsToTxn | ApiKey::EndTxn => {
            transaction(agent, api, version, &at).await;
        }
        ApiKey::CreateTopics | ApiKey::DeleteTopics | ApiKey::DeleteRecords | ApiKey::CreatePartitions => {
            topics(agent, api, version, &at).await;
        }
        ApiKey::DescribeProducers | ApiKey::DescribeTransactions | ApiKey::ListTransactions => {
            introspection(agent, api, version, &at).await;
        }
        ApiKey::Metadata => {
            let topic = MetadataRequestTopic::default().with_name(Some(text(NO_TOPIC).into()));
            let request = MetadataRequest::default().with_topics(Some(vec![topic]));
            let topic = &agent.call(version, &request).await.topics[0];
            assert_eq!((topic.error_code, topic.partitions.len()), (3, 0), "{at}");
            assert_eq!(topic.name.as_ref().map(|name| name.as_str()), Some(NO_TOPIC), "{at}");
        }
        ApiKey::ApiVersions => {
            // Version 77: the answer is one of version 0, with the versions to choose from.
            agent.write(&[0, 0, 0, 10, 0, 18, 0, 77, 0, 0, 0, 9, 0xff, 0xff]).await;
            let told = agent.receive::<ApiVersionsRequest>(0).await;
            assert_eq!((told.error_code, told.api_keys.len()), (35, 1), "{at}");
            assert_eq!((told.api_keys[0].api_key, told.finalized_features_epoch), (18, -1), "{at}");
        }
        ApiKey::DescribeConfigs => {
            let resource =
                DescribeConfigsResource::default().with_resource_type(2).with_resource_name(text(NO_TOPIC));
            let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
            let told = &agent.call(version, &request).await.results[0];
            assert_eq!((told.error_code, told.resource_type, told.configs.len()), (3, 2, 0), "{at}");
            assert_eq!(told.resource_name.as_str(), NO_TOPIC, "{at}");
        }
        ApiKey::DescribeCluster => {
            // Version 0 knows no endpoint types, and nothing else to be wrong.
            if version > 0 {
                let request = DescribeClusterRequest::default().with_endpoint_type(2);
                let told = agent.call(version, &request).await;
                assert_eq!((told.error_code, told.controller_id.0, told.brokers.len()), (114, -1, 0), "{at}");
                assert_eq!(told.cluster_authorized_operations, i32::MIN, "{at}");
            }
        }
        _ => panic!("{at}: an API without an error provoked here"),
    }
}

async fn log(agent: &mut Connection, api: ApiKey, version: i16, at: &str) {
    match api {
        ApiKey::Produce => {
            let records = Some(batch(PLAIN, 1_000, &["v"]));
            let data = PartitionProduceData::default().with_index(3).with_records(records);
            let topic =
                TopicProduceData::default().with_name(text(NO_TOPIC).into()).with_partition_data(vec![data]);
            let request = ProduceRequest::default().with_acks(-1).with_topic_data(vec![topic]);
            let told = &agent.call(version, &request).await.responses[0].partition_responses[0];
            assert_eq!((told.index, told.error_code), (3, 3), "{at}");
            let sentinels = (told.base_offset, told.log_append_time_ms, told.log_start_offset);
            assert_eq!(sentinels, (-1, -1, -1), "{at}");
        }
        ApiKey::Fetch => {
            let partition = FetchPartition::default().with_partition(3).with_partition_max_bytes(1_000);
            let topic = FetchTopic::default().with_partitions(vec![partition]);
            let named = match version {
                13.. => topic.with_topic_id([7; 16].to_vec().try_into().expect("16 bytes")),
                _ => topic.with_topic(text(NO_TOPIC).into()),
            };
            let request = FetchRequest::default().with_max_bytes(1_000).with_topics(vec![named]);
            let told = &agent.call(version, &request).await.responses[0].partitions[0];
            let code = if version >= 13 { 100 } else { 3 };
            assert_eq!((told.partition_index, told.error_code), (3, code), "{at}");
            let sentinels = (told.high_watermark, told.last_stable_offset, told.log_start_offset);
            assert_eq!(sentinels, (-1, -1, -1), "{at}");
            assert_eq!(told.preferred_read_replica.0, -1, "{at}");
            assert_eq!(told.records.as_ref().map(bytes::Bytes::len), Some(0), "{at}");
            assert!(told.aborted_transactions.as_ref().is_none_or(Vec::is_empty), "{at}");
        }
        ApiKey::ListOffsets => {
            let partition = ListOffsetsPartition::default().with_partition_index(3).with_timestamp(-1);
            let topic =
                ListOffsetsTopic::default().with_name(text(NO_TOPIC).into()).with_partitions(vec![partition]);
            let request = ListOffsetsRequest::default().with_topics(vec![topic]);
            let told = &agent.call(version, &request).await.topics[0].partitions[0];
            assert_eq!((told.partition_index, told.error_code), (3, 3), "{at}");
            assert_eq!((told.offset, told.timestamp, told.leader_epoch), (-1, -1, -1), "{at}");
        }
        _ => {
            let partition = OffsetForLeaderPartition::default().with_partition(3);
            let topic = OffsetForLeaderTopic::default()
                .with_topic(text(NO_TOPIC).into())
                .with_partitions(vec![partition]);
            let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
            let told = &agent.call(version, &request).await.topics[0].partitions[0];
            assert_eq!((told.partition, told.error_code), (3, 3), "{at}");
            assert_eq!((told.leader_epoch, told.end_offset), (-1, -1), "{at}");
        }
    }
}

async fn group(agent: &mut Connection, api: ApiKey, version: i16, at: &str) {
    match api {
        ApiKey::OffsetCommit => {
            let answer = agent.call(version, &offset_commit("g", -1, &[(3, 1)])).await;
            let told = &answer.topics[0].partitions[0];
            assert_eq!((told.partition_index, told.error_code), (3, 3), "{at}");
        }
        ApiKey::TxnOffsetCommit => {
            let answer = agent.call(version, &NOBODY.offsets("g", &[(0, 1)])).await;
            let told = &answer.topics[0].partitions[0];
            assert_eq!((told.partition_index, told.error_code), (0, 49), "{at}");
        }
        // Before version 7 nobody can ask for stable offsets, and nothing else is refused.
        ApiKey::OffsetFetch if version < 7 => {}
        ApiKey::OffsetFetch if version == 7 => {
            let topic = OffsetFetchRequestTopic::default()
                .with_name(text("t").into())
                .with_partition_indexes(vec![0]);
            let request = OffsetFetchRequest::default()
                .with_group_id(text("g").into())
                .with_require_stable(true)
                .with_topics(Some(vec![topic]));
            let answer = agent.call(version, &request).await;
            let told = &answer.topics[0].partitions[0];
            assert_eq!((told.error_code, told.committed_offset, told.committed_leader_epoch), (88, -1, -1));
            assert_eq!(told.metadata.as_deref(), Some(""), "{at}");
        }
        ApiKey::OffsetFetch => {
            let topic = OffsetFetchRequestTopics::default()
                .with_name(text("t").into())
                .with_partition_indexes(vec![0]);
            let group = OffsetFetchRequestGroup::default()
                .with_group_id(text("g").into())
                .with_topics(Some(vec![topic]));
            let request = OffsetFetchRequest::default().with_require_stable(true).with_groups(vec![group]);
            let answer = agent.call(version, &request).await;
            let told = &answer.groups[0].topics[0].partitions[0];
            assert_eq!((told.error_code, told.committed_offset, told.committed_leader_epoch), (88, -1, -1));
            assert_eq!(told.metadata.as_deref(), Some(""), "{at}");
        }
        _ => {
            // Version 0 knows no key types, and nothing else to be wrong.
            let request = FindCoordinatorRequest::default().with_key_type(2);
            match version {
                0 => {}
                1..=3 => {
                    let told = agent.call(version, &request.with_key(text("k"))).await;
                    let answer = (told.error_code, told.node_id.0, told.host.as_str(), told.port);
                    assert_eq!(answer, (42, -1, "", -1), "{at}");
                }
                _ => {
                    let request = request.with_coordinator_keys(vec![text("k")]);
                    let told = agent.call(version, &request).await.coordinators.remove(0);
                    let answer = (told.error_code, told.node_id.0, told.host.as_str(), told.port);
                    assert_eq!((told.key.as_str(), answer), ("k", (42, -1, "", -1)), "{at}");
                }
            }
        }
    }
}

async fn membership(agent: &mut Connection, api: ApiKey, version: i16, at: &str) {
    let (group, nobody) = (text("g").into(), text("nobody"));
    match api {
        ApiKey::JoinGroup => {
            let request = JoinGroupRequest::default().with_group_id(group).with_member_id(nobody.clone());
            let told = agent.call(version, &request).await;
            assert_eq!((told.error_code, told.generation_id, &told.member_id), (26, -1, &nobody), "{at}");
            let protocol = told.protocol_name.as_deref();
            assert_eq!(protocol, if version >= 7 { None } else { Some("") }, "{at}");
            assert_eq!((told.leader.as_str(), told.members.len(), told.protocol_type), ("", 0, None), "{at}");
        }
        ApiKey::SyncGroup => {
            let request = SyncGroupRequest::default()
                .with_group_id(group)
                .with_member_id(nobody)
                .with_protocol_type(Some(text("consumer")))
                .with_protocol_name(Some(text("range")));
            let told = agent.call(version, &request).await;
            assert_eq!((told.error_code, told.assignment.len()), (25, 0), "{at}");
            assert_eq!((told.protocol_type, told.protocol_name), (None, None), "{at}");
        }
        ApiKey::Heartbeat => {
            let request = HeartbeatRequest::default().with_group_id(group).with_member_id(nobody);
            assert_eq!(agent.call(version, &request).await.error_code, 25, "{at}");
        }
        _ if version < 3 => {
            let request = LeaveGroupRequest::default().with_group_id(group).with_member_id(nobody);
            assert_eq!(agent.call(version, &request).await.error_code, 25, "{at}");
        }
        _ => {
            let member = MemberIdentity::default()
                .with_member_id(nobody.clone())
                .with_group_instance_id(Some(text("i")));
            let request = LeaveGroupRequest::default().with_group_id(group).with_members(vec![member]);
            let told = agent.call(version, &request).await;
            assert_eq!((told.error_code, told.members[0].error_code), (0, 25), "{at}");
            assert_eq!(told.members[0].member_id, nobody, "{at}");
            assert_eq!(told.members[0].group_instance_id.as_deref(), Some("i"), "{at}");
        }
    }
}

async fn groups(agent: &mut Connection, api: ApiKey, version: i16, at: &str) {
    match api {
        ApiKey::DeleteGroups => {
            let request = DeleteGroupsRequest::default().with_groups_names(vec![text("nobody").into()]);
            let told = agent.call(version, &request).await.results.remove(0);
            assert_eq!((told.error_code, told.group_id.as_str()), (69, "nobody"), "{at}");
        }
        ApiKey::OffsetDelete => {
            let request = OffsetDeleteRequest::default().with_group_id(text("nobody").into());
            let told = agent.call(version, &request).await;
            assert_eq!((told.error_code, told.topics.len()), (69, 0), "{at}");
        }
        ApiKey::ConsumerGroupHeartbeat => {
            let request = ConsumerGroupHeartbeatRequest::default()
                .with_group_id(text("nobody").into())
                .with_member_id(text("nobody"))
                .with_member_epoch(7);
            let told = agent.call(version, &request).await;
            assert_eq!((told.error_code, told.member_id, told.member_epoch), (69, None, 0), "{at}");
            assert_eq!((told.heartbeat_interval_ms, told.assignment), (0, None), "{at}");
        }
        ApiKey::ConsumerGroupDescribe => {
            let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![text("nobody").into()]);
            let told = agent.call(version, &request).await.groups.remove(0);
            assert_eq!((told.error_code, told.group_id.as_str()), (69, "nobody"), "{at}");
            assert_eq!((told.members.len(), told.authorized_operations), (0, i32::MIN), "{at}");
        }
        ApiKey::DescribeGroups if version >= 6 => {
            let request = DescribeGroupsRequest::default().with_groups(vec![text("nobody").into()]);
            let told = agent.call(version, &request).await.groups.remove(0);
            assert_eq!((told.error_code, told.group_state.as_str()), (69, "Dead"), "{at}");
            assert_eq!((told.members.len(), told.authorized_operations), (0, i32::MIN), "{at}");
        }
        // ListGroups, and DescribeGroups before version 6, refuse nothing that can be asked.
        _ => {}
    }
}

async fn transaction(agent: &mut Connection, api: ApiKey, version: i16, at: &str) {
    let (id, producer_id) = (text(NOBODY.id), ProducerId(NOBODY.producer_id));
    match api {
        ApiKey::InitProducerId => {
            let request = InitProducerIdRequest::default()
                .with_transactional_id(Some(text("").into()))
                .with_transaction_timeout_ms(60_000)
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1);
            let told = agent.call(version, &request).await;
            assert_eq!((told.error_code, told.producer_id.0, told.producer_epoch), (42, -1, -1), "{at}");
        }
        ApiKey::AddPartitionsToTxn => {
            let topic =
                AddPartitionsToTxnTopic::default().with_name(text("t").into()).with_partitions(vec![0]);
            let request = AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(id.into())
                .with_v3_and_below_producer_id(producer_id)
                .with_v3_and_below_topics(vec![topic]);
            let answer = agent.call(version, &request).await;
            let told = &answer.results_by_topic_v3_and_below[0].results_by_partition[0];
            assert_eq!((told.partition_index, told.partition_error_code), (0, 49), "{at}");
        }
        ApiKey::AddOffsetsToTxn => {
            let request = AddOffsetsToTxnRequest::default()
                .with_transactional_id(id.into())
                .with_producer_id(producer_id)
                .with_group_id(text("g").into());
            assert_eq!(agent.call(version, &request).await.error_code, 49, "{at}");
        }
        _ => {
            let request =
                EndTxnRequest::default().with_transactional_id(id.into()).with_producer_id(producer_id);
            let told = agent.call(version, &request).await;
            assert_eq!((told.error_code, told.producer_id.0, told.producer_epoch), (49, -1, -1), "{at}");
        }
    }
}

async fn topics(agent: &mut Connection, api: ApiKey, version: i16, at: &str) {
    match api {
        ApiKey::CreateTopics => {
            let topic = CreatableTopic::default()
                .with_name(text("t").into())
                .with_num_partitions(4)
                .with_replication_factor(1);
            let request = CreateTopicsRequest::default().with_topics(vec![topic]);
            let told = &agent.call(version, &request).await.topics[0];
            assert_eq!((told.error_code, told.name.as_str()), (36, "t"), "{at}");
            assert_eq!((told.num_partitions, told.replication_factor), (-1, -1), "{at}");
            assert_eq!(told.topic_id.into_bytes(), [0; 16], "{at}");
        }
        ApiKey::DeleteTopics => {
            let name = text(NO_TOPIC).into();
            let request = match version {
                6.. => DeleteTopicsRequest::default()
                    .with_topics(vec![DeleteTopicState::default().with_name(Some(name))]),
                _ => DeleteTopicsRequest::default().with_topic_names(vec![name]),
            };
            let told = &agent.call(version, &request).await.responses[0];
            assert_eq!(told.error_code, 3, "{at}");
            assert_eq!(told.name.as_ref().map(|name| name.as_str()), Some(NO_TOPIC), "{at}");
        }
        ApiKey::DeleteRecords => {
            let partition = DeleteRecordsPartition::default().with_partition_index(3);
            let topic = DeleteRecordsTopic::default()
                .with_name(text(NO_TOPIC).into())
                .with_partitions(vec![partition]);
            let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(5_000);
            let told = &agent.call(version, &request).await.topics[0].partitions[0];
            assert_eq!((told.partition_index, told.error_code, told.low_watermark), (3, 3, -1), "{at}");
        }
        _ => {
            let topic = CreatePartitionsTopic::default()
                .with_name(text(NO_TOPIC).into())
                .with_count(9)
                .with_assignments(None);
            let request = CreatePartitionsRequest::default().with_topics(vec![topic]);
            let told = &agent.call(version, &request).await.results[0];
            assert_eq!((told.error_code, told.name.as_str()), (3, NO_TOPIC), "{at}");
        }
    }
}

async fn introspection(agent: &mut Connection, api: ApiKey, version: i16, at: &str) {
    match api {
        ApiKey::DescribeProducers => {
            let topic =
                TopicRequest::default().with_name(text(NO_TOPIC).into()).with_partition_indexes(vec![3]);
            let request = DescribeProducersRequest::default().with_topics(vec![topic]);
            let told = &agent.call(version, &request).await.topics[0].partitions[0];
            assert_eq!((told.partition_index, told.error_code), (3, 3), "{at}");
            assert!(told.active_producers.is_empty(), "{at}");
        }
        ApiKey::DescribeTransactions => {
            let id = text(NOBODY.id).into();
            let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![id]);
            let told = &agent.call(version, &request).await.transaction_states[0];
            assert_eq!((told.error_code, told.producer_id.0, told.producer_epoch), (105, -1, -1), "{at}");
            assert_eq!((told.transaction_timeout_ms, told.transaction_start_time_ms), (-1, -1), "{at}");
        }
        // Before version 2 there is no pattern, and nothing else to be wrong.
        _ if version < 2 => {}
        _ => {
            let request = ListTransactionsRequest::default().with_transactional_id_pattern(Some(text("(")));
            let told = agent.call(version, &request).await;
            assert_eq!((told.error_code, told.transaction_states.len()), (128, 0), "{at}");
        }
    }
}
