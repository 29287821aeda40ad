//! What the members of a classic group of consumers are subscribed to: the one thing inside their metadata that Kafka's broker
//! reads too, by the layout of version 0 of `ConsumerProtocolSubscription`, with which all later ones begin.

use super::classic::ClassicGroup;
use bytes::Buf;
use std::collections::BTreeSet;

/// `protocol_type` of consumers.
pub(crate) const CONSUMER: &str = "consumer";

impl ClassicGroup {
    /// Whether the group reads the topic, as far as can be told: consumers whose metadata cannot be read may read
    /// everything (`ClassicGroup.isSubscribedToTopic`).
    pub(crate) fn is_subscribed(&self, topic: &str) -> bool {
        if self.protocol_type.as_deref() != Some(CONSUMER) || self.members.is_empty() {
            return false;
        }
        let Some(protocol) = &self.protocol else { return true };
        self.members
            .values()
            .any(|member| topics(&member.metadata(protocol)).is_none_or(|topics| topics.contains(topic)))
    }
}

/// The topics in a subscription; `None` if it is none.
fn topics(mut metadata: &[u8]) -> Option<BTreeSet<String>> {
    metadata.try_get_i16().ok()?;
    let count = usize::try_from(metadata.try_get_i32().ok()?).ok()?;
    let mut topics = BTreeSet::new();
    for _ in 0..count {
        let length = usize::try_from(metadata.try_get_i16().ok()?).ok()?;
        let (topic, rest) = metadata.split_at_checked(length)?;
        topics.insert(std::str::from_utf8(topic).ok()?.to_string());
        metadata = rest;
    }
    Some(topics)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(metadata: &[u8]) -> Option<Vec<String>> {
        topics(metadata).map(|topics| topics.into_iter().collect())
    }

    #[test]
    fn topics_are_read_off_the_front_of_a_subscription_and_nothing_hostile_is() {
        let two = [0, 3, 0, 0, 0, 2, 0, 1, b'u', 0, 2, b't', b'x', 0xff, 0xff, 0xff, 0xff, 9, 9];
        assert_eq!(read(&two), Some(vec!["tx".to_string(), "u".to_string()]));
        assert_eq!(read(&[0, 0, 0, 0, 0, 0]), Some(vec![]));
        for cut in 0..13 {
            assert_eq!(read(&two[..cut]), None, "{cut}");
        }
        assert_eq!(read(&[0, 0, 0x7f, 0xff, 0xff, 0xff]), None, "two thousand million topics");
        assert_eq!(read(&[0, 0, 0xff, 0xff, 0xff, 0xff]), None, "-1 topics");
        assert_eq!(read(&[0, 0, 0, 0, 0, 1, 0, 1, 0xff]), None, "no text");
    }
}
