//! What a request on the wire is called.
//!
//! The words are those that the client models give their frames in the tank (`EndTxn commit id=jt1`), as far as the
//! bytes tell them: which of a client's transactions a request belongs to they do not. Every label has the version
//! (`v4`) and the client's id (`client=producer-1`). An answer is called as the agents call theirs, `EndTxn.reply 0`,
//! with the words of its request that tell whose it is.

use bytes::Bytes;
use kafka_protocol::messages::produce_request::TopicProduceData;
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, ApiKey, ConsumerGroupHeartbeatRequest, EndTxnRequest,
    FindCoordinatorRequest, HeartbeatRequest, InitProducerIdRequest, JoinGroupRequest, LeaveGroupRequest,
    OffsetCommitRequest, ProduceRequest, RequestHeader, SyncGroupRequest, TxnOffsetCommitRequest,
};
use kafka_protocol::protocol::Decodable;

/// A request as far as the proxy understands it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) api: i16,
    pub(super) version: i16,
    pub(super) correlation_id: i32,
    /// `client.id`; empty if it has none.
    pub(super) client_id: String,
    /// Whether the broker answers it (a Produce with `acks=0` it does not).
    pub(super) answered: bool,
    /// The API's name, and what the request says of itself.
    name: String,
    verb: &'static str,
    /// Whose it is: words of the form `id=`, `group=`.
    whose: String,
    /// Topics and partitions.
    what: String,
}

impl Asked {
    /// Reads a request's frame, without its length; `None` if it is none of Kafka's.
    pub(super) fn read(frame: &Bytes) -> Option<Self> {
        let number = |at: usize| Some(i16::from_be_bytes(*frame.get(at..at + 2)?.first_chunk()?));
        let (api, version) = (number(0)?, number(2)?);
        let correlation_id = i32::from_be_bytes(*frame.get(4..8)?.first_chunk()?);
        let client_id = match usize::try_from(number(8)?) {
            Ok(length) => String::from_utf8_lossy(frame.get(10..10 + length)?).into_owned(),
            Err(_) => String::new(),
        };
        let name = ApiKey::try_from(api).map_or_else(|()| format!("api-{api}"), |key| format!("{key:?}"));
        let words = |text: &str| text.replace(char::is_whitespace, "_");
        let mut asked = Asked {
            api,
            version,
            correlation_id,
            client_id: words(&client_id),
            answered: true,
            name,
            verb: "",
            whose: String::new(),
            what: String::new(),
        };
        asked.read_body(frame.clone());
        Some(asked)
    }

    /// The request's label.
    pub(super) fn label(&self) -> String {
        let version = format!("v{}", self.version);
        let client = format!("client={}", self.client_id);
        join(&[&self.name, self.verb, &self.whose, &self.what, &version, &client])
    }

    /// The label of its answer, which carries an error code or several, or none.
    pub(super) fn answer_label(&self, code: Option<i16>) -> String {
        let name = format!("{}.reply", self.name);
        let code = code.map_or_else(String::new, |code| code.to_string());
        let version = format!("v{}", self.version);
        let client = format!("client={}", self.client_id);
        join(&[&name, &code, &self.whose, &version, &client])
    }

    fn read_body(&mut self, mut frame: Bytes) {
        let Ok(key) = ApiKey::try_from(self.api) else { return };
        let range = key.valid_versions();
        if !(range.min..=range.max).contains(&self.version) {
            return;
        }
        if RequestHeader::decode(&mut frame, key.request_header_version(self.version)).is_ok() {
            // A body that cannot be read is for the broker to judge.
            let _ = self.read_known(key, frame);
        }
    }

