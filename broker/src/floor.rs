//! Floors: which chunks may still be committed, and which never can any more.
//!
//! Every agent incarnation has a key `writers/<incarnation>` with its *floor*, a chunk number that only grows. A commit that
//! puts a chunk into an index compares that the floor is at or below the chunk's number ([`guard`]). So once the floor is
//! above a number, or the key is gone, no commit of that chunk can land, however long its agent was paused and however
//! late its bytes arrive: the chunk is *settled*. What no index entry names then stays unnamed, and may be deleted.
//!
//! An agent that finds its chunk settled writes the batches again under a new name. If an earlier commit of them may have
//! landed, the producer's state tells; without idempotence nothing does, and the request fails as timed out. The collector raises floors; compaction leaves unsettled chunks alone, so
//! that an agent that looks for its own chunk in the index finds it there.

use crate::codec::{self, Unreadable};
use crate::coordinator::{Compare, CompareOp, KeyValue, Op, Range, Target};
use crate::gate::{Fault, Gate};
use crate::layout;
use crate::records::ChunkId;
use bytes::Bytes;
use std::collections::BTreeMap;

/// The claim that `chunk` may still be committed.
pub(crate) fn guard(chunk: ChunkId) -> Compare {
    let key = layout::writer(chunk.incarnation);
    Compare { key, op: CompareOp::Less, target: Target::Value(encode(chunk.number + 1)) }
}

/// A floor as it is stored: as text sorts, numbers do, which is what the guard's comparison needs.
pub(crate) fn encode(floor: u64) -> Bytes {
    codec::encode(&floor.to_be_bytes())
}

pub(crate) fn decode(value: &[u8]) -> Result<u64, Unreadable> {
    codec::decode(value).map(u64::from_be_bytes)
}

/// Takes a new incarnation; its floor is 0. One whose answer is lost is never used, and collected.
pub(crate) async fn take_incarnation(gate: &Gate) -> Result<i64, Fault> {
    let floor = |incarnation| vec![Op::put(layout::writer(incarnation), encode(0))];
    gate.take_number_with(layout::incarnation_counter(), floor).await
}

/// The floors of all incarnations, as of one revision.
#[derive(Debug, Default)]
pub(crate) struct Floors {
    /// The next incarnation to be taken: what is not below it had no floor to read yet.
    next_incarnation: i64,
    floors: BTreeMap<i64, Floor>,
}

/// One incarnation's floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Floor {
    pub(crate) number: u64,
    /// The mod revision of its key.
    pub(crate) revision: i64,
}

impl Floors {
    pub(crate) async fn read(gate: &Gate) -> Result<Self, Fault> {
        let prefix = layout::WRITERS.as_bytes();
        let all = Range::span(layout::WRITERS.into(), layout::end_of(prefix), 0);
        let mut now = gate.read(vec![Range::key(layout::incarnation_counter()), all]).await?;
        let next_incarnation = now.one::<i64>()?.into_value().unwrap_or(1);
        let floors = now.next().kvs.iter().map(read_one).collect::<Result<_, _>>()?;
        Ok(Floors { next_incarnation, floors })
    }

    /// Whether no commit of `chunk` can land any more.
    pub(crate) fn settled(&self, chunk: ChunkId) -> bool {
        match self.floors.get(&chunk.incarnation) {
            Some(floor) => chunk.number < floor.number,
            None => chunk.incarnation < self.next_incarnation,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, Floor)> + '_ {
        self.floors.iter().map(|(incarnation, floor)| (*incarnation, *floor))
    }
}

fn read_one(kv: &KeyValue) -> Result<(i64, Floor), Unreadable> {
    let incarnation = layout::writer_of(&kv.key).ok_or(Unreadable)?;
    Ok((incarnation, Floor { number: decode(&kv.value)?, revision: kv.mod_revision }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_compare_as_numbers_do() {
        let numbers = [0, 1, 127, 128, 255, 256, 16_383, 16_384, u64::MAX];
        assert!(numbers.windows(2).all(|pair| encode(pair[0]) < encode(pair[1])));
        assert!(numbers.iter().all(|number| decode(&encode(*number)) == Ok(*number)));
    }

    #[test]
    fn a_chunk_is_settled_below_its_floor_or_without_one() {
        let floor = Floor { number: 10, revision: 1 };
        let floors = Floors { next_incarnation: 5, floors: BTreeMap::from([(3, floor)]) };
        let settled = |incarnation, number| floors.settled(ChunkId { incarnation, number });
        assert_eq!((settled(3, 9), settled(3, 10)), (true, false));
        assert!(settled(2, u64::MAX), "its floor is gone");
        assert!(!settled(5, 0), "taken after the floors were read");
    }
}
