//! ApiVersions (18): kafka.md 1.1.
//!
//! Clients turn to transaction version 2 when they see the finalized feature `transaction.version` at 2, not when they see
//! EndTxn 5. Where version 1 is offered the feature is not there, as in Kafka before 4. `group.version` 1 says that the
//! consumer protocol is spoken (KIP-848).

use super::{APIS, refuse, text};
use crate::config::TransactionVersion;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::ApiKey;
use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};

/// The feature that names the transaction protocol.
const TRANSACTION_VERSION: &str = "transaction.version";
/// The feature that names the protocols of groups, and the version of it that is spoken.
const GROUP_VERSION: &str = "group.version";
const GROUP_LEVEL: i16 = 1;
/// Epoch of the finalized features. They change with the setting only; clients look again when it grows.
const FEATURES_EPOCH: i64 = 1;

/// The answer and the version to encode it in: a client that asks in an unknown version is answered in version 0, which
/// every client reads, with the range to choose from (KIP-511).
pub(super) fn handle(offered: TransactionVersion, version: i16) -> (i16, ApiVersionsResponse) {
    let known =
        APIS.iter().any(|api| api.key == ApiKey::ApiVersions && (api.min..=api.max).contains(&version));
    if known {
        let apis = APIS.iter().map(|api| entry(api, offered)).collect();
        let response = ApiVersionsResponse::default().with_api_keys(apis);
        (version, with_features(response, offered))
    } else {
        let own = APIS.iter().filter(|api| api.key == ApiKey::ApiVersions);
        let own = own.map(|api| entry(api, offered)).collect();
        (0, refuse::api_versions(own, ResponseError::UnsupportedVersion))
    }
}

fn entry(api: &super::Api, offered: TransactionVersion) -> ApiVersion {
    ApiVersion::default()
        .with_api_key(api.key as i16)
        .with_min_version(api.min)
        .with_max_version(api.max(offered))
}

fn with_features(response: ApiVersionsResponse, offered: TransactionVersion) -> ApiVersionsResponse {
    let transactions = (TRANSACTION_VERSION, i16::from(TransactionVersion::V2), i16::from(offered));
    let features = [(GROUP_VERSION, GROUP_LEVEL, GROUP_LEVEL), transactions].into_iter();
    let features =
        features.filter(|(name, ..)| offered == TransactionVersion::V2 || *name != TRANSACTION_VERSION);
    let (mut supported, mut finalized) = (Vec::new(), Vec::new());
    for (name, max, level) in features {
        let feature = SupportedFeatureKey::default()
            .with_name(text(name))
            // Java clients up to 3.8 take no feature whose least version is below 1 (KAFKA-17011).
            .with_min_version(1)
            .with_max_version(max);
        supported.push(feature);
        let feature = FinalizedFeatureKey::default()
            .with_name(text(name))
            .with_min_version_level(level)
            .with_max_version_level(level);
        finalized.push(feature);
    }
    response
        .with_supported_features(supported)
        .with_finalized_features_epoch(FEATURES_EPOCH)
        .with_finalized_features(finalized)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_version_is_answered_in_version_0() {
        let (version, response) = handle(TransactionVersion::V1, 77);
        assert_eq!((version, response.error_code), (0, 35));
        let [own] = &response.api_keys[..] else { panic!("only ApiVersions") };
        assert_eq!((own.api_key, own.min_version, own.max_version), (18, 0, 4));
    }

    #[test]
    fn the_transaction_version_offered_shows_in_versions_and_features() {
        let range = |response: &ApiVersionsResponse, key: i16| {
            let api = response.api_keys.iter().find(|api| api.api_key == key).unwrap();
            (api.min_version, api.max_version)
        };
        let (version, old) = handle(TransactionVersion::V1, 3);
        assert_eq!((version, old.error_code), (3, 0));
        assert_eq!((range(&old, 0), range(&old, 26)), ((0, 12), (0, 4)));
        let features = |response: &ApiVersionsResponse| -> Vec<(String, i16)> {
            let features = response.finalized_features.iter();
            features.map(|feature| (feature.name.to_string(), feature.max_version_level)).collect()
        };
        assert_eq!(features(&old), [("group.version".to_string(), 1)]);
        let (_, new) = handle(TransactionVersion::V2, 3);
        assert_eq!((range(&new, 0), range(&new, 26)), ((0, 12), (0, 5)));
        assert!(
            new.supported_features.iter().all(|feature| feature.min_version == 1),
            "Java 3.8 takes none below"
        );
        let told = [("group.version".to_string(), 1), ("transaction.version".to_string(), 2)];
        assert_eq!(features(&new), told);
        assert_eq!(new.finalized_features_epoch, 1);
    }
}
