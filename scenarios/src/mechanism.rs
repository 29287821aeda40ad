//! What makes anomalies of transactions: the known ways in which something late does harm.

use std::fmt;

/// How an anomaly came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// An EndTxn of an earlier transaction ended this one (KAFKA-17754, finding 9).
    StaleEnd(Face),
    /// A TxnOffsetCommit of an earlier transaction set the group's offset (finding 9, S9).
    StaleOffsets,
    /// A Produce arrived after the end of its transaction, and became a part of a later one (finding 10).
    DelayedProduce,
    /// A record got the sequence number of another, and was taken for a repetition of it (finding 11).
    SequenceReuse,
    /// A record opened a transaction in its partition of which the coordinator did not know (finding 17).
    HangingTransaction,
    /// An InitProducerId arrived after its producer had another epoch, and fenced it (finding 19).
    StaleInit,
}

/// What a stale EndTxn does, by what it says, where it arrives, and what the application then asks for (jepsen.md E9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Face {
    /// A commit midway of a transaction that is then aborted: its head is visible.
    AbortTorn,
    /// A commit after the last record of a transaction that is then aborted: all of it is visible.
    AbortVisible,
    /// A commit in a transaction that is then committed: it is split in two.
    CommitSplit,
    /// A commit in a transaction that its client never ends: a part of it is visible.
    UnendedVisible,
    /// An abort midway of a transaction that is then committed: its head is lost.
    CommitTorn,
    /// An abort after the last record of a transaction that is then committed: all of it is lost.
    CommitLost,
    /// An abort in a transaction that is then not committed: nothing comes of it but that it was decided early.
    AbortEarly,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Mechanism; 12] = [
        Mechanism::StaleEnd(Face::AbortTorn),
        Mechanism::StaleEnd(Face::AbortVisible),
        Mechanism::StaleEnd(Face::CommitSplit),
        Mechanism::StaleEnd(Face::UnendedVisible),
        Mechanism::StaleEnd(Face::CommitTorn),
        Mechanism::StaleEnd(Face::CommitLost),
        Mechanism::StaleEnd(Face::AbortEarly),
        Mechanism::StaleOffsets,
        Mechanism::DelayedProduce,
        Mechanism::SequenceReuse,
        Mechanism::HangingTransaction,
        Mechanism::StaleInit,
    ];

    /// The finding of the catalogue that it is.
    pub fn finding(self) -> u32 {
        match self {
            Mechanism::StaleEnd(_) | Mechanism::StaleOffsets => 9,
            Mechanism::DelayedProduce => 10,
            Mechanism::SequenceReuse => 11,
            Mechanism::HangingTransaction => 17,
            Mechanism::StaleInit => 19,
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::StaleEnd(Face::AbortTorn) => "abort-torn",
            Mechanism::StaleEnd(Face::AbortVisible) => "abort-visible",
            Mechanism::StaleEnd(Face::CommitSplit) => "commit-split",
            Mechanism::StaleEnd(Face::UnendedVisible) => "unended-visible",
            Mechanism::StaleEnd(Face::CommitTorn) => "commit-torn",
            Mechanism::StaleEnd(Face::CommitLost) => "commit-lost",
            Mechanism::StaleEnd(Face::AbortEarly) => "abort-early",
            Mechanism::StaleOffsets => "stale-offsets",
            Mechanism::DelayedProduce => "delayed-produce",
            Mechanism::SequenceReuse => "sequence-reuse",
            Mechanism::HangingTransaction => "hanging-transaction",
            Mechanism::StaleInit => "stale-init",
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mechanism::StaleEnd(Face::AbortTorn) => "late commit midway, then abort: its head is visible",
            Mechanism::StaleEnd(Face::AbortVisible) => {
                "late commit at the end, then abort: all of it is visible"
            }
            Mechanism::StaleEnd(Face::CommitSplit) => "late commit, then commit: split in two",
            Mechanism::StaleEnd(Face::UnendedVisible) => "late commit, client given up: a part is visible",
            Mechanism::StaleEnd(Face::CommitTorn) => "late abort midway, then commit: its head is lost",
            Mechanism::StaleEnd(Face::CommitLost) => "late abort at the end, then commit: all of it is lost",
            Mechanism::StaleEnd(Face::AbortEarly) => "late abort, then no commit: decided early, no harm",
            Mechanism::StaleOffsets => "late TxnOffsetCommit sets the offset of its group",
            Mechanism::DelayedProduce => "late Produce becomes part of a later transaction",
            Mechanism::SequenceReuse => "sequence number used again: acknowledged, not written",
            Mechanism::HangingTransaction => "record outside its transaction: hides what is behind it",
            Mechanism::StaleInit => "late InitProducerId fences its own producer",
        })
    }
}
