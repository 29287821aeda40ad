//! Every API's answer to a request that succeeds, in every version served. A field that a version does not have must be left
//! out of its answers: they cannot be encoded with it, and the client would see its connection close.

use crate::calls::{Txn, offset_commit};
use crate::harness::{Connection, PLAIN, World, batch, text};
use crate::storage::{fetch_request, produce};
use broker::{AgentConfig, TransactionConfig, TransactionVersion};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, ApiKey, ApiVersionsRequest,
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, CreatePartitionsRequest,
    CreateTopicsRequest, DeleteGroupsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeClusterRequest, DescribeConfigsRequest, DescribeGroupsRequest, DescribeProducersRequest,
    DescribeTransactionsRequest, EndTxnRequest, FindCoordinatorRequest, HeartbeatRequest,
    InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest, ListGroupsRequest, ListOffsetsRequest,
    ListTransactionsRequest, MetadataRequest, OffsetDeleteRequest, OffsetFetchRequest,
    OffsetForLeaderEpochRequest, ProducerId, SyncGroupRequest,
};

#[test]
fn every_answer_fits_its_version() {
    for version in [TransactionVersion::V1, TransactionVersion::V2] {
        let transactions = TransactionConfig { version, ..TransactionConfig::default() };
        let agent = AgentConfig { transactions, ..AgentConfig::default() };
        World { agent, ..World::default() }.run(|cluster| async move {
            let mut agent = cluster.connect("agent-1").await;
            agent.create_topic("t", 1, &[]).await;
            agent.call(9, &produce("t", 0, batch(PLAIN, 1_000, &["a"]))).await;
            let aborted = Txn::init(&mut agent, "aborted").await;
            assert_eq!(aborted.add_partition(&mut agent, "t", 0).await, 0);
            assert_eq!(aborted.produce(&mut agent, "t", 0, 0).await, (0, 1));
            assert_eq!(aborted.end(&mut agent, false).await, 0);
            Txn::init(&mut agent, "aborted").await;
            for api in agent.call(3, &ApiVersionsRequest::default()).await.api_keys {
                let key = ApiKey::try_from(api.api_key).expect("an API of Kafka");
                // Produce is advertised from version 0 and served from 3 (KAFKA-18659).
                let first = if key == ApiKey::Produce { 3 } else { api.min_version };
                for version in first..=api.max_version {
                    let codes = codes(&mut agent, key, version).await;
                    assert!(
                        !codes.is_empty() && codes.iter().all(|code| *code == 0),
                        "{key:?} {version}: {codes:?}"
                    );
                }
            }
        });
    }
}

/// The error codes of an answer to a request of this version that has nothing wrong with it.
async fn codes(agent: &mut Connection, api: ApiKey, v: i16) -> Vec<i16> {
    match api {
        ApiKey::Produce | ApiKey::Fetch | ApiKey::ListOffsets | ApiKey::OffsetForLeaderEpoch => {
            log(agent, api, v).await
        }
        ApiKey::CreateTopics | ApiKey::DeleteTopics | ApiKey::DeleteRecords | ApiKey::CreatePartitions => {
            topics(agent, api, v).await
        }
        ApiKey::OffsetCommit | ApiKey::OffsetFetch | ApiKey::OffsetDelete | ApiKey::DeleteGroups => {
            offsets(agent, api, v).await
        }
        ApiKey::JoinGroup
        | ApiKey::SyncGroup
        | ApiKey::Heartbeat
        | ApiKey::LeaveGroup
        | ApiKey::DescribeGroups => member(agent, api, v).await,
        ApiKey::ConsumerGroupHeartbeat | ApiKey::ConsumerGroupDescribe => consumer(agent, api, v).await,
        ApiKey::InitProducerId
        | ApiKey::AddPartitionsToTxn
        | ApiKey::AddOffsetsToTxn
        | ApiKey::TxnOffsetCommit
        | ApiKey::EndTxn
        | ApiKey::DescribeTransactions => transaction(agent, api, v).await,
        _ => cluster(agent, api, v).await,
    }
}

