//! A raw reader: single Fetch and OffsetFetch requests to agents of the caller's choice, and answers as they are.
//!
//! It keeps no position, filters nothing and retries nothing; what it shows is what the broker says. Fetch requests are
//! of version 12, the last that names topics, OffsetFetch requests of version 8, the first that asks for many groups.

use crate::codec::{self, FRAME_MAX_BYTES};
use crate::codes;
use crate::config::IsolationLevel;
use crate::error::Error;
use crate::records::{self, BatchHeader};
use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::{FetchRequest, GroupId, OffsetFetchRequest, TopicName};
use kafka_protocol::protocol::{Request, StrBytes};
use rt::net::{TcpStream, read_frame};
use rt::time::timeout;
use std::time::Duration;

/// The last version of Fetch that names topics.
const FETCH_VERSION: i16 = 12;
/// The first version of OffsetFetch that asks for many groups.
const OFFSET_FETCH_VERSION: i16 = 8;
/// `fetch.max.bytes`.
const MAX_BYTES: i32 = 52_428_800;

/// A raw reader with one connection at most.
pub struct Probe {
    client_id: String,
    limit: Duration,
    connection: Option<(String, TcpStream)>,
    asked: i32,
}

/// What an agent answered for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The partition.
    pub partition: i32,
    /// Its error code; 0 for none.
    pub code: i16,
    /// Its high watermark.
    pub high_watermark: i64,
    /// Its last stable offset.
    pub last_stable_offset: i64,
    /// Its log start offset.
    pub log_start_offset: i64,
    /// The complete batches returned.
    pub batches: Vec<ProbedBatch>,
}

/// A batch as it was returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedBatch {
    /// Offset of its first record.
    pub base_offset: i64,
    /// Offset of its last record.
    pub last_offset: i64,
    /// Who wrote it; -1 without idempotence.
    pub producer_id: i64,
    /// Under which epoch.
    pub epoch: i16,
    /// The sequence of its first record; -1 in markers and without idempotence.
    pub base_sequence: i32,
    /// Whether it belongs to a transaction.
    pub transactional: bool,
    /// For a marker, whether it commits.
    pub marker: Option<bool>,
    /// All of it.
    pub bytes: Bytes,
}

impl Probe {
    /// A reader that waits `timeout_ms` for an answer, connecting included.
    pub fn new(client_id: &str, timeout_ms: u64) -> Self {
        let limit = Duration::from_millis(timeout_ms);
        Probe { client_id: client_id.to_string(), limit, connection: None, asked: 0 }
    }

    /// Asks the agent at `address` for partitions of `topic` from the offsets given, without waiting for more.
    ///
    /// # Errors
    /// [`Error::Timeout`] without an answer; [`Error::Kafka`] with the code of the answer as a whole;
    /// [`Error::Corrupt`] for a batch that cannot be read.
    pub async fn fetch(
        &mut self,
        address: &str,
        topic: &str,
        offsets: &[(i32, i64)],
        isolation: IsolationLevel,
    ) -> Result<Vec<Probed>, Error> {
        let request = request(topic, offsets, isolation);
        let response = self.ask(address, &request, FETCH_VERSION, "Fetch").await?;
        if response.error_code != 0 {
            return Err(Error::Kafka(response.error_code));
        }
        let partitions = response.responses.into_iter().flat_map(|topic| topic.partitions);
        partitions
            .map(|data| {
                Ok(Probed {
                    partition: data.partition_index,
                    code: data.error_code,
                    high_watermark: data.high_watermark,
                    last_stable_offset: data.last_stable_offset,
                    log_start_offset: data.log_start_offset,
                    batches: batches(data.records.unwrap_or_default())?,
                })
            })
            .collect()
    }

