//! Version 2 under a client whose answers get lost, whose requests come again late, and whose transactions run out of time:
//! nothing late changes anything, and no producer id and epoch is handed out twice.

use super::*;
use TransactionVersion::V2;
use proptest::prelude::*;
use std::collections::BTreeSet;

type Ids = (i64, i16);

#[derive(Clone, Debug)]
enum Step {
    /// A batch, which begins the transaction if need be.
    Send,
    /// EndTxn, as often as answers are lost and once more.
    End {
        committed: bool,
        lost: u8,
    },
    /// A copy of an earlier EndTxn.
    Late(prop::sample::Index),
    TimeOut,
}

/// The coordinator and one client.
struct Model {
    state: TxnState,
    /// What the client goes by.
    held: Ids,
    next_producer_id: i64,
    given: BTreeSet<Ids>,
    /// Ends that the client got over.
    past: Vec<(Ids, bool)>,
}

impl Model {
    /// A holder of `epoch`.
    fn new(epoch: i16) -> Self {
        let state = TxnState { epoch, ..TxnState::first(1, 60_000) };
        Model { state, held: (1, epoch), next_producer_id: 2, given: [(1, epoch)].into(), past: Vec::new() }
    }

    fn store(&mut self, mut prepared: TxnState) {
        if prepared.wants_producer_id() {
            prepared.next_producer_id = self.next_producer_id;
            self.next_producer_id += 1;
        }
        self.state = prepared;
    }

    /// Writes the markers that are out.
    fn settle(&mut self) {
        if let Some(committed) = self.state.phase.prepared() {
            self.state = self.state.completed(committed);
        }
    }

    fn ask(&mut self, (producer_id, epoch): Ids, committed: bool) -> Result<Ids, ResponseError> {
        match end(V2, Some(&self.state), producer_id, epoch, committed) {
            End::Decide(prepared) => self.store(prepared),
            End::Already => {}
            End::Refuse(error) => return Err(error),
        }
        Ok(self.state.held())
    }

    fn send(&mut self) {
        let (producer_id, epoch) = self.held;
        match admit(V2, Outside::Implicit, Some(&self.state), false, producer_id, epoch) {
            Admission::Join { begin: true } => self.state = self.state.begun(None),
            Admission::Join { begin: false } => {}
            // Out of time, and the client does not know yet.
            Admission::Refuse(error) => assert_eq!(error, self.stale_error()),
            Admission::Append => panic!("it was not listed"),
        }
    }

    /// What a batch of the client is told after a time-out: its producer id may have been rotated away.
    fn stale_error(&self) -> ResponseError {
        match self.state.producer_id == self.held.0 {
            true => ResponseError::InvalidProducerEpoch,
            false => ResponseError::InvalidProducerIdMapping,
        }
    }

    /// The client's end, and the answer it gets at last.
    fn end(&mut self, committed: bool, lost: u8) {
        let asked = self.held;
        let mut answers = Vec::new();
        for _ in 0..=lost {
            answers.push(self.ask(asked, committed));
            self.settle();
        }
        assert!(
            answers.windows(2).all(|pair| pair[0] == pair[1]),
            "a retry is answered as the first: {answers:?}"
        );
        match answers[0] {
            Ok(ids) => {
                assert!(ids.1 <= EPOCH_MAX && self.given.insert(ids), "{ids:?} was given before");
                self.past.push((asked, committed));
                self.held = ids;
            }
            Err(error) => {
                assert_eq!((error, committed), (ResponseError::InvalidTxnState, true), "of {asked:?}");
                // Nothing was begun, or it ran out of time: the client aborts.
                self.end(false, lost);
            }
        }
    }

    fn late(&mut self, which: prop::sample::Index) {
        if self.past.is_empty() {
            return;
        }
        let (ids, committed) = self.past[which.index(self.past.len())];
        let before = self.state.clone();
        for committed in [committed, !committed] {
            let _ = self.ask(ids, committed);
            assert_eq!(self.state, before, "a late end of {ids:?}");
        }
        let late = admit(V2, Outside::Implicit, Some(&self.state), true, ids.0, ids.1);
        assert!(matches!(late, Admission::Refuse(_)), "a late batch of {ids:?}: {late:?}");
    }

    fn time_out(&mut self) {
        if self.state.phase == Phase::Ongoing {
            self.store(self.state.timed_out(V2));
            self.settle();
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Send),
        4 => (any::<bool>(), 0u8..3).prop_map(|(committed, lost)| Step::End { committed, lost }),
        3 => any::<prop::sample::Index>().prop_map(Step::Late),
        1 => Just(Step::TimeOut),
    ]
}

proptest! {
    #[test]
    fn nothing_late_changes_anything(
        epoch in prop_oneof![Just(0i16), 32_755i16..=32_766],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut model = Model::new(epoch);
        for step in steps {
            match step {
                Step::Send => model.send(),
                Step::End { committed, lost } => model.end(committed, lost),
                Step::Late(which) => model.late(which),
                Step::TimeOut => model.time_out(),
            }
        }
    }
}