    fn read_known(&mut self, key: ApiKey, frame: Bytes) -> Option<()> {
        let version = self.version;
        match key {
            ApiKey::Produce => {
                let request: ProduceRequest = body(frame, version)?;
                self.answered = request.acks != 0;
                self.whose = request.transactional_id.map_or_else(String::new, |id| word("id", &id));
                self.what = produced(&request.topic_data);
            }
            ApiKey::EndTxn => {
                let request: EndTxnRequest = body(frame, version)?;
                self.verb = if request.committed { "commit" } else { "abort" };
                self.whose = word("id", &request.transactional_id);
                self.what = format!("pid={} epoch={}", request.producer_id.0, request.producer_epoch);
            }
            ApiKey::InitProducerId => {
                let request: InitProducerIdRequest = body(frame, version)?;
                self.whose = request.transactional_id.map_or_else(String::new, |id| word("id", &id));
                // Who asks for the next epoch says which one it has.
                if request.producer_id.0 >= 0 {
                    self.what = format!("pid={} epoch={}", request.producer_id.0, request.producer_epoch);
                }
            }
            ApiKey::AddPartitionsToTxn => {
                let request: AddPartitionsToTxnRequest = body(frame, version)?;
                self.whose = word("id", &request.v3_and_below_transactional_id);
                let topics = request.v3_and_below_topics.iter().flat_map(|topic| {
                    topic.partitions.iter().map(|partition| format!("{}-{partition}", *topic.name))
                });
                self.what = topics.collect::<Vec<_>>().join(",");
            }
            ApiKey::AddOffsetsToTxn => {
                let request: AddOffsetsToTxnRequest = body(frame, version)?;
                self.whose = both(&request.transactional_id, &request.group_id);
            }
            ApiKey::TxnOffsetCommit => {
                let request: TxnOffsetCommitRequest = body(frame, version)?;
                self.whose = both(&request.transactional_id, &request.group_id);
            }
            ApiKey::FindCoordinator => {
                let request: FindCoordinatorRequest = body(frame, version)?;
                let keys = request.coordinator_keys.iter().chain(Some(&request.key));
                let keys = keys.filter(|key| !key.is_empty()).map(|key| word("id", key));
                self.whose = keys.collect::<Vec<_>>().join(" ");
            }
            ApiKey::JoinGroup => {
                self.whose = word("group", &body::<JoinGroupRequest>(frame, version)?.group_id)
            }
            ApiKey::SyncGroup => {
                self.whose = word("group", &body::<SyncGroupRequest>(frame, version)?.group_id)
            }
            ApiKey::Heartbeat => {
                self.whose = word("group", &body::<HeartbeatRequest>(frame, version)?.group_id)
            }
            ApiKey::LeaveGroup => {
                self.whose = word("group", &body::<LeaveGroupRequest>(frame, version)?.group_id)
            }
            ApiKey::OffsetCommit => {
                self.whose = word("group", &body::<OffsetCommitRequest>(frame, version)?.group_id);
            }
            ApiKey::ConsumerGroupHeartbeat => {
                self.whose = word("group", &body::<ConsumerGroupHeartbeatRequest>(frame, version)?.group_id);
            }
            _ => {}
        }
        Some(())
    }
}

/// The partitions of a Produce; and the producer id, the epoch and the base sequences of its batches, if they have them.
fn produced(topics: &[TopicProduceData]) -> String {
    let (mut partitions, mut sequences, mut producer) = (Vec::new(), Vec::new(), None);
    for topic in topics {
        let name = match topic.name.is_empty() {
            true => topic.topic_id.to_string(),
            false => topic.name.to_string(),
        };
        for data in &topic.partition_data {
            partitions.push(format!("{name}-{}", data.index));
            if let Some((producer_id, epoch, base_sequence)) = data.records.as_ref().and_then(stamp) {
                // All batches of a request are one producer's.
                producer = Some((producer_id, epoch));
                sequences.push(base_sequence.to_string());
            }
        }
    }
    let partitions = partitions.join(",");
    producer.map_or(partitions.clone(), |(producer_id, epoch)| {
        format!("{partitions} pid={producer_id} epoch={epoch} seq={}", sequences.join(","))
    })
}