async fn log(agent: &mut Connection, api: ApiKey, v: i16) -> Vec<i16> {
    match api {
        ApiKey::Produce => {
            let answer = agent.call(v, &produce("t", 0, batch(PLAIN, 1_000, &["b"]))).await;
            vec![answer.responses[0].partition_responses[0].error_code]
        }
        ApiKey::Fetch => {
            let mut request = fetch_request("t", 0, 0);
            if v >= 13 {
                let metadata = agent.call(12, &MetadataRequest::default().with_topics(None)).await;
                let named_t = |topic: &&_| topic_name(topic) == "t";
                request.topics[0].topic_id =
                    metadata.topics.iter().find(named_t).expect("it is there").topic_id;
                request.topics[0].topic = text("").into();
            }
            let answer = agent.call(v, &request).await;
            let told = &answer.responses[0].partitions[0];
            assert_eq!(told.aborted_transactions.as_ref().map(Vec::len), Some(1), "Fetch {v}");
            vec![answer.error_code, told.error_code]
        }
        ApiKey::ListOffsets => {
            let mut codes = Vec::new();
            for timestamp in [-2, -1, 500] {
                let partition =
                    ListOffsetsPartition::default().with_partition_index(0).with_timestamp(timestamp);
                let topic =
                    ListOffsetsTopic::default().with_name(text("t").into()).with_partitions(vec![partition]);
                let request = ListOffsetsRequest::default().with_topics(vec![topic]);
                codes.push(agent.call(v, &request).await.topics[0].partitions[0].error_code);
            }
            codes
        }
        _ => {
            let topic = OffsetForLeaderTopic::default()
                .with_topic(text("t").into())
                .with_partitions(vec![OffsetForLeaderPartition::default().with_leader_epoch(0)]);
            let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
            vec![agent.call(v, &request).await.topics[0].partitions[0].error_code]
        }
    }
}

fn topic_name(topic: &kafka_protocol::messages::metadata_response::MetadataResponseTopic) -> &str {
    topic.name.as_ref().map_or("", |name| name.as_str())
}

async fn topics(agent: &mut Connection, api: ApiKey, v: i16) -> Vec<i16> {
    let name = format!("{api:?}-{v}");
    if api != ApiKey::CreateTopics {
        agent.create_topic(&name, 1, &[]).await;
    }
    let name = text(&name);
    match api {
        ApiKey::CreateTopics => {
            let topic = CreatableTopic::default()
                .with_name(name.into())
                .with_num_partitions(1)
                .with_replication_factor(1);
            let request = CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(5_000);
            vec![agent.call(v, &request).await.topics[0].error_code]
        }
        ApiKey::DeleteTopics => {
            let request = DeleteTopicsRequest::default().with_timeout_ms(5_000);
            let request = match v {
                6.. => request.with_topics(vec![DeleteTopicState::default().with_name(Some(name.into()))]),
                _ => request.with_topic_names(vec![name.into()]),
            };
            vec![agent.call(v, &request).await.responses[0].error_code]
        }
        ApiKey::DeleteRecords => {
            let partition = DeleteRecordsPartition::default().with_offset(0);
            let topic = DeleteRecordsTopic::default().with_name(name.into()).with_partitions(vec![partition]);
            let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(5_000);
            vec![agent.call(v, &request).await.topics[0].partitions[0].error_code]
        }
        _ => {
            let topic =
                CreatePartitionsTopic::default().with_name(name.into()).with_count(2).with_assignments(None);
            let request = CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(5_000);
            vec![agent.call(v, &request).await.results[0].error_code]
        }
    }
}

