//! Static members (KIP-345) of a classic group.

use super::*;

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
