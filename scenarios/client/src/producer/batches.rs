//! What the sender loop does about batches: which go out now, and what their answers say.

use super::core::Core;
use super::outcome::Refused;
use super::requests;
use super::sender::{Sender, Tag};
use crate::codes;
use crate::network::Answer;
use crate::node::Failure;
use crate::types::TopicPartition;
use kafka_protocol::messages::ProduceRequest;
use rt::time::Instant;
use std::collections::BTreeMap;

impl Sender {
    /// Sends one request to every node that leads a partition with something to send; whether any was sent.
    pub(super) fn produce(&mut self, core: &mut Core, now: Instant) -> bool {
        let mut by_node: BTreeMap<i32, Vec<TopicPartition>> = BTreeMap::new();
        for partition in core.accumulator.partitions() {
            if core.may_drain(&partition, now) {
                match core.leaders.get(&partition) {
                    Some(node) => by_node.entry(*node).or_default().push(partition),
                    None => self.network.metadata.request_update(),
                }
            }
        }
        let mut sent = false;
        for (node, partitions) in by_node {
            if self.network.ready(node, now) {
                sent = true;
                self.send_batches(core, node, &partitions, now);
            }
        }
        sent
    }

    fn send_batches(&mut self, core: &mut Core, node: i32, partitions: &[TopicPartition], now: Instant) {
        let mut ids = Vec::new();
        let mut batches = Vec::new();
        for partition in partitions {
            if let Some((id, bytes)) = core.drain(partition) {
                ids.push((id, partition.clone()));
                batches.push((partition.clone(), bytes));
            }
        }
        let request = requests::produce(core, &batches);
        let label = || requests::produce_label(core, &batches);
        if core.config.acks != 0 {
            return self.network.send(node, &request, produce_cap(core), Tag::Produce(ids), label, now);
        }
        match self.network.send_unanswered(node, &request, label, now) {
            Ok(()) => ids.into_iter().for_each(|(id, _)| core.batch_acknowledged(id, -1)),
            Err(failure) => self.produced(core, ids, Err(failure), now),
        }
    }

    pub(super) fn produced(
        &mut self,
        core: &mut Core,
        batches: Vec<(u64, TopicPartition)>,
        answer: Result<Answer, Failure>,
        now: Instant,
    ) {
        let results = answer.and_then(Answer::decode::<ProduceRequest>).map(|response| {
            let topics = response.responses.into_iter();
            topics
                .flat_map(|topic| {
                    let name = topic.name.to_string();
                    topic.partition_responses.into_iter().map(move |result| {
                        (
                            TopicPartition::new(name.clone(), result.index),
                            Refused {
                                code: result.error_code,
                                base_offset: result.base_offset,
                                log_start_offset: result.log_start_offset,
                            },
                        )
                    })
                })
                .collect::<BTreeMap<_, _>>()
        });
        for (id, partition) in batches {
            let lost = Refused::with(codes::NETWORK_EXCEPTION);
            let answer = match &results {
                // A partition left out of the answer is as good as unanswered.
                Ok(results) => results.get(&partition).copied().unwrap_or(lost),
                Err(Failure::TimedOut) => Refused::with(codes::REQUEST_TIMED_OUT),
                Err(Failure::UnsupportedVersion) => Refused::with(codes::UNSUPPORTED_VERSION),
                Err(Failure::Disconnected | Failure::Malformed) => lost,
            };
            if answer.code == codes::NONE {
                core.batch_acknowledged(id, answer.base_offset);
            } else {
                core.batch_refused(id, answer, now);
            }
            if codes::blames_metadata(answer.code) {
                self.network.metadata.request_update();
            }
        }
    }
}

/// Version 12 of `Produce` brings partitions into the transaction by itself (TV2).
fn produce_cap(core: &Core) -> i16 {
    if core.transactions.speaks_second_protocol() { 12 } else { 11 }
}
