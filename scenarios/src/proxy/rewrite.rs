//! Answers to Produce that say something else than the broker did: what a client makes of an error code and an offset is
//! seen without a broker that is wrong.
//!
//! A rewrite is not one of the tank's faults: it needs no world, only a client. Its pattern is matched against what the
//! broker answered.

use super::answer::{decode, encode};
use super::faults::{Way, meets};
use super::label::Asked;
use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, ProduceResponse};
use serde::Deserialize;
use sim::fault::FramePattern;

/// What becomes of one answer to Produce. What is left out stays as the broker said.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rewrite {
    /// Its name in the log.
    id: u32,
    /// The answer; `nth` counts from when this is asked for.
    frame: FramePattern,
    /// Error code of every partition.
    #[serde(default)]
    code: Option<i16>,
    /// Offset that every partition's first record is said to have.
    #[serde(default)]
    base_offset: Option<i64>,
}

/// Rewrites that wait for their answers.
#[derive(Debug, Default)]
pub(super) struct Rewrites(Vec<(Rewrite, u32)>);

/// An answer that was rewritten.
pub(super) struct Rewritten {
    pub(super) by: u32,
    /// Without its length.
    pub(super) frame: Bytes,
    /// Its error code now.
    pub(super) code: i16,
}

impl Rewrites {
    /// Asks for a rewrite, as JSON.
    ///
    /// # Errors
    /// Field and problem.
    pub(super) fn ask(&mut self, text: &str) -> Result<(), String> {
        let mut json = serde_json::Deserializer::from_str(text);
        let rewrite: Rewrite = serde_path_to_error::deserialize(&mut json)
            .map_err(|error| format!("{}: {}", error.path(), error.inner()))?;
        if rewrite.frame.nth == 0 {
            return Err("frame.nth: nth counts from 1".into());
        }
        self.0.push((rewrite, 0));
        Ok(())
    }

    /// Rewrites the answer to `asked` that goes this way, if one waits for it.
    pub(super) fn apply(&mut self, way: &Way, asked: &Asked, frame: &Bytes) -> Option<Rewritten> {
        let mut due = None;
        for (index, (rewrite, seen)) in self.0.iter_mut().enumerate() {
            if meets(&rewrite.frame, way) {
                *seen += 1;
                if *seen == rewrite.frame.nth && due.is_none() {
                    due = Some(index);
                }
            }
        }
        let (rewrite, _) = self.0.remove(due?);
        rewrite.apply(asked, frame)
    }
}

impl Rewrite {
    /// `None` for an answer to anything but Produce.
    fn apply(&self, asked: &Asked, frame: &Bytes) -> Option<Rewritten> {
        if asked.api != ApiKey::Produce as i16 {
            return None;
        }
        let (header, mut body) = decode::<ProduceResponse>(frame, asked.version)?;
        let mut first_code = 0;
        for partition in body.responses.iter_mut().flat_map(|topic| &mut topic.partition_responses) {
            partition.error_code = self.code.unwrap_or(partition.error_code);
            partition.base_offset = self.base_offset.unwrap_or(partition.base_offset);
            first_code = if first_code == 0 { partition.error_code } else { first_code };
        }
        let frame = encode(asked.version, &header, &body)?;
        Some(Rewritten { by: self.id, frame, code: first_code })
    }
}

#[cfg(test)]
mod tests {
    use super::super::faults::Side;
    use super::*;
    use kafka_protocol::messages::ResponseHeader;
    use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};

    fn answered(label: &str) -> Way {
        Way { from: Side::Broker("broker-1".into()), to: Side::Client("c".into()), label: label.into() }
    }

    /// Produce version 9, of which nothing but the header is read.
    fn asked() -> Asked {
        Asked::read(&Bytes::from_static(b"\0\0\0\x09\0\0\0\x07\0\x01c\0")).unwrap()
    }

    fn answer(code: i16, base_offset: i64) -> Bytes {
        let partition =
            PartitionProduceResponse::default().with_error_code(code).with_base_offset(base_offset);
        let topic = TopicProduceResponse::default().with_partition_responses(vec![partition]);
        let body = ProduceResponse::default().with_responses(vec![topic]);
        encode(9, &ResponseHeader::default().with_correlation_id(7), &body).unwrap()
    }

    #[test]
    fn the_nth_answer_says_what_is_asked_for_and_the_rest_stays() {
        let mut rewrites = Rewrites::default();
        rewrites
            .ask(r#"{"id": 3, "frame": {"words": "Produce.reply client=c", "nth": 2}, "code": 46}"#)
            .unwrap();
        rewrites
            .ask(r#"{"id": 4, "frame": {"words": "Produce.reply", "nth": 4}, "base_offset": 0}"#)
            .unwrap();
        let (way, asked) = (answered("Produce.reply 0 client=c"), asked());
        assert!(rewrites.apply(&way, &asked, &answer(0, 5)).is_none());
        assert!(rewrites.apply(&answered("EndTxn.reply 0"), &asked, &answer(0, 5)).is_none());
        let second = rewrites.apply(&way, &asked, &answer(0, 6)).unwrap();
        assert_eq!((second.by, second.frame, second.code), (3, answer(46, 6), 46));
        assert!(rewrites.apply(&way, &asked, &answer(0, 7)).is_none());
        let fourth = rewrites.apply(&way, &asked, &answer(0, 8)).unwrap();
        assert_eq!((fourth.by, fourth.frame, fourth.code), (4, answer(0, 0), 0));
        assert!(rewrites.apply(&way, &asked, &answer(0, 9)).is_none());
    }

    #[test]
    fn what_is_not_a_rewrite_is_refused_with_its_field() {
        let problem = |text: &str| Rewrites::default().ask(text).unwrap_err();
        let field = problem(r#"{"id": 1, "frame": {"words": "A"}, "offset": 0}"#);
        assert!(field.starts_with("offset: unknown field `offset`"), "{field}");
        let nth = problem(r#"{"id": 1, "frame": {"words": "A", "nth": 0}}"#);
        assert!(nth.starts_with("frame.nth: "), "{nth}");
    }
}
