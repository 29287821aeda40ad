//! `ListObjectsV2`: pages of keys, with keys below a delimiter rolled up.
//!
//! Method: one look into an ordered map for each key or common prefix of the page, so the cost grows with the page and
//! not with the bucket.

use super::Object;
use crate::api::{ListRequest, Response};
use crate::error::S3Error;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The most keys of one page.
pub(super) const MAX_KEYS: usize = 1000;

/// The bucket as a list sees it.
pub(super) struct View<'s> {
    pub(super) objects: &'s BTreeMap<String, Object>,
    /// What was there, or was not, before changes that the list does not see.
    pub(super) before: BTreeMap<&'s str, Option<&'s Object>>,
}

impl<'s> View<'s> {
    /// The first object from a key on.
    fn first(&self, start: Bound<&str>) -> Option<(&'s str, &'s Object)> {
        let end = Bound::<&str>::Unbounded;
        let mut now = self.objects.range::<str, _>((start, end)).map(|(key, object)| (key.as_str(), object));
        if self.before.is_empty() {
            return now.next();
        }
        let now = now.find(|(key, _)| !self.before.contains_key(key));
        let mut before = self.before.range::<str, _>((start, end));
        let before = before.find_map(|(key, object)| Some((*key, (*object)?)));
        match (now, before) {
            (Some(now), Some(before)) => Some(if now.0 < before.0 { now } else { before }),
            (now, before) => now.or(before),
        }
    }
}

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

pub(super) fn list(view: &View<'_>, request: &ListRequest) -> Result<Response, S3Error> {
    let most = request.max_keys.map_or(MAX_KEYS, |keys| (keys as usize).min(MAX_KEYS));
    let mut after = match (&request.continuation_token, &request.start_after) {
        (Some(token), _) => Some(After::from_token(token)?),
        (None, Some(key)) => Some(After::Key(key.clone())),
        (None, None) => None,
    };
    let (mut page, mut common_prefixes) = (Vec::new(), Vec::new());
    while page.len() + common_prefixes.len() < most {
        let Some((key, object)) = next(view, &request.prefix, after.as_ref()) else {
            return Ok(Response::List { objects: page, common_prefixes, next_token: None });
        };
        match rolled_up(key, &request.prefix, request.delimiter.as_deref()) {
            Some(prefix) => {
                // Keys after `start_after` may be rolled up into a prefix that is not after it.
                if request.start_after.as_deref().is_none_or(|start| prefix > start) {
                    common_prefixes.push(prefix.to_string());
                }
                after = Some(After::Prefix(prefix.to_string()));
            }
            None => {
                page.push(object.info(key));
                after = Some(After::Key(key.to_string()));
            }
        }
    }
    let more = most > 0 && next(view, &request.prefix, after.as_ref()).is_some();
    let next_token = after.filter(|_| more).map(|after| after.to_token());
    Ok(Response::List { objects: page, common_prefixes, next_token })
}

/// The first object with the prefix, after a point.
fn next<'s>(view: &View<'s>, prefix: &str, after: Option<&After>) -> Option<(&'s str, &'s Object)> {
    let passed;
    let start = match after {
        Some(After::Key(key)) if key.as_str() >= prefix => Bound::Excluded(key.as_str()),
        Some(After::Prefix(rolled)) if rolled.as_str() >= prefix => {
            passed = successor(rolled)?;
            Bound::Included(passed.as_str())
        }
        _ => Bound::Included(prefix),
    };
    view.first(start).filter(|(key, _)| key.starts_with(prefix))
}

/// The least text above every text with a prefix: its last character made the next one, or left out where there is
/// none.
pub(super) fn successor(prefix: &str) -> Option<String> {
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
pub(super) fn rolled_up<'k>(key: &'k str, prefix: &str, delimiter: Option<&str>) -> Option<&'k str> {
    let delimiter = delimiter.filter(|delimiter| !delimiter.is_empty())?;
    let from = prefix.len();
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
