//! The classic protocol rule by rule, as Kafka 4's `GroupMetadataManager` has it, and in random order.

use super::*;
use crate::config::GroupConfig;
use crate::group::GroupState;
use crate::group::join::{Joined, Joiner};
use crate::group::leave::Leaver;
use crate::group::sync::Syncer;
use crate::group::timer::Timer;
use GroupPhase::{CompletingRebalance, Empty, PreparingRebalance, Stable};
use proptest::prelude::*;
use std::time::Duration;

fn timers(group: &ClassicGroup) -> BTreeMap<Timer, Duration> {
    GroupState::Classic(group.clone()).timers(&GroupConfig::default())
}

/// A member called `name` of a client before version 4: it is a member at once.
fn joiner(name: &str) -> Joiner {
    Joiner {
        member_id: String::new(),
        new_member_id: name.to_string(),
        instance_id: None,
        client_id: "c".into(),
        client_host: "/h".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".into(),
        protocols: vec![("range".into(), Bytes::from(format!("{name}'s")))],
        requires_id: false,
    }
}

/// The same member, which has its id by now.
fn again(name: &str) -> Joiner {
    Joiner { member_id: name.to_string(), ..joiner(name) }
}

fn fixed(instance_id: &str, name: &str) -> Joiner {
    Joiner { instance_id: Some(instance_id.to_string()), ..joiner(name) }
}

fn knows(joiner: Joiner, protocols: &[&str]) -> Joiner {
    let protocols = protocols.iter().map(|name| (name.to_string(), Bytes::new())).collect();
    Joiner { protocols, ..joiner }
}