async fn offsets(agent: &mut Connection, api: ApiKey, v: i16) -> Vec<i16> {
    let group = format!("{api:?}-{v}");
    let commit = offset_commit(&group, -1, &[(0, 1)]);
    let committed = agent.call(if api == ApiKey::OffsetCommit { v } else { 8 }, &commit).await;
    let group = text(&group);
    let mut codes = vec![committed.topics[0].partitions[0].error_code];
    match api {
        ApiKey::OffsetFetch if v < 8 => {
            let topic = OffsetFetchRequestTopic::default()
                .with_name(text("t").into())
                .with_partition_indexes(vec![0]);
            let request =
                OffsetFetchRequest::default().with_group_id(group.into()).with_topics(Some(vec![topic]));
            let answer = agent.call(v, &request).await;
            codes.extend([answer.error_code, answer.topics[0].partitions[0].error_code]);
        }
        ApiKey::OffsetFetch => {
            let topic = OffsetFetchRequestTopics::default()
                .with_name(text("t").into())
                .with_partition_indexes(vec![0]);
            let group =
                OffsetFetchRequestGroup::default().with_group_id(group.into()).with_topics(Some(vec![topic]));
            let answer = agent.call(v, &OffsetFetchRequest::default().with_groups(vec![group])).await;
            codes.extend([answer.groups[0].error_code, answer.groups[0].topics[0].partitions[0].error_code]);
        }
        ApiKey::OffsetDelete => {
            let topic = OffsetDeleteRequestTopic::default()
                .with_name(text("t").into())
                .with_partitions(vec![OffsetDeleteRequestPartition::default()]);
            let request = OffsetDeleteRequest::default().with_group_id(group.into()).with_topics(vec![topic]);
            let answer = agent.call(v, &request).await;
            codes.extend([answer.error_code, answer.topics[0].partitions[0].error_code]);
        }
        ApiKey::DeleteGroups => {
            let request = DeleteGroupsRequest::default().with_groups_names(vec![group.into()]);
            codes.push(agent.call(v, &request).await.results[0].error_code);
        }
        _ => {}
    }
    codes
}

/// One member's whole life, of which one request is of version `v`.
async fn member(agent: &mut Connection, api: ApiKey, v: i16) -> Vec<i16> {
    let at = |asked: ApiKey, newest: i16| if asked == api { v } else { newest };
    let group = text(&format!("{api:?}-{v}"));
    let join_version = at(ApiKey::JoinGroup, 9);
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata("m".into());
    let mut join = JoinGroupRequest::default()
        .with_group_id(group.clone().into())
        .with_session_timeout_ms(10_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    if join_version >= 1 {
        join.rebalance_timeout_ms = 10_000;
    }
    let mut joined = agent.call(join_version, &join).await;
    if joined.error_code == 79 {
        join.member_id = joined.member_id;
        joined = agent.call(join_version, &join).await;
    }
    let (generation, id) = (joined.generation_id, joined.member_id);
    let sync_version = at(ApiKey::SyncGroup, 4);
    let mut sync = SyncGroupRequest::default()
        .with_group_id(group.clone().into())
        .with_generation_id(generation)
        .with_member_id(id.clone());
    if sync_version >= 5 {
        // Mandatory there (KIP-559).
        (sync.protocol_type, sync.protocol_name) = (Some(text("consumer")), Some(text("range")));
    }
    let synced = agent.call(sync_version, &sync).await;
    let beat = HeartbeatRequest::default()
        .with_group_id(group.clone().into())
        .with_generation_id(generation)
        .with_member_id(id.clone());
    let heard = agent.call(at(ApiKey::Heartbeat, 4), &beat).await;
    let mut codes = vec![joined.error_code, synced.error_code, heard.error_code];
    let describe = DescribeGroupsRequest::default().with_groups(vec![group.clone().into()]);
    let described = agent.call(at(ApiKey::DescribeGroups, 5), &describe).await;
    assert_eq!(described.groups[0].members.len(), 1, "{api:?} {v}");
    codes.push(described.groups[0].error_code);
    let leave_version = at(ApiKey::LeaveGroup, 5);
    let leave = LeaveGroupRequest::default().with_group_id(group.into());
    let leave = match leave_version {
        3.. => leave.with_members(vec![MemberIdentity::default().with_member_id(id)]),
        _ => leave.with_member_id(id),
    };
    let left = agent.call(leave_version, &leave).await;
    codes.push(left.error_code);
    codes.extend(left.members.iter().map(|member| member.error_code));
    codes
}

async fn consumer(agent: &mut Connection, api: ApiKey, v: i16) -> Vec<i16> {
    let group = text(&format!("{api:?}-{v}"));
    let version = if api == ApiKey::ConsumerGroupHeartbeat { v } else { 1 };
    let beat = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(group.clone().into())
        .with_member_id(if version >= 1 { text("AAAAAAAAAAAAAAAAAAAAAA") } else { text("") })
        .with_member_epoch(0)
        .with_rebalance_timeout_ms(10_000)
        .with_subscribed_topic_names(Some(vec![text("t").into()]))
        .with_topic_partitions(Some(Vec::new()));
    let told = agent.call(version, &beat).await;
    let describe = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group.into()]);
    let version = if api == ApiKey::ConsumerGroupDescribe { v } else { 1 };
    let described = agent.call(version, &describe).await;
    assert_eq!(described.groups[0].members.len(), 1, "{api:?} {v}");
    vec![told.error_code, described.groups[0].error_code]
}

