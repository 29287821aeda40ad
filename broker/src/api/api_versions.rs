//! ApiVersions (18): kafka.md 1.1.

use super::APIS;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::ApiKey;
use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::messages::api_versions_response::ApiVersion;

/// The answer and the version to encode it in: a client that asks in an unknown version is answered in version 0, which
/// every client reads, with the range to choose from (KIP-511).
pub(super) fn handle(version: i16) -> (i16, ApiVersionsResponse) {
    let known =
        APIS.iter().any(|api| api.key == ApiKey::ApiVersions && (api.min..=api.max).contains(&version));
    if known {
        (version, ApiVersionsResponse::default().with_api_keys(APIS.iter().map(entry).collect()))
    } else {
        let own = APIS.iter().filter(|api| api.key == ApiKey::ApiVersions).map(entry).collect();
        let refused = ApiVersionsResponse::default()
            .with_error_code(ResponseError::UnsupportedVersion.code())
            .with_api_keys(own);
        (0, refused)
    }
}

fn entry(api: &super::Api) -> ApiVersion {
    ApiVersion::default().with_api_key(api.key as i16).with_min_version(api.min).with_max_version(api.max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_version_is_answered_in_version_0() {
        let (version, response) = handle(77);
        assert_eq!((version, response.error_code), (0, 35));
        let [own] = &response.api_keys[..] else { panic!("only ApiVersions") };
        assert_eq!((own.api_key, own.min_version, own.max_version), (18, 0, 4));
    }

    #[test]
    fn produce_is_advertised_from_0_and_end_txn_to_4() {
        let (version, response) = handle(3);
        assert_eq!((version, response.error_code), (3, 0));
        let range = |key: i16| {
            let api = response.api_keys.iter().find(|api| api.api_key == key).unwrap();
            (api.min_version, api.max_version)
        };
        assert_eq!((range(0), range(26)), ((0, 12), (0, 4)));
        assert_eq!(response.finalized_features_epoch, -1, "no finalized features: no TV2");
    }
}
