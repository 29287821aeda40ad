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
    /// An end of a transaction is taken for a repeat, answered and not executed, if one of the last ends had the same
    /// producer id and number, though numbers begin anew with every epoch (finding 4). Read in `api::end_txn::attempt`;
    /// what it does is in `ends`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub number_without_epoch: bool,
    /// A Fetch answer that has no room for all batches of a partition holds the newest one that was read, and drops what
    /// lies before it in the middle: the reader goes on behind it (finding 5). Read in `api::fetch::load`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fetch_drops_middle: bool,
    /// Readers are served watermarks from memory: listed once when the agent starts, and watched from a later revision,
    /// that of the first reader. What changed between is not seen until the partition's next write (finding 1). Read in
    /// `Agent::new`; what it does is in `watermarks`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub watch_gap: bool,
    /// A Produce error leaves the base offset at its default, 0, and a batch that was appended before is answered
    /// DUPLICATE_SEQUENCE_NUMBER, with that offset (finding 3). Read in `api::produce::answer`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub zero_base_offset: bool,
    /// The agent does not learn that its lease is gone: after a break it watches its registration from then on only, a
    /// keep-alive that is answered with a time to live of 0 counts as one that succeeded, and nothing is read back. It
    /// lists agents by their registrations alone, itself included (finding 2). Read in `membership::is_forgetful`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forgotten_lease: bool,
    /// The agent ends when it cannot read a shared file at its start, and when coordinator or store do not answer a call
    /// later on (finding 15). Read in `Agent::serve`; what it does is in `fragile`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exits_on_trouble: bool,
}
