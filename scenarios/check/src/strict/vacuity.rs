//! Whether a history could have failed at all. One in which nothing was sent, acknowledged or read proves nothing, nor does
//! one whose trouble met no operation.

use super::exercised;
use crate::facts::Facts;
use crate::history::Status;
use std::fmt;

/// What did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vacuity {
    /// No record was sent.
    NothingSent,
    /// No operation that sent a record succeeded.
    NothingAcknowledged,
    /// No successful operation polled a record.
    NothingRead,
    /// There was trouble, and it met no operation of a client.
    NothingMetTrouble,
}

impl fmt::Display for Vacuity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Vacuity::NothingSent => "nothing was sent",
            Vacuity::NothingAcknowledged => "nothing was acknowledged",
            Vacuity::NothingRead => "nothing was read",
            Vacuity::NothingMetTrouble => "no operation overlapped any trouble",
        })
    }
}

pub(super) fn find(facts: &Facts<'_>) -> Vec<Vacuity> {
    let (mut sent, mut acknowledged, mut read) = (false, false, false);
    for event in facts.completions() {
        let ok = event.status() == Status::Ok;
        let sends = event.sends().next().is_some();
        sent |= sends;
        acknowledged |= ok && sends;
        read |= ok && !event.polled_messages().is_empty();
    }
    let exercised = exercised::exercised(facts.history);
    let met = exercised.trouble.is_none_or(|trouble| trouble.operations > 0);
    let all = [
        (sent, Vacuity::NothingSent),
        (acknowledged, Vacuity::NothingAcknowledged),
        (read, Vacuity::NothingRead),
        (met, Vacuity::NothingMetTrouble),
    ];
    all.into_iter().filter(|(happened, _)| !happened).map(|(_, vacuity)| vacuity).collect()
}
