//! The client's view of the cluster: agents, and who leads which partition.

use crate::codes;
use crate::types::TopicPartition;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use rt::time::Instant;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A partition's leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) node: i32,
    pub(crate) epoch: i32,
}

/// What the last useful `Metadata` answer said, and whether another is wanted.
pub(crate) struct Metadata {
    /// Agents by node id. Bootstrap addresses have the ids -1, -2, ... until the first answer.
    pub(crate) nodes: BTreeMap<i32, String>,
    pub(crate) controller: i32,
    /// Grows with every useful answer; 0 before the first.
    pub(crate) version: u64,
    topics: BTreeMap<String, MetadataResponseTopic>,
    wanted: BTreeSet<String>,
    stale: bool,
    in_flight: bool,
    updated_at: Instant,
    retry_at: Instant,
    max_age: Duration,
    backoff: Duration,
}

impl Metadata {
    pub(crate) fn new(bootstrap: &[String], max_age: Duration, backoff: Duration) -> Self {
        let nodes = (1..).zip(bootstrap).map(|(i, address)| (-i, address.clone())).collect();
        Metadata {
            nodes,
            controller: -1,
            version: 0,
            topics: BTreeMap::new(),
            wanted: BTreeSet::new(),
            stale: true,
            in_flight: false,
            updated_at: Instant::now(),
            retry_at: Instant::now(),
            max_age,
            backoff,
        }
    }

    /// Asks for `topic` in this and later requests.
    pub(crate) fn want(&mut self, topic: &str) {
        if !self.wanted.contains(topic) {
            self.wanted.insert(topic.to_string());
            self.stale = true;
        }
    }

    /// Asks for a new answer.
    pub(crate) fn request_update(&mut self) {
        self.stale = true;
    }

    /// When the next request is due; `None` while one is in flight.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        let due = if self.stale { self.retry_at } else { self.retry_at.max(self.updated_at + self.max_age) };
        (!self.in_flight).then_some(due)
    }

    /// The request to send now. No topics means none, not all.
    pub(crate) fn request(&mut self) -> MetadataRequest {
        self.in_flight = true;
        let topics = self.wanted.iter().map(|topic| {
            MetadataRequestTopic::default().with_name(Some(TopicName(StrBytes::from_string(topic.clone()))))
        });
        MetadataRequest::default().with_topics(Some(topics.collect())).with_allow_auto_topic_creation(false)
    }

    /// The request got no answer.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.in_flight = false;
        self.retry_at = now + self.backoff;
    }

    /// Takes an answer in. One without agents is ignored, as in Java's client: such an agent is only just starting.
    pub(crate) fn update(&mut self, response: MetadataResponse, now: Instant) {
        self.failed(now);
        if response.brokers.is_empty() {
            return;
        }
        self.nodes =
            response.brokers.iter().map(|b| (b.node_id.0, format!("{}:{}", &*b.host, b.port))).collect();
        self.controller = response.controller_id.0;
        let before = std::mem::take(&mut self.topics);
        let mut complete = true;
        for mut topic in response.topics {
            if let Some(known) = topic.name.as_ref().and_then(|name| before.get(&*name.0)) {
                keep_newer_leaders(&mut topic, known);
            }
            complete &= topic.error_code == codes::NONE
                && topic.partitions.iter().all(|partition| partition.error_code == codes::NONE);
            if let Some(name) = &topic.name
                && topic.error_code == codes::NONE
            {
                self.topics.insert(name.to_string(), topic);
            }
        }
        // An unknown topic or a missing leader is asked for again, after the backoff.
        let wanted_all = self.wanted.iter().all(|topic| self.topics.contains_key(topic));
        self.stale = !(complete && wanted_all);
        self.updated_at = now;
        self.version += 1;
    }

    pub(crate) fn leader(&self, partition: &TopicPartition) -> Option<Leader> {
        let found = self
            .topics
            .get(&partition.topic)?
            .partitions
            .iter()
            .find(|found| found.partition_index == partition.partition)?;
        let leader = Leader { node: found.leader_id.0, epoch: found.leader_epoch };
        self.nodes.contains_key(&leader.node).then_some(leader)
    }

    /// Every partition with a known leader.
    pub(crate) fn leaders(&self) -> BTreeMap<TopicPartition, i32> {
        let all = self.topics.iter().flat_map(|(name, topic)| {
            topic.partitions.iter().map(move |p| TopicPartition::new(name.clone(), p.partition_index))
        });
        all.filter_map(|partition| self.leader(&partition).map(|leader| (partition, leader.node))).collect()
    }

    /// A topic as the cluster described it, which holds its id.
    pub(crate) fn topic(&self, name: &str) -> Option<&MetadataResponseTopic> {
        self.topics.get(name)
    }

    /// All topics the cluster described.
    pub(crate) fn topics(&self) -> impl Iterator<Item = (&String, &MetadataResponseTopic)> {
        self.topics.iter()
    }
}

