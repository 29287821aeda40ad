//! What error answers hold, and that they are made in one place.

use super::*;

fn error(code: i16) -> ResponseError {
    ResponseError::try_from_code(code).expect("an error of Kafka's")
}

/// Every code, where clients look at what stands beside it.
#[test]
fn an_error_has_no_offset_no_epoch_and_no_producer() {
    for code in (-1..=133).filter(|code| *code != 0) {
        let error = error(code);
        let told = produced(3, error);
        assert_eq!((told.index, told.error_code), (3, code));
        assert_eq!(
            (told.base_offset, told.log_append_time_ms, told.log_start_offset),
            (-1, -1, -1),
            "{code}"
        );
        let told = fetched(3, error);
        assert_eq!((told.partition_index, told.error_code), (3, code));
        let offsets = (told.high_watermark, told.last_stable_offset, told.log_start_offset);
        assert_eq!((offsets, told.preferred_read_replica.0), ((-1, -1, -1), -1), "{code}");
        assert_eq!((told.records, told.aborted_transactions), (Some(Bytes::new()), None));
        let told = listed_offset(3, error);
        assert_eq!((told.partition_index, told.error_code), (3, code));
        assert_eq!((told.offset, told.timestamp, told.leader_epoch), (-1, -1, -1), "{code}");
        let told = epoch_end(3, error);
        assert_eq!((told.partition, told.error_code), (3, code));
        assert_eq!((told.leader_epoch, told.end_offset), (-1, -1), "{code}");
        let told = deleted_records(3, error);
        assert_eq!((told.partition_index, told.error_code, told.low_watermark), (3, code, -1));
        let told = producer_id(error);
        assert_eq!((told.error_code, told.producer_id.0, told.producer_epoch), (code, -1, -1));
        let told = described_transaction(text("x").into(), error);
        assert_eq!((told.error_code, told.producer_id.0, told.producer_epoch), (code, -1, -1));
        assert_eq!((told.transaction_timeout_ms, told.transaction_start_time_ms), (-1, -1));
        let told = ended(error);
        assert_eq!((told.error_code, told.producer_id.0, told.producer_epoch), (code, -1, -1));
    }
}

#[test]
fn an_error_of_a_group_has_no_offset_and_names_nobody() {
    let told = fetched_offset(3, error(88));
    assert_eq!((told.partition_index, told.error_code), (3, 88));
    assert_eq!((told.committed_offset, told.committed_leader_epoch), (-1, -1));
    assert_eq!(told.metadata.as_deref(), Some(""));
    let told = fetched_group_offset(3, error(88));
    assert_eq!((told.partition_index, told.error_code), (3, 88));
    assert_eq!((told.committed_offset, told.committed_leader_epoch), (-1, -1));
    assert_eq!(told.metadata.as_deref(), Some(""));
    let told = fetched_group(text("g").into(), error(15));
    assert_eq!((told.group_id.as_str(), told.error_code, told.topics.len()), ("g", 15, 0));
    assert_eq!((fetched_offsets(error(15)).error_code, fetched_offsets(error(15)).topics.len()), (15, 0));
    assert_eq!(
        (committed_offset(3, error(22)).partition_index, committed_offset(3, error(22)).error_code),
        (3, 22)
    );
    assert_eq!(
        (pending_offset(3, error(51)).partition_index, pending_offset(3, error(51)).error_code),
        (3, 51)
    );
    let told = coordinator(text("k"), error(15));
    assert_eq!((told.key.as_str(), told.error_code), ("k", 15));
    assert_eq!((told.node_id.0, told.host.as_str(), told.port), (-1, "", -1));
    let told = only_coordinator(error(15));
    assert_eq!((told.error_code, told.node_id.0, told.host.as_str(), told.port), (15, -1, "", -1));
}

