//! Whether a history could have failed at all. One in which nothing was sent, acknowledged or read proves nothing.

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
}

impl fmt::Display for Vacuity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Vacuity::NothingSent => "nothing was sent",
            Vacuity::NothingAcknowledged => "nothing was acknowledged",
            Vacuity::NothingRead => "nothing was read",
        })
    }
}

pub(crate) fn find(facts: &Facts<'_>) -> Vec<Vacuity> {
    let (mut sent, mut acknowledged, mut read) = (false, false, false);
    for event in facts.completions() {
        let ok = event.status() == Status::Ok;
        let sends = event.sends().next().is_some();
        sent |= sends;
        acknowledged |= ok && sends;
        read |= ok && event.polled().next().is_some();
    }
    let all = [
        (sent, Vacuity::NothingSent),
        (acknowledged, Vacuity::NothingAcknowledged),
        (read, Vacuity::NothingRead),
    ];
    all.into_iter().filter(|(happened, _)| !happened).map(|(_, vacuity)| vacuity).collect()
}
