//! The latest changes of a bucket, so that a list can be made as it was before them.

use super::Object;
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Default)]
pub(super) struct Journal {
    /// The latest changes, oldest first: a key, and what was there before.
    latest: VecDeque<(String, Option<Object>)>,
    /// How many are kept at most.
    kept: usize,
    /// How many there ever were.
    pub(super) count: u64,
}

impl Journal {
    /// Keeps so many of the changes from now on.
    pub(super) fn keep(&mut self, changes: usize) {
        self.kept = changes;
        self.trim();
    }

    pub(super) fn note(&mut self, key: &str, before: Option<Object>) {
        self.count += 1;
        if self.kept > 0 {
            self.latest.push_back((key.to_string(), before));
            self.trim();
        }
    }

    /// What was there before the last `unseen` changes, of all keys they touched; of changes no longer kept nothing is
    /// known, and they count as seen.
    pub(super) fn before(&self, unseen: u64) -> BTreeMap<&str, Option<&Object>> {
        let unseen = usize::try_from(unseen).unwrap_or(usize::MAX).min(self.latest.len());
        let newest_first = self.latest.iter().rev().take(unseen);
        newest_first.map(|(key, before)| (key.as_str(), before.as_ref())).collect()
    }

    fn trim(&mut self) {
        let over = self.latest.len().saturating_sub(self.kept);
        self.latest.drain(..over);
    }
}