/// Producer id, epoch and base sequence of the first batch, by the layout of a batch's header; `None` without a producer id.
fn stamp(records: &Bytes) -> Option<(i64, i16, i32)> {
    let producer_id = i64::from_be_bytes(*records.get(43..51)?.first_chunk()?);
    let epoch = i16::from_be_bytes(*records.get(51..53)?.first_chunk()?);
    let base_sequence = i32::from_be_bytes(*records.get(53..57)?.first_chunk()?);
    (producer_id >= 0).then_some((producer_id, epoch, base_sequence))
}

fn body<T: Decodable>(mut frame: Bytes, version: i16) -> Option<T> {
    T::decode(&mut frame, version).ok()
}

fn word(field: &str, value: &str) -> String {
    format!("{field}={}", value.replace(char::is_whitespace, "_"))
}

fn both(transactional_id: &str, group: &str) -> String {
    format!("{} {}", word("id", transactional_id), word("group", group))
}

fn join(words: &[&str]) -> String {
    words.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::TopicName;
    use kafka_protocol::messages::produce_request::PartitionProduceData;
    use kafka_protocol::protocol::StrBytes;

    #[test]
    fn an_end_of_a_transaction_is_called_as_in_the_tank() {
        // EndTxn version 1: header (key 26, version 1, correlation id 9, client "c 1"), id jt1, producer 7, epoch 1, commit.
        let frame = b"\0\x1a\0\x01\0\0\0\x09\0\x03c 1\0\x03jt1\0\0\0\0\0\0\0\x07\0\x01\x01";
        let asked = Asked::read(&Bytes::from_static(frame)).unwrap();
        assert_eq!(asked.label(), "EndTxn commit id=jt1 pid=7 epoch=1 v1 client=c_1");
        assert_eq!(asked.answer_label(Some(51)), "EndTxn.reply 51 id=jt1 v1 client=c_1");
        assert_eq!((asked.correlation_id, asked.answered), (9, true));
    }

    #[test]
    fn what_is_not_known_has_a_name_all_the_same() {
        let unknown = Asked::read(&Bytes::from_static(b"\x03\xe7\0\x02\0\0\0\x01\xff\xff")).unwrap();
        assert_eq!(unknown.label(), "api-999 v2 client=");
        // Metadata of a version from the future.
        let newer = Asked::read(&Bytes::from_static(b"\0\x03\0\x63\0\0\0\x01\0\x01c")).unwrap();
        assert_eq!(newer.label(), "Metadata v99 client=c");
        assert_eq!(Asked::read(&Bytes::from_static(b"\0\x03\0\x63\0\0\0\x01\0\x05c")), None);
        assert_eq!(Asked::read(&Bytes::from_static(b"GET /")), None);
    }

    #[test]
    fn a_produce_is_called_by_its_producer_and_sequences() {
        let batch = |producer_id: i64, base_sequence: i32| {
            let mut header = vec![0; 61];
            header[43..51].copy_from_slice(&producer_id.to_be_bytes());
            header[51..53].copy_from_slice(&3_i16.to_be_bytes());
            header[53..57].copy_from_slice(&base_sequence.to_be_bytes());
            Some(Bytes::from(header))
        };
        let topics = |producer_id| {
            let data = |index, base_sequence| {
                let records = batch(producer_id, base_sequence);
                PartitionProduceData::default().with_index(index).with_records(records)
            };
            let name = TopicName(StrBytes::from_static_str("orders"));
            [TopicProduceData::default().with_name(name).with_partition_data(vec![data(0, 4), data(2, 0)])]
        };
        assert_eq!(produced(&topics(7)), "orders-0,orders-2 pid=7 epoch=3 seq=4,0");
        assert_eq!(produced(&topics(-1)), "orders-0,orders-2", "without idempotence");
    }

    #[test]
    fn a_produce_without_acks_is_not_answered() {
        // Produce version 3: no transactional id, acks, timeout, no topics.
        let frame = |acks: &[u8]| {
            [b"\0\0\0\x03\0\0\0\x01\0\x01c\xff\xff", acks, b"\0\0\0\x05\0\0\0\0"].concat().into()
        };
        assert!(!Asked::read(&frame(b"\0\0")).unwrap().answered);
        assert!(Asked::read(&frame(b"\xff\xff")).unwrap().answered);
    }
}
