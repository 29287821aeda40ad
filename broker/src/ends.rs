//! Ends by their numbers: what the planted defect `number_without_epoch` does (finding 4). Without it nothing of this is used.
//!
//! An end that a client asks for twice must not be executed twice. So transactions are numbered, and the last end is
//! remembered by the producer's id and its transaction's number: the next one of the same number is taken for a repeat,
//! answered and not executed. But numbers begin anew with every epoch, and the memory knows of no epochs. If one end was
//! asked for under the epoch before, then the first under this one is ignored: its transaction stays open, and whatever
//! ends the next one decides over both.

use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Compare, Op, Range};
use crate::gate::Fault;
use crate::layout;
use serde::{Deserialize, Serialize};

/// The last end of a transactional id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LastEnd {
    producer_id: i64,
    epoch: i16,
    /// Its transaction's number within the epoch, from 1.
    number: u64,
}

impl LastEnd {
    /// The end that comes after `last`, and whether it is taken for `last` once more.
    fn after(last: Option<LastEnd>, producer_id: i64, epoch: i16) -> (Self, bool) {
        let own = last.filter(|last| last.producer_id == producer_id);
        let number = own.filter(|last| last.epoch == epoch).map_or(0, |last| last.number) + 1;
        (LastEnd { producer_id, epoch, number }, own.is_some_and(|last| last.number == number))
    }
}

/// An end that got its number.
pub(crate) struct Numbered {
    /// It is taken for a repeat.
    pub(crate) is_repeat: bool,
    /// No other end got a number meanwhile.
    pub(crate) guard: Compare,
    /// Remembers it.
    pub(crate) write: Op,
}

/// Numbers the end that a producer asks for.
pub(crate) async fn number(
    context: &Context,
    id: &str,
    producer_id: i64,
    epoch: i16,
) -> Result<Numbered, Fault> {
    let key = layout::txn_last_end(id);
    let stored = context.gate.read(vec![Range::key(key.clone())]).await?.one::<LastEnd>()?;
    let (end, is_repeat) = LastEnd::after(stored.value().copied(), producer_id, epoch);
    let guard = Compare::unchanged(key.clone(), stored.revision());
    Ok(Numbered { is_repeat, guard, write: Op::put(key, codec::encode(&end)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends by producer id and epoch, one after the other: which are taken for repeats.
    fn repeats(ends: &[(i64, i16)]) -> Vec<bool> {
        let mut last = None;
        let mut take = |(producer_id, epoch): &(i64, i16)| {
            let (end, is_repeat) = LastEnd::after(last, *producer_id, *epoch);
            last = Some(end);
            is_repeat
        };
        ends.iter().map(&mut take).collect()
    }

    #[test]
    fn the_first_end_of_an_epoch_is_ignored_after_an_epoch_with_one() {
        assert_eq!(repeats(&[(7, 0), (7, 0), (7, 0)]), [false; 3], "one epoch");
        assert_eq!(repeats(&[(7, 0), (7, 1), (7, 1)]), [false, true, false]);
        assert_eq!(repeats(&[(7, 0), (7, 0), (7, 1)]), [false; 3], "the epoch before had two");
        assert_eq!(repeats(&[(7, 0), (7, 1), (7, 3)]), [false, true, true], "an ignored one counts");
        assert_eq!(repeats(&[(7, 0), (8, 1)]), [false; 2], "another producer");
    }
}
