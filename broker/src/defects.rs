//! Planted bugs, one switch each, all off by default (DESIGN, invariant 7).

use serde::{Deserialize, Serialize};

/// Switches of planted bugs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Defects {
    /// EndTxn guards its coordinator transaction by the state and epoch it read instead of by the revision it read. A
    /// request still queued at the coordinator then ends a later transaction of the same epoch (finding 9). Read in
    /// `transaction::prepare_guard`.
    pub state_compare: bool,
    /// EndTxn of the current producer id and epoch is answered NONE whatever the transaction's state (finding 9, S4).
    /// Read in `api::end_txn`.
    pub lenient_end: bool,
    /// OffsetCommit is accepted from who is no member of the group's generation any more: a member that was cut off
    /// overwrites what the next owner of its partitions commits. Read in `offsets::attempt`.
    // Left out when off: older recordings are sealed without it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale_commits: bool,
    /// Readers of committed records are served up to the high watermark: what an open transaction has written is seen at
    /// once (finding 20). Read in `read::views`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub early_stable_offset: bool,
    /// EndTxn of an older epoch of the producer id counts as one of the current epoch: a zombie that was fenced ends its
    /// successor's transaction. Read in `api::end_txn::attempt`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unfenced_end: bool,
}