#[test]
fn an_error_of_a_groups_membership_tells_of_no_generation() {
    for (version, protocol) in [(0, Some("")), (6, Some("")), (7, None), (9, None)] {
        let told = joined_group(version, text("m"), error(27));
        assert_eq!((told.error_code, told.generation_id, told.member_id.as_str()), (27, -1, "m"));
        assert_eq!((told.protocol_name.as_deref(), told.leader.as_str()), (protocol, ""));
    }
    let told = synced_group(error(27));
    assert_eq!((told.error_code, told.assignment.len(), told.protocol_name), (27, 0, None));
    assert_eq!((heartbeat(error(22)).error_code, left_group(error(16)).error_code), (22, 16));
    let member = MemberIdentity::default().with_member_id(text("m")).with_group_instance_id(Some(text("i")));
    let told = left_member(member, error(82));
    assert_eq!((told.error_code, told.member_id.as_str()), (82, "m"));
    assert_eq!(told.group_instance_id.as_deref(), Some("i"));
    let told = described_group(text("g").into(), error(15));
    assert_eq!((told.error_code, told.group_state.as_str(), told.members.len()), (15, "", 0));
    assert_eq!(told.authorized_operations, i32::MIN);
    let told = described_no_group(text("g").into());
    assert_eq!((told.error_code, told.group_state.as_str(), told.members.len()), (69, "Dead", 0));
    assert_eq!((listed_groups(error(15)).error_code, listed_groups(error(15)).groups.len()), (15, 0));
    let told = beat(error(110));
    assert_eq!((told.error_code, told.member_epoch, told.heartbeat_interval_ms), (110, 0, 0));
    assert_eq!((told.member_id, told.assignment), (None, None));
    let told = described_consumer_group(text("g").into(), error(69));
    assert_eq!((told.error_code, told.group_epoch, told.assignment_epoch), (69, 0, 0));
    assert_eq!((told.members.len(), told.authorized_operations), (0, i32::MIN));
    let told = deleted_group(text("g").into(), error(68));
    assert_eq!((told.error_code, told.group_id.as_str()), (68, "g"));
    assert_eq!((deleted_offsets(error(69)).error_code, deleted_offsets(error(69)).topics.len()), (69, 0));
    let told = deleted_offset(3, error(86));
    assert_eq!((told.partition_index, told.error_code), (3, 86));
}

#[test]
fn an_error_of_an_admin_api_has_no_numbers() {
    let told = created_topic(text("t").into(), error(36));
    assert_eq!((told.error_code, told.num_partitions, told.replication_factor), (36, -1, -1));
    assert_eq!(told.topic_id.into_bytes(), [0; 16]);
    let told = cluster(2, error(114));
    assert_eq!((told.error_code, told.endpoint_type, told.controller_id.0), (114, 2, -1));
    assert_eq!((told.brokers.len(), told.cluster_authorized_operations), (0, i32::MIN));
    let asked = DeleteTopicState::default().with_name(Some(text("t").into()));
    let told = deleted_topic(&asked, error(3));
    assert_eq!((told.error_code, &told.name), (3, &asked.name));
    assert_eq!(created_partitions(text("t").into(), error(37)).error_code, 37);
    let asked = DescribeConfigsResource::default().with_resource_type(2).with_resource_name(text("t"));
    let told = described_configs(asked, error(3));
    assert_eq!((told.error_code, told.resource_type, told.resource_name.as_str()), (3, 2, "t"));
    let asked = MetadataRequestTopic::default().with_name(Some(text("t").into()));
    let told = described_topic(&asked, error(5));
    assert_eq!((told.error_code, told.partitions.len(), &told.name), (5, 0, &asked.name));
    assert_eq!(api_versions(Vec::new(), error(35)).error_code, 35);
    assert_eq!(fetch_session(error(70)).error_code, 70);
    assert_eq!(added_offsets(error(90)).error_code, 90);
    assert_eq!(listed_transactions(error(14)).error_code, 14);
    let told = described_producers(3, error(3));
    assert_eq!((told.partition_index, told.error_code, told.active_producers.len()), (3, 3, 0));
    let told = added_partition(3, error(55));
    assert_eq!((told.partition_index, told.partition_error_code), (3, 55));
}

macro_rules! sources {
    ($($name:literal)*) => { [$(($name, include_str!(concat!($name, ".rs")))),*] };
}

/// A wall: an answer with an error code that another file fills in may hold the schema's defaults beside it.
#[test]
fn no_other_file_gives_an_answer_its_error_code() {
    let sources = sources! {
        "add_offsets_to_txn" "add_partitions_to_txn" "api_versions" "consumer_group_describe"
        "consumer_group_heartbeat" "create_partitions" "create_topics" "delete_groups" "delete_records"
        "delete_topics" "describe_cluster" "describe_configs" "describe_groups" "describe_producers" "describe_transactions" "described" "end_txn" "fetch"
        "find_coordinator" "heartbeat" "init_producer_id" "join_group" "leave_group" "list_groups" "list_offsets" "list_transactions" "metadata" "offset_commit" "offset_delete" "offset_fetch"
        "offset_for_leader_epoch" "outcome" "produce" "sync_group" "txn_offset_commit"
    };
    let modules =
        include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    for module in modules.filter(|module| *module != "refuse") {
        assert!(sources.iter().any(|(name, _)| *name == module), "{module}.rs is not looked at");
    }
    for (name, source) in sources {
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        for word in ["with_error_code(", "with_partition_error_code(", ".error_code = "] {
            assert!(!code.contains(word), "{name}.rs says {word}: make the answer in refuse.rs");
        }
    }
}
