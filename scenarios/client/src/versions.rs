//! Which version of an API is spoken: the highest that both sides know.
//!
//! The client's side is Java 3.8.0's (its `*Request.json` schemas), and beyond it version 12 of `Produce` and 5 of
//! `EndTxn`, which belong to the second transaction protocol: who does not speak that caps them. A broker that does
//! says so by the finalized feature `transaction.version`, not by these versions.

use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiKey, ApiVersionsResponse};
use std::collections::BTreeMap;

/// The range of versions that Java 3.8.0 and the codec both speak; `None` for APIs no model uses.
fn spoken(api: ApiKey) -> Option<(i16, i16)> {
    Some(match api {
        ApiKey::Produce => (3, 12),
        ApiKey::Fetch => (4, 16),
        ApiKey::ListOffsets => (1, 8),
        ApiKey::Metadata => (0, 12),
        ApiKey::FindCoordinator => (0, 5),
        ApiKey::ApiVersions => (0, 3),
        ApiKey::CreateTopics => (2, 7),
        ApiKey::DeleteTopics => (1, 6),
        ApiKey::InitProducerId => (0, 5),
        ApiKey::AddPartitionsToTxn => (0, 3),
        ApiKey::EndTxn => (0, 5),
        // Of the group's APIs the members speak no version without instance ids and protocol names.
        ApiKey::JoinGroup => (5, 9),
        ApiKey::SyncGroup => (5, 5),
        ApiKey::Heartbeat => (3, 4),
        ApiKey::LeaveGroup => (3, 5),
        ApiKey::OffsetCommit => (7, 9),
        ApiKey::OffsetFetch => (8, 9),
        ApiKey::AddOffsetsToTxn => (0, 4),
        ApiKey::TxnOffsetCommit => (3, 5),
        _ => return None,
    })
}

/// What one broker said it speaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BrokerVersions {
    apis: BTreeMap<i16, (i16, i16)>,
    transaction_version: i16,
}

impl BrokerVersions {
    pub(crate) fn new(response: &ApiVersionsResponse) -> Self {
        let range = |api: &ApiVersion| (api.api_key, (api.min_version, api.max_version));
        let mut features = response.finalized_features.iter();
        let finalized = features.find(|feature| &*feature.name == "transaction.version");
        BrokerVersions {
            apis: response.api_keys.iter().map(range).collect(),
            transaction_version: finalized.map_or(0, |feature| feature.max_version_level),
        }
    }

    /// The finalized level of the feature `transaction.version`; 0 if there is none.
    pub(crate) fn transaction_version(&self) -> i16 {
        self.transaction_version
    }

    /// The version to use for `api`, at most `cap`; `None` when the ranges do not meet.
    pub(crate) fn choose(&self, api: i16, cap: i16) -> Option<i16> {
        let (client_min, client_max) = spoken(ApiKey::try_from(api).ok()?)?;
        let (broker_min, broker_max) = *self.apis.get(&api)?;
        let version = client_max.min(broker_max).min(cap);
        (version >= client_min.max(broker_min)).then_some(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::api_versions_response::FinalizedFeatureKey;
    use kafka_protocol::protocol::StrBytes;

    fn broker(api: ApiKey, min: i16, max: i16) -> BrokerVersions {
        BrokerVersions { apis: BTreeMap::from([(api as i16, (min, max))]), transaction_version: 0 }
    }

    #[test]
    fn the_highest_common_version_is_chosen() {
        assert_eq!(broker(ApiKey::EndTxn, 0, 5).choose(26, i16::MAX), Some(5));
        assert_eq!(broker(ApiKey::EndTxn, 0, 5).choose(26, 4), Some(4));
        assert_eq!(broker(ApiKey::EndTxn, 0, 1).choose(26, i16::MAX), Some(1));
        assert_eq!(broker(ApiKey::Fetch, 4, 18).choose(1, 12), Some(12));
    }

    #[test]
    fn the_protocol_is_told_by_the_finalized_feature() {
        let mut answer = ApiVersionsResponse::default();
        assert_eq!(BrokerVersions::new(&answer).transaction_version(), 0);
        let feature = |name| FinalizedFeatureKey::default().with_name(name).with_max_version_level(2);
        answer.finalized_features = vec![feature(StrBytes::from_static_str("metadata.version"))];
        assert_eq!(BrokerVersions::new(&answer).transaction_version(), 0);
        answer.finalized_features.push(feature(StrBytes::from_static_str("transaction.version")));
        assert_eq!(BrokerVersions::new(&answer).transaction_version(), 2);
    }

    #[test]
    fn ranges_that_do_not_meet_are_refused() {
        assert_eq!(broker(ApiKey::EndTxn, 6, 7).choose(26, i16::MAX), None);
        assert_eq!(broker(ApiKey::Produce, 0, 2).choose(0, i16::MAX), None);
        assert_eq!(broker(ApiKey::Produce, 3, 9).choose(26, i16::MAX), None);
    }
}
