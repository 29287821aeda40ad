//! Which version of an API is spoken: the highest that both sides know.
//!
//! The client's side is Java 3.8.0's (its `*Request.json` schemas). `EndTxn` ends at 4 there: version 5 belongs to the
//! second transaction protocol.

use kafka_protocol::messages::{ApiKey, ApiVersionsResponse};
use std::collections::BTreeMap;

/// The range of versions that Java 3.8.0 and the codec both speak; `None` for APIs no model uses.
fn spoken(api: ApiKey) -> Option<(i16, i16)> {
    Some(match api {
        ApiKey::Produce => (3, 11),
        ApiKey::Fetch => (4, 16),
        ApiKey::ListOffsets => (1, 8),
        ApiKey::Metadata => (0, 12),
        ApiKey::FindCoordinator => (0, 5),
        ApiKey::ApiVersions => (0, 3),
        ApiKey::CreateTopics => (2, 7),
        ApiKey::InitProducerId => (0, 5),
        ApiKey::AddPartitionsToTxn => (0, 3),
        ApiKey::EndTxn => (0, 4),
        _ => return None,
    })
}

/// What one broker said it speaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BrokerVersions(BTreeMap<i16, (i16, i16)>);

impl BrokerVersions {
    pub(crate) fn new(response: &ApiVersionsResponse) -> Self {
        BrokerVersions(
            response.api_keys.iter().map(|api| (api.api_key, (api.min_version, api.max_version))).collect(),
        )
    }

    /// The version to use for `api`, at most `cap`; `None` when the ranges do not meet.
    pub(crate) fn choose(&self, api: i16, cap: i16) -> Option<i16> {
        let (client_min, client_max) = spoken(ApiKey::try_from(api).ok()?)?;
        let (broker_min, broker_max) = *self.0.get(&api)?;
        let version = client_max.min(broker_max).min(cap);
        (version >= client_min.max(broker_min)).then_some(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(api: ApiKey, min: i16, max: i16) -> BrokerVersions {
        BrokerVersions(BTreeMap::from([(api as i16, (min, max))]))
    }

    #[test]
    fn the_highest_common_version_is_chosen() {
        assert_eq!(broker(ApiKey::EndTxn, 0, 5).choose(26, i16::MAX), Some(4));
        assert_eq!(broker(ApiKey::EndTxn, 0, 1).choose(26, i16::MAX), Some(1));
        assert_eq!(broker(ApiKey::Fetch, 4, 18).choose(1, 12), Some(12));
    }

    #[test]
    fn ranges_that_do_not_meet_are_refused() {
        assert_eq!(broker(ApiKey::EndTxn, 5, 6).choose(26, i16::MAX), None);
        assert_eq!(broker(ApiKey::Produce, 0, 2).choose(0, i16::MAX), None);
        assert_eq!(broker(ApiKey::Produce, 3, 9).choose(26, i16::MAX), None);
    }
}