    /// Asks the agent at `address` what `group` has committed of partitions of `topic`; -1 for nothing. Partitions with
    /// offsets of open transactions are left out.
    ///
    /// # Errors
    /// As [`Probe::fetch`]; the code may be a partition's.
    pub async fn committed(
        &mut self,
        address: &str,
        group: &str,
        topic: &str,
        partitions: &[i32],
    ) -> Result<Vec<(i32, i64)>, Error> {
        let name = |name: &str| StrBytes::from_string(name.to_string());
        let topic = OffsetFetchRequestTopics::default()
            .with_name(TopicName(name(topic)))
            .with_partition_indexes(partitions.to_vec());
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(name(group)))
            .with_topics(Some(vec![topic]));
        let request = OffsetFetchRequest::default().with_groups(vec![group]).with_require_stable(true);
        let response = self.ask(address, &request, OFFSET_FETCH_VERSION, "OffsetFetch").await?;
        let group = response.groups.into_iter().next().ok_or(Error::Corrupt { offset: -1 })?;
        if group.error_code != 0 {
            return Err(Error::Kafka(group.error_code));
        }
        let partitions = group.topics.into_iter().flat_map(|topic| topic.partitions);
        let decided = partitions.filter(|partition| partition.error_code != codes::UNSTABLE_OFFSET_COMMIT);
        let found = decided.map(|partition| match partition.error_code {
            0 => Ok((partition.partition_index, partition.committed_offset)),
            code => Err(Error::Kafka(code)),
        });
        found.collect()
    }

    async fn ask<R: Request>(
        &mut self,
        address: &str,
        request: &R,
        version: i16,
        what: &'static str,
    ) -> Result<R::Response, Error> {
        let frame = match timeout(self.limit, self.exchange(address, request, version, what)).await {
            Ok(Ok(frame)) => frame,
            // A connection on which an answer is owed is of no more use.
            _ => {
                self.connection = None;
                return Err(Error::Timeout(what));
            }
        };
        codec::decode::<R>(version, frame).map_err(|_| Error::Corrupt { offset: -1 })
    }

    async fn exchange<R: Request>(
        &mut self,
        address: &str,
        request: &R,
        version: i16,
        what: &str,
    ) -> std::io::Result<Bytes> {
        let mut stream = match self.connection.take() {
            Some((connected, stream)) if connected == address => stream,
            _ => TcpStream::connect(address).await?,
        };
        self.asked += 1;
        let frame = codec::encode(request, version, self.asked, &self.client_id);
        let frame = frame.map_err(|_| std::io::ErrorKind::InvalidInput)?;
        stream.write_frame(&frame, || format!("{what} client={}", self.client_id)).await?;
        let answer = read_frame(&mut stream, FRAME_MAX_BYTES).await?;
        self.connection = Some((address.to_string(), stream));
        answer.ok_or(std::io::ErrorKind::UnexpectedEof.into())
    }
}

fn request(topic: &str, offsets: &[(i32, i64)], isolation: IsolationLevel) -> FetchRequest {
    let partitions = offsets.iter().map(|(partition, offset)| {
        FetchPartition::default()
            .with_partition(*partition)
            .with_fetch_offset(*offset)
            .with_partition_max_bytes(MAX_BYTES)
    });
    let topic = FetchTopic::default()
        .with_topic(TopicName(StrBytes::from_string(topic.to_string())))
        .with_partitions(partitions.collect());
    FetchRequest::default()
        .with_max_wait_ms(0)
        .with_max_bytes(MAX_BYTES)
        .with_isolation_level(isolation.wire())
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

/// The complete batches of a partition's answer.
fn batches(mut bytes: Bytes) -> Result<Vec<ProbedBatch>, Error> {
    let mut found = Vec::new();
    while let Some((header, batch)) = records::split_batch(&mut bytes) {
        let BatchHeader {
            base_offset,
            last_offset,
            producer_id,
            epoch,
            base_sequence,
            transactional,
            control,
        } = header;
        let corrupt = Error::Corrupt { offset: base_offset };
        let marker = match control {
            true => Some(!records::is_abort_marker(batch.clone()).ok_or(corrupt)?),
            false => None,
        };
        found.push(ProbedBatch {
            base_offset,
            last_offset,
            producer_id,
            epoch,
            base_sequence,
            transactional,
            marker,
            bytes: batch,
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Buffered, Stamp, encode};

    #[test]
    fn an_answer_is_split_into_its_complete_batches() {
        let record =
            Buffered { timestamp_ms: 1, key: None, headers: Vec::new(), value: Bytes::from_static(b"a") };
        let stamp = Stamp { producer_id: 7, epoch: 2, base_sequence: 4 };
        let one = encode(&[record.clone(), record], stamp, true);
        let answer = [&one[..], &one[..], &one[..20]].concat();
        let found = batches(answer.into()).unwrap();
        let expected = ProbedBatch {
            base_offset: 0,
            last_offset: 1,
            producer_id: 7,
            epoch: 2,
            base_sequence: 4,
            transactional: true,
            marker: None,
            bytes: one,
        };
        assert_eq!(found, [expected.clone(), expected]);
    }
}