/// An agent may know less than was told before: a leader of an older epoch is not taken (KIP-320, Java's
/// `Metadata.updateLatestMetadata`). Another topic of the same name starts anew.
fn keep_newer_leaders(topic: &mut MetadataResponseTopic, known: &MetadataResponseTopic) {
    if topic.topic_id != known.topic_id {
        return;
    }
    for partition in &mut topic.partitions {
        let known = known.partitions.iter().find(|it| it.partition_index == partition.partition_index);
        if let Some(newer) = known.filter(|known| known.leader_epoch > partition.leader_epoch) {
            *partition = newer.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::metadata_response::{MetadataResponseBroker, MetadataResponsePartition};

    fn metadata() -> Metadata {
        let bootstrap = ["a:1".to_string(), "b:2".to_string()];
        Metadata::new(&bootstrap, Duration::from_secs(300), Duration::from_millis(100))
    }

    fn answer(leader: i32) -> MetadataResponse {
        let broker = |id: i32| {
            MetadataResponseBroker::default()
                .with_node_id(id.into())
                .with_host(StrBytes::from_static_str("agent"))
                .with_port(9090 + id)
        };
        let partition = MetadataResponsePartition::default().with_leader_id(leader.into());
        let topic = MetadataResponseTopic::default()
            .with_name(Some(TopicName(StrBytes::from_static_str("t0"))))
            .with_partitions(vec![partition]);
        MetadataResponse::default()
            .with_brokers(vec![broker(1), broker(2)])
            .with_controller_id(2.into())
            .with_topics(vec![topic])
    }

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    #[tokio::test]
    async fn an_answer_replaces_the_bootstrap_addresses() {
        let mut metadata = metadata();
        assert_eq!(metadata.nodes, BTreeMap::from([(-1, "a:1".to_string()), (-2, "b:2".to_string())]));
        metadata.update(answer(2), NOW);
        assert_eq!(metadata.nodes[&2], "agent:9092");
        assert_eq!(metadata.leader(&TopicPartition::new("t0", 0)).map(|leader| leader.node), Some(2));
        assert_eq!(metadata.leader(&TopicPartition::new("t0", 1)), None);
        assert_eq!(metadata.due_at(), Some(NOW + Duration::from_secs(300)));
    }

    #[tokio::test]
    async fn an_answer_without_agents_is_ignored() {
        let mut metadata = metadata();
        metadata.update(MetadataResponse::default(), NOW);
        assert_eq!((metadata.version, metadata.nodes.len()), (0, 2));
        assert_eq!(metadata.due_at(), Some(NOW + Duration::from_millis(100)));
    }

    /// 6, KIP-320: an answer with an older leader epoch is out of date.
    #[tokio::test]
    async fn a_leader_of_an_older_epoch_is_not_taken() {
        let mut metadata = metadata();
        let at = |leader, epoch| {
            let mut answer = answer(leader);
            answer.topics[0].partitions[0].leader_epoch = epoch;
            answer
        };
        let leader = |metadata: &Metadata| metadata.leader(&TopicPartition::new("t0", 0)).unwrap();
        metadata.update(at(1, 5), NOW);
        metadata.update(at(2, 4), NOW);
        assert_eq!(leader(&metadata), Leader { node: 1, epoch: 5 });
        metadata.update(at(2, 6), NOW);
        assert_eq!(leader(&metadata), Leader { node: 2, epoch: 6 });
        // Made anew, it is another topic.
        let mut anew = at(1, 0);
        anew.topics[0].topic_id = "00000000-0000-0000-0000-000000000001".parse().unwrap();
        metadata.update(anew, NOW);
        assert_eq!(leader(&metadata), Leader { node: 1, epoch: 0 });
    }

    #[tokio::test]
    async fn a_topic_that_is_missing_is_asked_for_again() {
        let mut metadata = metadata();
        metadata.want("t1");
        metadata.update(answer(1), NOW);
        assert_eq!(metadata.due_at(), Some(NOW + Duration::from_millis(100)));
    }

    #[tokio::test]
    async fn a_leader_that_is_no_agent_is_unknown() {
        let mut metadata = metadata();
        metadata.update(answer(7), NOW);
        assert_eq!(metadata.leaders(), BTreeMap::new());
    }
}
