//! The error an answer is counted by: the first of its codes that is not 0.

use kafka_protocol::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnResponse, ApiVersionsResponse, ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse, CreatePartitionsResponse, CreateTopicsResponse, DeleteGroupsResponse,
    DeleteRecordsResponse, DeleteTopicsResponse, DescribeClusterResponse, DescribeConfigsResponse,
    DescribeGroupsResponse, DescribeProducersResponse, DescribeTransactionsResponse, EndTxnResponse,
    FetchResponse, FindCoordinatorResponse, HeartbeatResponse, InitProducerIdResponse, JoinGroupResponse,
    LeaveGroupResponse, ListGroupsResponse, ListOffsetsResponse, ListTransactionsResponse, MetadataResponse,
    OffsetCommitResponse, OffsetDeleteResponse, OffsetFetchResponse, OffsetForLeaderEpochResponse,
    ProduceResponse, SyncGroupResponse, TxnOffsetCommitResponse,
};

/// An answer with error codes.
pub(super) trait Outcome {
    /// The first code that is not 0, or 0.
    fn code(&self) -> i16;
}

fn first(codes: impl IntoIterator<Item = i16>) -> i16 {
    codes.into_iter().find(|code| *code != 0).unwrap_or_default()
}

/// Answers with one code.
macro_rules! single {
    ($($response:ty),* $(,)?) => {
        $(impl Outcome for $response {
            fn code(&self) -> i16 {
                self.error_code
            }
        })*
    };
}

/// Answers with a code for each of a list, or of a list in each of a list.
macro_rules! listed {
    ($($response:ty: $list:ident $(/ $inner:ident)? . $code:ident),* $(,)?) => {
        $(impl Outcome for $response {
            fn code(&self) -> i16 {
                first(self.$list.iter()$(.flat_map(|one| &one.$inner))?.map(|one| one.$code))
            }
        })*
    };
}

single!(
    AddOffsetsToTxnResponse,
    ApiVersionsResponse,
    ConsumerGroupHeartbeatResponse,
    DescribeClusterResponse,
    EndTxnResponse,
    HeartbeatResponse,
    InitProducerIdResponse,
    JoinGroupResponse,
    ListGroupsResponse,
    ListTransactionsResponse,
    SyncGroupResponse,
);

listed!(
    AddPartitionsToTxnResponse: results_by_topic_v3_and_below / results_by_partition.partition_error_code,
    ConsumerGroupDescribeResponse: groups.error_code,
    CreatePartitionsResponse: results.error_code,
    CreateTopicsResponse: topics.error_code,
    DeleteGroupsResponse: results.error_code,
    DeleteRecordsResponse: topics / partitions.error_code,
    DeleteTopicsResponse: responses.error_code,
    DescribeConfigsResponse: results.error_code,
    DescribeGroupsResponse: groups.error_code,
    DescribeProducersResponse: topics / partitions.error_code,
    DescribeTransactionsResponse: transaction_states.error_code,
    ListOffsetsResponse: topics / partitions.error_code,
    OffsetCommitResponse: topics / partitions.error_code,
    OffsetForLeaderEpochResponse: topics / partitions.error_code,
    ProduceResponse: responses / partition_responses.error_code,
    TxnOffsetCommitResponse: topics / partitions.error_code,
);

impl Outcome for FetchResponse {
    fn code(&self) -> i16 {
        let partitions = self.responses.iter().flat_map(|topic| &topic.partitions);
        first([self.error_code].into_iter().chain(partitions.map(|partition| partition.error_code)))
    }
}

impl Outcome for FindCoordinatorResponse {
    fn code(&self) -> i16 {
        first([self.error_code].into_iter().chain(self.coordinators.iter().map(|one| one.error_code)))
    }
}

impl Outcome for LeaveGroupResponse {
    fn code(&self) -> i16 {
        first([self.error_code].into_iter().chain(self.members.iter().map(|member| member.error_code)))
    }
}

impl Outcome for MetadataResponse {
    fn code(&self) -> i16 {
        first([self.error_code].into_iter().chain(self.topics.iter().map(|topic| topic.error_code)))
    }
}

impl Outcome for OffsetDeleteResponse {
    fn code(&self) -> i16 {
        let partitions = self.topics.iter().flat_map(|topic| &topic.partitions);
        first([self.error_code].into_iter().chain(partitions.map(|partition| partition.error_code)))
    }
}

impl Outcome for OffsetFetchResponse {
    fn code(&self) -> i16 {
        // Of a single group in old versions, of many in new ones.
        let old = self.topics.iter().flat_map(|topic| &topic.partitions).map(|one| one.error_code);
        let of_groups = self.groups.iter().map(|group| group.error_code);
        let topics = self.groups.iter().flat_map(|group| &group.topics);
        let new = topics.flat_map(|topic| &topic.partitions).map(|one| one.error_code);
        first([self.error_code].into_iter().chain(old).chain(of_groups).chain(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};

    #[test]
    fn the_first_error_counts_and_none_is_0() {
        let topic = |codes: &[i16]| {
            let partition = |code: &i16| PartitionData::default().with_error_code(*code);
            FetchableTopicResponse::default().with_partitions(codes.iter().map(partition).collect())
        };
        let fetched = |code, topics: Vec<FetchableTopicResponse>| {
            FetchResponse::default().with_error_code(code).with_responses(topics).code()
        };
        assert_eq!(fetched(0, vec![topic(&[0, 0]), topic(&[])]), 0);
        assert_eq!(fetched(0, vec![topic(&[0]), topic(&[0, 3, 1])]), 3);
        assert_eq!(fetched(71, vec![topic(&[3])]), 71);
        assert_eq!(HeartbeatResponse::default().with_error_code(27).code(), 27);
    }
}
