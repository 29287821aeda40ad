//! Histories in short, for the tests of the checks that judge them.

use super::*;

/// Member `a`, which is the identity `a`, was told that it is in `generation`, and its partitions.
pub(crate) fn synced(member: &str, generation: i32, partitions: &[i64]) -> Vec<Event> {
    let identity = member.split('.').next().unwrap_or_default().to_string();
    let (member, partitions) = (member.to_string(), partitions.to_vec());
    vec![
        Event::Joined { member: member.clone(), identity, generation },
        Event::Synced { member, generation, partitions },
    ]
}

pub(crate) fn assigned(member: &str, partition: i64) -> Event {
    Event::Assigned { member: member.into(), partition }
}

pub(crate) fn dropped(member: &str, partition: i64) -> Event {
    Event::Dropped { member: member.into(), partition }
}

pub(crate) fn delivered(member: &str, offsets: impl IntoIterator<Item = i64>) -> Vec<Event> {
    let member = |offset| Event::Delivered { member: member.to_string(), partition: 0, offset };
    offsets.into_iter().map(member).collect()
}

/// An attempt on partition 0.
pub(crate) fn commits(member: &str, number: u64, generation: i32, offset: i64) -> Event {
    Event::Commits { member: member.into(), number, generation, partition: 0, offset, transactional: false }
}

pub(crate) fn ended(member: &str, number: u64, outcome: Outcome) -> Event {
    Event::CommitEnded { member: member.into(), number, outcome }
}

/// An attempt on partition 0 and its acknowledgement.
pub(crate) fn committed(member: &str, number: u64, generation: i32, offset: i64) -> Vec<Event> {
    vec![commits(member, number, generation, offset), ended(member, number, Outcome::Done)]
}

/// Somebody sees what is committed for partition 0.
pub(crate) fn found(number: u64, offset: i64) -> Vec<Event> {
    let reader = "reader".to_string();
    vec![
        Event::Asks { reader: reader.clone(), number },
        Event::Finds { reader, number, partition: 0, offset },
    ]
}

/// One after the other.
pub(crate) fn facts(parts: Vec<Vec<Event>>) -> Facts {
    Facts::new(&parts.concat())
}

/// A member gets partition 0 in generation 1, is handed 0 to 4, and commits 5.
pub(crate) fn first_owner() -> Vec<Event> {
    [synced("a", 1, &[0]), vec![assigned("a", 0)], delivered("a", 0..5), committed("a", 1, 1, 5)].concat()
}

#[test]
fn a_member_is_cut_off_by_a_newer_generation_or_by_its_next_incarnation() {
    let between = delivered("a", [0]);
    for next in [synced("b", 2, &[0]), synced("a.2", 1, &[0])] {
        // The next one joins at 3.
        let facts = facts(vec![synced("a", 1, &[0]), between.clone(), next]);
        assert!(facts.is_current("a", 2) && !facts.is_current("a", 3));
        assert!(!facts.is_current("b", 4) && !facts.is_current("a.2", 4), "it has no partitions yet");
    }
    let facts = facts(vec![synced("a", 1, &[0]), synced("b", 2, &[0])]);
    assert!(facts.is_current("b", 4));
}

#[test]
fn an_attempt_may_act_until_it_is_answered_or_its_member_is_cut_off() {
    let unknown = vec![commits("a", 1, 1, 5), ended("a", 1, Outcome::Unknown)];
    let held = [synced("a", 1, &[0]), vec![assigned("a", 0)]].concat();
    let facts = facts(vec![held, unknown, synced("b", 2, &[0])]);
    // Sent at 3, cut off at 5.
    let attempt = &facts.attempts[0];
    assert_eq!((attempt.sent, attempt.effective_until(), attempt.held), (3, 5, true));
    assert!(attempt.may_act(4, 9) && !attempt.may_act(5, 9) && !attempt.may_act(0, 3));
}

#[test]
fn an_attempt_in_a_transaction_may_act_until_the_transaction_is_over() {
    let held = [synced("a", 1, &[0]), vec![assigned("a", 0)]].concat();
    let mut commits = commits("a", 1, 1, 5);
    if let Event::Commits { transactional, .. } = &mut commits {
        *transactional = true;
    }
    let aborted = facts(vec![
        held.clone(),
        vec![commits.clone()],
        synced("b", 2, &[0]),
        vec![ended("a", 1, Outcome::Refused)],
    ]);
    assert_eq!((aborted.attempts[0].cut_off, aborted.attempts[0].effective_until()), (4, 6));
    let unknown = facts(vec![held, vec![commits], synced("b", 2, &[0])]);
    assert_eq!(unknown.attempts[0].effective_until(), usize::MAX);
}

#[test]
fn a_history_that_could_not_have_failed_is_vacuous() {
    assert_eq!(
        vacuous(&Facts::new(&[])),
        [Vacuity::NoRebalance, Vacuity::NoCommit, Vacuity::NothingDelivered]
    );
    assert_eq!(vacuous(&Facts::new(&first_owner())), [Vacuity::NoRebalance]);
    assert_eq!(vacuous(&facts(vec![first_owner(), synced("b", 2, &[])])), []);
}
