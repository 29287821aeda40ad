//! Ends by their numbers: what the planted defect `number_without_epoch` does (finding 4). Without it nothing of this is used.
//!
//! An end that a client asks for twice must not be executed twice. So transactions are numbered, and the last ends are
//! remembered, as the last batches are, by the producer's id and their transactions' numbers: an end with a number that is
//! remembered is taken for a repeat, answered and not executed. But numbers begin anew with every epoch, and the memory
//! knows of no epochs. If few ends were asked for under the epoch before, then the first under this one are ignored: their
//! transactions stay open, and whatever ends the next one decides over all of them.

use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Compare, Op, Range};
use crate::gate::Fault;
use crate::layout;
use serde::{Deserialize, Serialize};

/// Ends remembered.
const WINDOW: usize = 5;

/// The last ends of a transactional id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LastEnds {
    producer_id: i64,
    epoch: i16,
    /// The number within the epoch of the last transaction that was to end, from 1.
    number: u64,
    /// Numbers of the last ends executed, oldest first.
    executed: Vec<u64>,
}

impl LastEnds {
    /// Takes the next end in; whether it is taken for a repeat.
    fn take(&mut self, producer_id: i64, epoch: i16) -> bool {
        if self.producer_id != producer_id {
            *self = LastEnds { producer_id, epoch, ..LastEnds::default() };
        }
        self.number = if self.epoch == epoch { self.number + 1 } else { 1 };
        self.epoch = epoch;
        let is_repeat = self.executed.contains(&self.number);
        if !is_repeat {
            self.executed.push(self.number);
            let forgotten = self.executed.len().saturating_sub(WINDOW);
            self.executed.drain(..forgotten);
        }
        is_repeat
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
    let key = layout::txn_last_ends(id);
    let stored = context.gate.read(vec![Range::key(key.clone())]).await?.one::<LastEnds>()?;
    let guard = Compare::unchanged(key.clone(), stored.revision());
    let mut ends = stored.into_value().unwrap_or_default();
    let is_repeat = ends.take(producer_id, epoch);
    Ok(Numbered { is_repeat, guard, write: Op::put(key, codec::encode(&ends)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends by producer id and epoch, one after the other: which are taken for repeats.
    fn repeats(asked: &[(i64, i16)]) -> Vec<bool> {
        let mut ends = LastEnds::default();
        asked.iter().map(|(producer_id, epoch)| ends.take(*producer_id, *epoch)).collect()
    }

    #[test]
    fn the_first_ends_of_an_epoch_are_ignored_after_one_with_few() {
        assert_eq!(repeats(&[(7, 0); 9]), [false; 9], "one epoch");
        assert_eq!(repeats(&[(7, 0), (7, 1), (7, 1)]), [false, true, false]);
        assert_eq!(repeats(&[(7, 0), (7, 0), (7, 2), (7, 2)]), [false, false, true, true]);
        assert_eq!(repeats(&[(7, 0), (8, 1)]), [false; 2], "another producer");
        let many = [[(7, 0)].repeat(6), [(7, 1)].repeat(6)].concat();
        assert_eq!(repeats(&many), [false; 12], "each is forgotten when its number comes again");
    }
}