async fn transaction(agent: &mut Connection, api: ApiKey, v: i16) -> Vec<i16> {
    let id: &'static str = format!("{api:?}-{v}").leak();
    let txn = Txn::init(agent, id).await;
    let mut codes = vec![txn.add_partition(agent, "t", 0).await, txn.add_offsets(agent, 3, "g").await];
    let (name, producer_id) = (text(id), ProducerId(txn.producer_id));
    match api {
        ApiKey::InitProducerId => {
            let request = InitProducerIdRequest::default()
                .with_transactional_id(None)
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1);
            codes.push(agent.call(v, &request).await.error_code);
        }
        ApiKey::AddPartitionsToTxn => {
            let topic =
                AddPartitionsToTxnTopic::default().with_name(text("t").into()).with_partitions(vec![0]);
            let request = AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(name.into())
                .with_v3_and_below_producer_id(producer_id)
                .with_v3_and_below_topics(vec![topic]);
            let answer = agent.call(v, &request).await;
            codes.push(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code);
        }
        ApiKey::AddOffsetsToTxn => {
            let request = AddOffsetsToTxnRequest::default()
                .with_transactional_id(name.into())
                .with_producer_id(producer_id)
                .with_group_id(text("g").into());
            codes.push(agent.call(v, &request).await.error_code);
        }
        ApiKey::TxnOffsetCommit => codes.extend(txn.commit_offsets(agent, v, "g", &[(0, 1)]).await),
        ApiKey::DescribeTransactions => {
            let request =
                DescribeTransactionsRequest::default().with_transactional_ids(vec![name.clone().into()]);
            codes.extend(
                agent.call(v, &request).await.transaction_states.iter().map(|state| state.error_code),
            );
        }
        _ => {
            let request = EndTxnRequest::default()
                .with_transactional_id(name.into())
                .with_producer_id(producer_id)
                .with_committed(true);
            codes.push(agent.call(v, &request).await.error_code);
            return codes;
        }
    }
    codes.push(txn.end(agent, false).await);
    codes
}

async fn cluster(agent: &mut Connection, api: ApiKey, v: i16) -> Vec<i16> {
    match api {
        ApiKey::Metadata => {
            // Version 0 has an empty list for all.
            let topics = if v == 0 { Some(Vec::new()) } else { None };
            let answer = agent.call(v, &MetadataRequest::default().with_topics(topics)).await;
            answer.topics.iter().map(|topic| topic.error_code).collect()
        }
        ApiKey::ApiVersions => vec![agent.call(v, &ApiVersionsRequest::default()).await.error_code],
        ApiKey::FindCoordinator if v < 4 => {
            let answer = agent.call(v, &FindCoordinatorRequest::default().with_key(text("g"))).await;
            vec![answer.error_code]
        }
        ApiKey::FindCoordinator => {
            let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]);
            vec![agent.call(v, &request).await.coordinators[0].error_code]
        }
        ApiKey::ListGroups => {
            let answer = agent.call(v, &ListGroupsRequest::default()).await;
            assert!(!answer.groups.is_empty(), "ListGroups {v}");
            vec![answer.error_code]
        }
        ApiKey::DescribeConfigs => {
            let resource = DescribeConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name(text("t"))
                .with_configuration_keys(None);
            let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
            vec![agent.call(v, &request).await.results[0].error_code]
        }
        ApiKey::DescribeCluster => vec![agent.call(v, &DescribeClusterRequest::default()).await.error_code],
        ApiKey::DescribeProducers => {
            let topic = TopicRequest::default().with_name(text("t").into()).with_partition_indexes(vec![0]);
            let request = DescribeProducersRequest::default().with_topics(vec![topic]);
            let told = agent.call(v, &request).await.topics[0].partitions[0].clone();
            assert!(!told.active_producers.is_empty(), "DescribeProducers {v}");
            vec![told.error_code]
        }
        ApiKey::ListTransactions => {
            let answer = agent.call(v, &ListTransactionsRequest::default()).await;
            assert!(!answer.transaction_states.is_empty(), "ListTransactions {v}");
            vec![answer.error_code]
        }
        _ => panic!("{api:?} {v}: an API without an answer asked for here"),
    }
}
