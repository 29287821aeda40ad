//! All groups, and some by name, as stored: for the admin APIs and retention.

use super::classic::ClassicGroup;
use super::commit::GroupHead;
use super::state::GroupState;
use crate::agent::Context;
use crate::codec;
use crate::coordinator::{KeyValue, Range, TXN_OPS_MAX};
use crate::gate::{Fault, Stored};
use crate::layout;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Keys read at once.
const PAGE: i64 = 500;

/// A group as stored at one revision.
#[derive(Debug)]
pub(crate) struct StoredGroup {
    pub(crate) head: Option<GroupHead>,
    pub(crate) state: Option<GroupState>,
}

impl StoredGroup {
    /// The group, if there is one: a group that only committed offsets never had members.
    pub(crate) fn into_group(self) -> Option<GroupState> {
        let lives = self.head.is_some_and(|head| !head.deleted);
        self.state.or_else(|| lives.then(|| GroupState::Classic(ClassicGroup::default())))
    }
}

/// Reads some groups, each at a revision of its own.
pub(crate) async fn read(context: &Context, groups: &[String]) -> Result<Vec<StoredGroup>, Fault> {
    let mut read = Vec::with_capacity(groups.len());
    for groups in groups.chunks(TXN_OPS_MAX / 2) {
        let keys = groups.iter().flat_map(|group| [layout::group(group), layout::group_state(group)]);
        let mut now = context.gate.read(keys.map(Range::key).collect()).await?;
        for _ in groups {
            let (head, state): (Stored<GroupHead>, Stored<GroupState>) = (now.one()?, now.one()?);
            read.push(StoredGroup { head: head.into_value(), state: state.into_value() });
        }
    }
    Ok(read)
}

/// Reads all groups, by name.
pub(crate) async fn list(context: &Context) -> Result<BTreeMap<String, StoredGroup>, Fault> {
    let mut groups = BTreeMap::new();
    let entry = |kv: &KeyValue| layout::group_of(&kv.key);
    let mut revision = 0;
    for kv in scan(context, layout::GROUPS, &mut revision).await? {
        if let Some(name) = entry(&kv) {
            groups.insert(name, StoredGroup { head: Some(codec::decode(&kv.value)?), state: None });
        }
    }
    for kv in scan(context, layout::GROUP_STATES, &mut revision).await? {
        if let Some(name) = entry(&kv) {
            let group = groups.entry(name).or_insert(StoredGroup { head: None, state: None });
            group.state = Some(codec::decode(&kv.value)?);
        }
    }
    Ok(groups)
}

/// All keys of one kind as of `revision`; 0 reads now, and becomes the revision read at.
async fn scan(context: &Context, prefix: &'static str, revision: &mut i64) -> Result<Vec<KeyValue>, Fault> {
    let (mut from, end) = (Bytes::from_static(prefix.as_bytes()), layout::end_of(prefix.as_bytes()));
    let mut all = Vec::new();
    loop {
        let page = Range { revision: *revision, ..Range::span(from, end.clone(), PAGE) };
        let page = context.gate.range(page).await?;
        if *revision == 0 {
            *revision = page.revision;
        }
        let more = page.more;
        all.extend(page.kvs);
        match all.last() {
            Some(last) if more => from = [&last.key[..], &[0]].concat().into(),
            _ => return Ok(all),
        }
    }
}
