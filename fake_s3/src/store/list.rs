//! `ListObjectsV2`: pages of keys, with keys below a delimiter rolled up.

use super::Object;
use crate::api::{ListRequest, Response};
use crate::error::S3Error;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The most keys of one page.
const MAX_KEYS: usize = 1000;

/// Where a page goes on: after a key, or after every key with a prefix. A token is its text, opaque to callers.
#[derive(Clone, Debug)]
enum After {
    Key(String),
    Prefix(String),
}

impl After {
    fn to_token(&self) -> String {
        match self {
            After::Key(key) => format!("k{key}"),
            After::Prefix(prefix) => format!("p{prefix}"),
        }
    }

    fn from_token(token: &str) -> Result<Self, S3Error> {
        if let Some(key) = token.strip_prefix('k') {
            Ok(After::Key(key.to_string()))
        } else if let Some(prefix) = token.strip_prefix('p') {
            Ok(After::Prefix(prefix.to_string()))
        } else {
            Err(S3Error::InvalidArgument)
        }
    }
}

pub(super) fn list(objects: &BTreeMap<String, Object>, request: &ListRequest) -> Result<Response, S3Error> {
    let most = request.max_keys.map_or(MAX_KEYS, |keys| (keys as usize).min(MAX_KEYS));
    let mut after = match (&request.continuation_token, &request.start_after) {
        (Some(token), _) => Some(After::from_token(token)?),
        (None, Some(key)) => Some(After::Key(key.clone())),
        (None, None) => None,
    };
    let (mut page, mut common_prefixes) = (Vec::new(), Vec::new());
    while page.len() + common_prefixes.len() < most {
        let Some((key, object)) = next(objects, &request.prefix, after.as_ref()) else {
            return Ok(Response::List { objects: page, common_prefixes, next_token: None });
        };
        match rolled_up(key, request) {
            Some(prefix) => {
                common_prefixes.push(prefix.to_string());
                after = Some(After::Prefix(prefix.to_string()));
            }
            None => {
                page.push(object.info(key));
                after = Some(After::Key(key.clone()));
            }
        }
    }
    let more = most > 0 && next(objects, &request.prefix, after.as_ref()).is_some();
    let next_token = after.filter(|_| more).map(|after| after.to_token());
    Ok(Response::List { objects: page, common_prefixes, next_token })
}

/// The first object with the prefix, after a point.
fn next<'o>(
    objects: &'o BTreeMap<String, Object>,
    prefix: &str,
    after: Option<&After>,
) -> Option<(&'o String, &'o Object)> {
    let start = match after {
        Some(After::Key(key)) if key.as_str() >= prefix => Bound::Excluded(key.clone()),
        Some(After::Prefix(passed)) if passed.as_str() >= prefix => Bound::Included(successor(passed)?),
        _ => Bound::Included(prefix.to_string()),
    };
    objects.range((start, Bound::Unbounded)).next().filter(|(key, _)| key.starts_with(prefix))
}

/// The least text above every text with a prefix: its last character made the next one, or left out where there is
/// none.
fn successor(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(last as u32 + 1),
        };
        if let Some(next) = next {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

/// The common prefix a key is rolled up into: up to and with the first delimiter after the request's prefix.
fn rolled_up<'k>(key: &'k str, request: &ListRequest) -> Option<&'k str> {
    let delimiter = request.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty())?;
    let from = request.prefix.len();
    key[from..].find(delimiter).map(|at| &key[..from + at + delimiter.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_successor_is_above_every_text_with_the_prefix_and_no_other() {
        assert_eq!(successor("a/").as_deref(), Some("a0"));
        assert_eq!(successor("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(successor("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(successor("\u{10ffff}"), None);
    }
}