fn syncer(name: &str, generation: i32, assignments: &[(&str, &'static str)]) -> Syncer {
    let assignment = |(id, assignment): &(&str, &'static str)| (id.to_string(), Bytes::from(*assignment));
    Syncer {
        member_id: name.to_string(),
        instance_id: None,
        generation,
        protocol_type: None,
        protocol: None,
        assignments: assignments.iter().map(assignment).collect(),
    }
}

fn leaver(name: &str) -> Leaver {
    Leaver { member_id: name.to_string(), instance_id: None }
}

fn code<T>(outcome: Result<T, ResponseError>) -> i16 {
    outcome.map_or_else(|error| error.code(), |_| 0)
}

fn refused(joined: Joined) -> (String, i16) {
    match joined {
        Joined::Refused { member_id, error } => (member_id, error.code()),
        other => panic!("not refused: {other:?}"),
    }
}

impl ClassicGroup {
    fn joins(&mut self, joiner: &Joiner) -> Joined {
        self.join(joiner, usize::MAX)
    }

    fn told(&self, name: &str) -> i16 {
        match self.joined(name, None) {
            Turn::Wait => -100,
            Turn::Answer => 0,
            Turn::Refused(error) => error.code(),
        }
    }

    fn timer(&self, of: impl Fn(&Timer) -> bool) -> Option<(Timer, Duration)> {
        timers(self).into_iter().find(|(timer, _)| of(timer))
    }

    fn runs_out(&mut self, of: impl Fn(&Timer) -> bool) {
        let (timer, _) = self.timer(of).expect("such a timer");
        self.elapse(&timer);
    }
}

const WAITS: i16 = -100;

fn initial(timer: &Timer) -> bool {
    matches!(timer, Timer::Initial(_))
}

fn join_deadline(timer: &Timer) -> bool {
    matches!(timer, Timer::Join(_))
}

fn sync_deadline(timer: &Timer) -> bool {
    matches!(timer, Timer::Sync(_))
}

fn session_of(name: &'static str) -> impl Fn(&Timer) -> bool {
    move |timer| matches!(timer, Timer::Session { member_id, .. } if member_id == name)
}

/// Generation 1 of `a` (the leader) and `b`, stable.
fn stable() -> ClassicGroup {
    let mut group = ClassicGroup::default();
    group.joins(&joiner("a"));
    group.joins(&joiner("b"));
    group.runs_out(initial);
    group.sync(&syncer("b", 1, &[])).unwrap();
    group.sync(&syncer("a", 1, &[("a", "0"), ("b", "1")])).unwrap();
    assert_eq!((group.phase, group.generation), (Stable, 1));
    group
}

#[test]
fn the_first_generation_waits_for_further_members() {
    let mut group = ClassicGroup::default();
    assert_eq!(group.joins(&joiner("a")), Joined::Member("a".into()));
    assert_eq!((group.phase, group.initial, group.added), (PreparingRebalance, true, 0));
    assert_eq!(group.timer(initial), Some((Timer::Initial(0), Duration::from_secs(3))));
    assert_eq!(group.told("a"), WAITS);
    group.joins(&joiner("b"));
    assert_eq!((group.added, group.told("b")), (1, WAITS));
    group.runs_out(initial);
    assert_eq!((group.phase, group.generation, group.leader.as_deref()), (CompletingRebalance, 1, Some("a")));
    assert_eq!((group.told("a"), group.told("b")), (0, 0));
    assert_eq!(group.protocol.as_deref(), Some("range"));
    assert_eq!(group.members["b"].metadata("range"), Bytes::from("b's"));
}

#[test]
fn a_new_member_is_given_an_id_to_come_back_with() {
    let mut group = ClassicGroup::default();
    let first = Joiner { requires_id: true, ..joiner("a") };
    assert_eq!(refused(group.joins(&first)), ("a".into(), 79));
    assert_eq!(refused(group.joins(&first)), ("a".into(), 79), "the same request, its answer lost");
    assert_eq!((group.phase, group.pending.len(), group.members.len()), (Empty, 1, 0));
    let given = group.timer(|timer| *timer == Timer::Pending("a".into()));
    assert_eq!(given.map(|(_, period)| period), Some(Duration::from_secs(10)));
    assert_eq!(group.joins(&again("a")), Joined::Member("a".into()));
    assert_eq!((group.pending.len(), group.members.len()), (0, 1));
    assert_eq!(refused(group.joins(&again("x"))), ("x".into(), 25), "nobody gave it this id");
}

#[test]
fn a_join_phase_waits_for_ids_given_out() {
    let mut group = stable();
    group.joins(&Joiner { requires_id: true, ..joiner("c") });
    assert_eq!(group.phase, Stable, "an id alone disturbs nobody");
    group.joins(&again("a"));
    group.joins(&again("b"));
    assert_eq!((group.phase, group.told("b")), (PreparingRebalance, WAITS));
    group.runs_out(|timer| matches!(timer, Timer::Pending(_)));
    assert_eq!((group.phase, group.generation, group.told("b")), (CompletingRebalance, 2, 0));
}

#[test]
fn a_rebalance_is_complete_when_everybody_has_joined_anew() {
    let mut group = stable();
    group.joins(&joiner("c"));
    assert_eq!((group.phase, group.initial), (PreparingRebalance, false));
    assert_eq!(group.timer(join_deadline), Some((Timer::Join(1), Duration::from_secs(60))));
    assert_eq!(code(group.heartbeat("a", None, 1)), 27);
    assert_eq!(code(group.sync(&syncer("a", 1, &[]))), 27);
    group.joins(&again("a"));
    assert_eq!(group.told("a"), WAITS);
    group.joins(&again("b"));
    assert_eq!((group.phase, group.generation, group.leader.as_deref()), (CompletingRebalance, 2, Some("a")));
    assert_eq!(["a", "b", "c"].map(|name| group.told(name)), [0, 0, 0]);
    assert_eq!(code(group.heartbeat("a", None, 1)), 22);
    assert_eq!(code(group.heartbeat("a", None, 2)), 0);
}

#[test]
fn who_has_not_joined_at_the_rebalance_timeout_is_out_and_the_leader_changes() {
    let mut group = stable();
    group.joins(&joiner("c"));
    group.joins(&again("b"));
    group.runs_out(join_deadline);
    assert_eq!((group.phase, group.generation, group.leader.as_deref()), (CompletingRebalance, 2, Some("b")));
    assert_eq!(group.members.keys().collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!((group.told("a"), code(group.heartbeat("a", None, 1))), (25, 25));
}

#[test]
fn static_members_outlast_the_rebalance_timeout_but_do_not_lead() {
    let mut group = ClassicGroup::default();
    group.joins(&fixed("i", "s"));
    group.joins(&joiner("t"));
    group.runs_out(initial);
    group.sync(&syncer("s", 1, &[])).unwrap();
    group.joins(&joiner("u"));
    group.joins(&again("t"));
    group.runs_out(join_deadline);
    assert_eq!((group.generation, group.leader.as_deref()), (2, Some("t")));
    assert_eq!(group.members.keys().collect::<Vec<_>>(), ["s", "t", "u"]);
    assert_eq!(group.told("s"), 0, "a late one is told the generation");
}

#[test]
fn a_join_phase_in_which_nobody_joined_goes_on() {
    let mut group = ClassicGroup::default();
    group.joins(&fixed("i", "s"));
    group.joins(&joiner("t"));
    group.runs_out(initial);
    group.sync(&syncer("s", 1, &[])).unwrap();
    group.sync(&syncer("t", 1, &[])).unwrap();
    group.leave(&[leaver("t")]);
    assert_eq!((group.phase, group.generation), (PreparingRebalance, 1));
    group.runs_out(join_deadline);
    assert_eq!((group.phase, group.generation, group.members.len()), (PreparingRebalance, 1, 1));
    group.runs_out(session_of("s"));
    assert_eq!((group.phase, group.generation, group.members.len()), (Empty, 2, 0));
}

#[test]
fn the_protocol_is_voted_on_among_those_that_all_know() {
    let mut group = ClassicGroup::default();
    group.joins(&knows(joiner("a"), &["range", "sticky", "rr"]));
    group.joins(&knows(joiner("b"), &["sticky", "rr"]));
    group.joins(&knows(joiner("c"), &["x", "rr", "sticky"]));
    group.runs_out(initial);
    assert_eq!(group.protocol.as_deref(), Some("sticky"), "two votes to one");
    assert_eq!(refused(group.joins(&knows(joiner("d"), &["range", "x"]))).1, 23, "no one knows both");
    assert_eq!(refused(group.joins(&Joiner { protocol_type: "connect".into(), ..joiner("d") })).1, 23);
    let mut empty = ClassicGroup::default();
    assert_eq!(refused(empty.joins(&knows(joiner("d"), &[]))).1, 23);
    assert_eq!(refused(empty.joins(&Joiner { protocol_type: String::new(), ..joiner("d") })).1, 23);
    let mut tie = ClassicGroup::default();
    tie.joins(&knows(joiner("a"), &["rr", "range"]));
    tie.joins(&knows(joiner("b"), &["range", "rr"]));
    tie.runs_out(initial);
    assert_eq!(tie.protocol.as_deref(), Some("range"), "the first by name");
}

#[test]
fn who_missed_the_answer_to_its_join_is_told_again() {
    let mut group = stable();
    group.joins(&again("a"));
    group.joins(&again("b"));
    assert_eq!((group.phase, group.generation), (CompletingRebalance, 2));
    let before = group.clone();
    assert_eq!(group.joins(&again("b")), Joined::Member("b".into()));
    assert_eq!((group.told("b"), &group), (0, &before));
    group.joins(&knows(again("b"), &["range"]));
    assert_eq!((group.phase, group.told("b"), group.told("a")), (PreparingRebalance, WAITS, 27));
}

#[test]
fn in_a_stable_group_the_leader_and_what_changed_rebalance_and_an_unchanged_follower_does_not() {
    let mut group = stable();
    let before = group.clone();
    group.joins(&again("b"));
    assert_eq!((group.told("b"), &group), (0, &before));
    let mut changed = group.clone();
    changed.joins(&knows(again("b"), &["range"]));
    assert_eq!((changed.phase, changed.told("b")), (PreparingRebalance, WAITS));
    group.joins(&again("a"));
    assert_eq!((group.phase, group.told("a")), (PreparingRebalance, WAITS));
}

#[test]
fn followers_wait_for_the_leaders_assignment() {
    let mut group = ClassicGroup::default();
    group.joins(&joiner("a"));
    group.joins(&joiner("b"));
    group.joins(&joiner("c"));
    group.runs_out(initial);
    assert_eq!(group.timer(sync_deadline), Some((Timer::Sync(1), Duration::from_secs(60))));
    group.sync(&syncer("b", 1, &[("b", "mine")])).unwrap();
    assert_eq!(group.synced("b", None, 1), Turn::Wait);
    assert_eq!(group.timer(session_of("b")), None, "its request waits");
    assert!(group.timer(session_of("c")).is_some());
    group.sync(&syncer("a", 1, &[("b", "1"), ("x", "2")])).unwrap();
    assert_eq!((group.phase, group.synced("b", None, 1)), (Stable, Turn::Answer));
    let assigned = |name: &str| group.members[name].assignment.clone();
    assert_eq!(["a", "b", "c"].map(assigned), [Bytes::new(), Bytes::from("1"), Bytes::new()]);
    group.sync(&syncer("c", 1, &[])).unwrap();
    assert_eq!((group.synced("c", None, 1), group.timer(sync_deadline)), (Turn::Answer, None));
    assert_eq!(code(group.sync(&syncer("c", 2, &[]))), 22);
    assert_eq!(code(group.sync(&syncer("x", 1, &[]))), 25);
    assert_eq!(code(group.sync(&Syncer { protocol: Some("rr".into()), ..syncer("c", 1, &[]) })), 23);
    assert_eq!(code(group.sync(&Syncer { protocol_type: Some("x".into()), ..syncer("c", 1, &[]) })), 23);
    assert_eq!(code(ClassicGroup::default().sync(&syncer("c", 0, &[]))), 25);
}

#[test]
fn an_assignment_is_given_to_its_own_generation_only() {
    let mut group = ClassicGroup::default();
    group.joins(&joiner("a"));
    group.joins(&joiner("b"));
    group.runs_out(initial);
    group.sync(&syncer("b", 1, &[])).unwrap();
    group.joins(&joiner("c"));
    assert_eq!(group.synced("b", None, 1), Turn::Refused(ResponseError::RebalanceInProgress));
    group.joins(&again("a"));
    group.joins(&again("b"));
    assert_eq!((group.phase, group.generation), (CompletingRebalance, 2));
    assert_eq!(group.synced("b", None, 1), Turn::Refused(ResponseError::RebalanceInProgress));
    assert_eq!(group.synced("x", None, 1), Turn::Refused(ResponseError::UnknownMemberId));
}

#[test]
fn who_sends_no_sync_in_time_is_out() {
    let mut group = stable();
    group.joins(&again("a"));
    group.joins(&again("b"));
    group.sync(&syncer("b", 2, &[])).unwrap();
    group.runs_out(sync_deadline);
    assert_eq!((group.phase, group.leader.as_deref()), (PreparingRebalance, Some("b")));
    assert_eq!(group.members.keys().collect::<Vec<_>>(), ["b"]);
    assert_eq!(group.synced("b", None, 2), Turn::Refused(ResponseError::RebalanceInProgress));
}

#[test]
fn who_is_silent_for_its_session_is_out() {
    let mut group = stable();
    assert_eq!(group.timer(session_of("b")).map(|(_, period)| period), Some(Duration::from_secs(10)));
    group.runs_out(session_of("b"));
    assert_eq!((group.phase, group.members.len()), (PreparingRebalance, 1));
    group.runs_out(session_of("a"));
    assert_eq!((group.phase, group.generation, &group.leader), (Empty, 2, &None));
    assert_eq!((group.protocol.as_deref(), group.protocol_type.as_deref()), (None, Some("consumer")));
}

#[test]
fn who_waits_in_a_join_phase_is_not_silent_unless_it_is_new() {
    let mut group = stable();
    group.joins(&joiner("c"));
    group.joins(&again("b"));
    assert_eq!(group.timer(session_of("b")), None);
    assert!(group.timer(session_of("a")).is_some(), "it has not joined yet");
    assert_eq!(group.timer(session_of("c")).map(|(_, period)| period), Some(Duration::from_secs(300)));
    group.runs_out(session_of("c"));
    group.runs_out(session_of("a"));
    assert_eq!((group.phase, group.generation, group.told("b")), (CompletingRebalance, 2, 0));
}

#[test]
fn members_leave_each_for_itself_and_the_group_rebalances_once() {
    let mut group = stable();
    group.joins(&Joiner { requires_id: true, ..joiner("p") });
    let left = group.leave(&[leaver("x"), leaver("p"), leaver("b")]);
    assert_eq!(left.into_iter().map(code).collect::<Vec<_>>(), [25, 0, 0]);
    assert_eq!((group.phase, group.members.len(), group.pending.len()), (PreparingRebalance, 1, 0));
    assert_eq!(group.leave(&[leaver("a")]).into_iter().map(code).collect::<Vec<_>>(), [0]);
    assert_eq!((group.phase, group.generation), (Empty, 2));
    assert_eq!(group.leave(&[leaver("a")]).into_iter().map(code).collect::<Vec<_>>(), [25]);
}

#[test]
fn a_static_member_can_be_taken_out_by_its_instance_id() {
    let mut group = ClassicGroup::default();
    group.joins(&fixed("i", "s"));
    group.joins(&joiner("t"));
    group.runs_out(initial);
    let named = |member_id: &str, instance_id: &str| Leaver {
        member_id: member_id.to_string(),
        instance_id: Some(instance_id.to_string()),
    };
    let left = group.leave(&[named("x", "i"), named("", "j"), named("", "i"), leaver("")]);
    assert_eq!(left.into_iter().map(code).collect::<Vec<_>>(), [82, 25, 0, 25]);
    assert_eq!(group.members.keys().collect::<Vec<_>>(), ["t"]);
}

#[test]
fn a_static_member_that_comes_back_fences_its_former_self_and_disturbs_nobody() {
    let mut group = ClassicGroup::default();
    group.joins(&fixed("i", "s1"));
    group.joins(&fixed("j", "t1"));
    group.runs_out(initial);
    group.sync(&syncer("s1", 1, &[("s1", "0"), ("t1", "1")])).unwrap();
    group.sync(&syncer("t1", 1, &[])).unwrap();
    let back = fixed("i", "s2");
    let kept = |leader: &str| Joined::Kept { member_id: "s2".into(), leader_before: leader.into() };
    assert_eq!(group.joins(&back), kept("s1"));
    assert_eq!((group.phase, group.generation, group.leader.as_deref()), (Stable, 1, Some("s2")));
    assert_eq!(group.members["s2"].assignment, Bytes::from("0"));
    let before = group.clone();
    assert_eq!(group.joins(&back), kept(""), "the same request, its answer lost");
    assert_eq!(group, before);
    assert_eq!(code(group.heartbeat("s1", Some("i"), 1)), 82);
    assert_eq!(code(group.heartbeat("s1", None, 1)), 25);
    assert_eq!(code(group.heartbeat("s2", Some("i"), 1)), 0);
    assert_eq!(group.joined("s1", Some("i")), Turn::Refused(ResponseError::FencedInstanceId));
    assert_eq!(refused(group.joins(&Joiner { member_id: "s1".into(), ..fixed("i", "") })).1, 82);
    assert_eq!(refused(group.joins(&Joiner { member_id: "s2".into(), ..fixed("x", "") })).1, 25);
}

#[test]
fn a_static_member_that_comes_back_otherwise_rebalances() {
    let mut group = ClassicGroup::default();
    group.joins(&knows(fixed("i", "s1"), &["range", "rr"]));
    group.joins(&knows(fixed("j", "t1"), &["range", "rr"]));
    group.runs_out(initial);
    let mut completing = group.clone();
    assert_eq!(completing.joins(&knows(fixed("j", "t2"), &["range", "rr"])), Joined::Member("t2".into()));
    assert_eq!((completing.phase, completing.told("t2")), (PreparingRebalance, WAITS));
    completing.joins(&knows(Joiner { member_id: "s1".into(), ..fixed("i", "") }, &["range", "rr"]));
    assert_eq!((completing.phase, completing.generation), (CompletingRebalance, 2));
    group.sync(&syncer("s1", 1, &[])).unwrap();
    assert_eq!(group.joins(&knows(fixed("j", "t2"), &["rr"])), Joined::Member("t2".into()));
    assert_eq!(group.phase, PreparingRebalance, "range is not known to all any more");
}

#[test]
fn a_full_group_takes_nobody_in_and_a_rebalance_leaves_the_last_ones_out() {
    let mut group = ClassicGroup::default();
    for name in ["a", "b"] {
        assert_eq!(group.join(&joiner(name), 2), Joined::Member(name.into()));
    }
    assert_eq!(refused(group.join(&joiner("c"), 2)), (String::new(), 81));
    assert_eq!(group.join(&again("a"), 2), Joined::Member("a".into()), "it is there already");
    group.runs_out(initial);
    assert_eq!(refused(group.join(&joiner("c"), 2)), (String::new(), 81));
    group.join(&again("b"), 1);
    group.leave(&[]);
    group.prepare();
    assert_eq!(group.join(&again("b"), 1), Joined::Member("b".into()));
    assert_eq!(refused(group.join(&again("a"), 1)), (String::new(), 81));
    assert_eq!(group.members.keys().collect::<Vec<_>>(), ["b"]);
}

/// What a random walk does: a kind of step, who does it, and a detail.
fn steps() -> impl Strategy<Value = Vec<(u8, usize, u8)>> {
    prop::collection::vec((0u8..8, 0usize..4, 0u8..3), 1..80)
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn step(group: &mut ClassicGroup, (kind, who, detail): (u8, usize, u8), nth: usize) {
    let name = NAMES[who];
    let static_id = (who == 3).then(|| "i".to_string());
    let current = match &static_id {
        Some(id) => group.static_member(id).unwrap_or(name).to_string(),
        None => name.to_string(),
    };
    let generation = group.generation - i32::from(detail == 2);
    match kind {
        0 => {
            let fresh = if static_id.is_some() { format!("d{nth}") } else { name.to_string() };
            let known = group.members.contains_key(name) || group.pending.contains_key(name);
            if static_id.is_some() || !known {
                let joiner = Joiner { requires_id: detail > 0, instance_id: static_id, ..joiner(&fresh) };
                group.join(&joiner, 3);
            }
        }
        1 | 2 => {
            let protocols: &[&str] = if detail == 0 { &["range"] } else { &["range", "rr"] };
            let joiner =
                Joiner { member_id: current, instance_id: static_id, ..knows(joiner(""), protocols) };
            group.join(&joiner, 3);
        }
        3 => {
            let given = [("a", "1"), ("b", "2")];
            let _ = group.sync(&Syncer { instance_id: static_id, ..syncer(&current, generation, &given) });
        }
        4 => {
            group.leave(&[Leaver { member_id: current, instance_id: static_id }]);
        }
        _ => {
            let timers = timers(group);
            if let Some(timer) = timers.keys().nth((who + usize::from(detail)) % timers.len().max(1)) {
                group.elapse(timer);
            }
        }
    }
}

proptest! {
    #[test]
    fn a_group_is_whole_after_every_step(steps in steps()) {
        let mut group = ClassicGroup::default();
        for (nth, step_taken) in steps.into_iter().enumerate() {
            let before = group.clone();
            step(&mut group, step_taken, nth);
            let at = format!("{step_taken:?}\n{before:#?}\n{group:#?}");
            prop_assert!(group.generation >= before.generation, "a generation went back: {at}");
            prop_assert!(group.phase != Empty || group.members.is_empty(), "{at}");
            let settled = matches!(group.phase, CompletingRebalance | Stable);
            prop_assert!(!settled || !group.members.is_empty(), "{at}");
            let led = group.leader.as_ref().is_some_and(|leader| group.members.contains_key(leader));
            prop_assert_eq!(led, !group.members.is_empty(), "{}", at);
            prop_assert!(group.leader.is_some() == led, "{at}");
            for (id, member) in &group.members {
                prop_assert!(!member.joining || group.phase == PreparingRebalance, "{id} of {at}");
                let told = group.synced(id, None, group.generation);
                prop_assert!(told != Turn::Answer || group.phase == Stable, "{id} of {at}");
                for old in 0..group.generation {
                    prop_assert!(group.synced(id, None, old) != Turn::Answer, "{id} of {at}");
                }
            }
            let protocol = group.protocol.as_deref().unwrap_or_default();
            let agreed = group.members.values().all(|member| member.knows(protocol));
            prop_assert!(!settled || agreed, "{at}");
            let entered = group.members.keys().filter(|id| !before.members.contains_key(*id)).count();
            prop_assert!(entered <= 1 && (entered == 0 || step_taken.0 <= 2), "{at}");
        }
    }
}
