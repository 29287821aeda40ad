//! How a request's age is told: two ways to keep what arrives late from the transactions that came after it.
//!
//! The old protocol's requests do not say which transaction they are of (KAFKA-17754). The revision clock is the broker's own
//! remedy: a request is stamped with a revision of the coordinator when it is read, and refused by a transaction whose
//! state is newer; the client, if it still waits, asks again. It orders what the agents do, not what is on its way to them.
//! A number is a remedy with the client's help: a tagged field that says which of its transactions a request is of.

use crate::agent::Context;
use crate::config::RevisionClock;
use crate::coordinator::Range;
use crate::gate::{Fault, Patience};
use crate::layout;
use crate::transaction::{Phase, TxnState};
use bytes::Bytes;
use kafka_protocol::ResponseError;
use std::collections::BTreeMap;

/// The tagged field in which a client numbers its transactions, a big-endian i64: an extension of ours, in Produce 9 on and in
/// AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit and EndTxn 3 on.
const NUMBER_TAG: i32 = 10_000;

/// When a request was read, as the revision clock tells it.
#[derive(Clone, Copy)]
pub(crate) struct Stamp(Option<i64>);

impl Stamp {
    /// Stamps a request that comes under `transactional_id` and was just read.
    pub(crate) async fn take(
        context: &Context,
        transactional_id: &str,
        patience: &mut Patience,
    ) -> Result<Stamp, Fault> {
        match context.config.transactions.revision_clock {
            RevisionClock::Off => Ok(Stamp(None)),
            RevisionClock::LastKnown => Ok(Stamp(Some(context.gate.last_known()))),
            RevisionClock::Arrival => loop {
                match context.gate.range(Range::key(layout::txn(transactional_id))).await {
                    Ok(answer) => return Ok(Stamp(Some(answer.revision))),
                    Err(error) => {
                        let fault = Fault::from(error);
                        if !fault.passes() || !patience.pause().await {
                            return Err(fault);
                        }
                    }
                }
            },
        }
    }

    /// Whether a state last written at `revision` is newer than the request.
    pub(crate) fn is_before(self, revision: i64) -> bool {
        self.0.is_some_and(|stamp| stamp < revision)
    }
}

/// The number of the transaction that a request says it is of.
pub(crate) fn number(tagged_fields: &BTreeMap<i32, Bytes>) -> Option<i64> {
    let field = tagged_fields.get(&NUMBER_TAG)?;
    Some(i64::from_be_bytes(field.as_ref().try_into().ok()?))
}

/// Whether something of transaction `number` may join what `state` tells: the open transaction if it is that, or else a later
/// one than the last.
pub(crate) fn may_join(state: &TxnState, number: Option<i64>) -> Result<(), ResponseError> {
    let Some(number) = number else { return Ok(()) };
    let fits = if state.phase == Phase::Ongoing { number == state.number } else { number > state.number };
    if fits { Ok(()) } else { Err(ResponseError::InvalidTxnState) }
}

/// Whether transaction `number`, and no other, is what an end of it would end.
pub(crate) fn may_end(state: &TxnState, number: Option<i64>) -> Result<(), ResponseError> {
    match number {
        Some(number) if number != state.number => Err(ResponseError::InvalidTxnState),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_before_what_was_written_after_it() {
        let is_before = |revision| Stamp(Some(7)).is_before(revision);
        assert_eq!([6, 7, 8].map(is_before), [false, false, true]);
        assert!(!Stamp(None).is_before(i64::MAX), "without a clock nothing is late");
    }

    #[test]
    fn a_number_is_read_from_its_field_and_from_no_other() {
        let fields = |tag, bytes: &'static [u8]| BTreeMap::from([(tag, Bytes::from_static(bytes))]);
        assert_eq!(number(&fields(NUMBER_TAG, &[0, 0, 0, 0, 0, 0, 1, 2])), Some(258));
        assert_eq!(number(&fields(NUMBER_TAG, &[1])), None);
        assert_eq!(number(&fields(0, &[0, 0, 0, 0, 0, 0, 1, 2])), None);
    }

    #[test]
    fn a_number_tells_a_transaction_from_those_before_and_after_it() {
        let at = |phase| TxnState { number: 5, phase, ..TxnState::first(7, 60_000) };
        let joins = |phase| [4, 5, 6].map(|number| may_join(&at(phase), Some(number)).is_ok());
        assert_eq!(joins(Phase::Ongoing), [false, true, false]);
        for phase in [Phase::CompleteCommit, Phase::CompleteAbort] {
            assert_eq!(joins(phase), [false, false, true], "{phase:?}");
        }
        assert!(may_join(&TxnState::first(7, 60_000), Some(1)).is_ok(), "the first one of an epoch");
        let ends = [4, 5, 6].map(|number| may_end(&at(Phase::Ongoing), Some(number)).is_ok());
        assert_eq!(ends, [false, true, false]);
        assert!(may_join(&at(Phase::Ongoing), None).is_ok() && may_end(&at(Phase::Ongoing), None).is_ok());
    }
}
