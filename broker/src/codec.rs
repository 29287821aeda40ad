//! Values in the coordinator: one version byte, then postcard.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The format written. A reader refuses what it does not know.
const VERSION: u8 = 1;

/// What most values need.
const VALUE_BYTES: usize = 64;

/// A stored value that this build cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored value cannot be read")]
pub(crate) struct Unreadable;

pub(crate) fn encode<T: Serialize>(value: &T) -> Bytes {
    let mut version = Vec::with_capacity(VALUE_BYTES);
    version.push(VERSION);
    let encoded = postcard::to_extend(value, version);
    Bytes::from(encoded.expect("plain data always encodes"))
}

pub(crate) fn decode<T: DeserializeOwned>(value: &[u8]) -> Result<T, Unreadable> {
    match value.split_first() {
        Some((&VERSION, body)) => postcard::from_bytes(body).map_err(|_| Unreadable),
        _ => Err(Unreadable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_and_foreign_versions_are_refused() {
        let stored = encode(&(7u64, "seven"));
        assert_eq!(stored[0], VERSION);
        assert_eq!(decode::<(u64, String)>(&stored), Ok((7, "seven".to_string())));
        let mut foreign = stored.to_vec();
        foreign[0] = 2;
        assert_eq!(decode::<(u64, String)>(&foreign), Err(Unreadable));
        assert_eq!(decode::<(u64, String)>(&[]), Err(Unreadable));
        assert_eq!(decode::<(u64, String)>(&stored[..stored.len() - 1]), Err(Unreadable));
    }
}
