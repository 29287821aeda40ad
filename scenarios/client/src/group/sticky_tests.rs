//! Values worked out by hand from `AbstractStickyAssignor` and `CooperativeStickyAssignor`; the cases are those of
//! `AbstractStickyAssignorTest` and `CooperativeStickyAssignorTest` that do not depend on the order of a hash map.

use super::super::assignor::tests::{member, topics, words};
use super::*;
use proptest::prelude::*;

#[test]
fn without_owners_it_goes_round() {
    let one = [member("a", &["t"], &[], -1)];
    assert_eq!(words(&assign(&one, &topics(&[("t", 3)]))), "a: t-0 t-1 t-2");
    let two = [member("a", &["t", "u"], &[], -1), member("b", &["t", "u"], &[], -1)];
    // Partitions are dealt out by topic, then number.
    assert_eq!(words(&assign(&two, &topics(&[("t", 3), ("u", 3)]))), "a: t-0 t-2 u-1, b: t-1 u-0 u-2");
    // Five for two: two each, and one of them gets a third.
    assert_eq!(words(&assign(&two, &topics(&[("t", 3), ("u", 2)]))), "a: t-0 t-2 u-1, b: t-1 u-0");
    // Fewer partitions than members: the smaller quota is 0, so all are "at the minimum" from the start.
    let three = [member("a", &["t"], &[], -1), member("b", &["t"], &[], -1), member("c", &["t"], &[], -1)];
    assert_eq!(words(&assign(&three, &topics(&[("t", 2)]))), "a: t-0, b: t-1, c: ");
}

#[test]
fn a_new_member_gets_nothing_that_another_still_owns() {
    let owner = member("a", &["t"], &[("t", 0), ("t", 1), ("t", 2), ("t", 3)], 4);
    let newcomer = member("b", &["t"], &[], -1);
    // a keeps two; the two that move are given to nobody in this generation.
    assert_eq!(words(&assign(&[owner, newcomer], &topics(&[("t", 4)]))), "a: t-0 t-1, b: ");
    // In the next a has given them up.
    let owner = member("a", &["t"], &[("t", 0), ("t", 1)], 5);
    let newcomer = member("b", &["t"], &[], 5);
    assert_eq!(words(&assign(&[owner, newcomer], &topics(&[("t", 4)]))), "a: t-0 t-1, b: t-2 t-3");
}

#[test]
fn what_a_member_that_left_owned_goes_to_those_who_have_less() {
    let members = [member("a", &["t"], &[("t", 0), ("t", 3)], 4), member("b", &["t"], &[("t", 1)], 4)];
    // Two of four each: b gets the one that is free; nobody loses anything.
    assert_eq!(words(&assign(&members, &topics(&[("t", 4)]))), "a: t-0 t-3, b: t-1 t-2");
    // Three of five for a: the quotas are 2 and 3, and a is at the smaller one.
    let assigned = words(&assign(&members, &topics(&[("t", 5)])));
    assert_eq!(assigned, "a: t-0 t-3 t-4, b: t-1 t-2");
}

#[test]
fn of_two_claims_the_newer_generation_is_right() {
    let old = member("a", &["t"], &[("t", 0), ("t", 1)], 3);
    let new = member("b", &["t"], &[("t", 1)], 4);
    assert_eq!(words(&assign(&[old.clone(), new.clone()], &topics(&[("t", 2)]))), "a: t-0, b: t-1");
    assert_eq!(words(&assign(&[new, old], &topics(&[("t", 2)]))), "a: t-0, b: t-1");
}

#[test]
fn what_two_claim_in_one_generation_both_must_give_up() {
    let members = [member("a", &["t"], &[("t", 0), ("t", 1)], 4), member("b", &["t"], &[("t", 1)], 4)];
    // t-1 would be b's; but a may still be reading it.
    assert_eq!(words(&assign(&members, &topics(&[("t", 2)]))), "a: t-0, b: ");
}

#[test]
fn what_does_not_exist_or_is_not_subscribed_to_is_not_owned() {
    let members = [member("a", &["t"], &[("t", 7), ("u", 0)], 4), member("b", &["t", "u"], &[], -1)];
    assert_eq!(words(&assign(&members, &topics(&[("t", 2), ("u", 1)]))), "a: t-0, b: t-1 u-0");
}

proptest! {
    /// Whatever members own and claim: nothing is given twice, nothing that another member may still own with as good a
    /// right, and once everybody has given up what it must, everything is given out, evenly.
    #[test]
    fn two_rounds_bring_balance(
        count in 0i32..12,
        owned in prop::collection::vec((prop::collection::btree_set(0i32..12, 0..8), 3i32..5), 1..5),
    ) {
        let topics = topics(&[("t", count)]);
        let claims: Vec<Joined> = owned.iter().enumerate().map(|(n, (owned, generation))| {
            let owned: Vec<(&str, i32)> = owned.iter().map(|partition| ("t", *partition)).collect();
            member(&format!("m{n}"), &["t"], &owned, *generation)
        }).collect();
        let first = assign(&claims, &topics);
        for member in &claims {
            for other in claims.iter().filter(|other| other.member_id != member.member_id) {
                for partition in &first[&member.member_id] {
                    let theirs = other.subscription.owned.contains(partition)
                        && other.subscription.generation >= member.subscription.generation;
                    let mine = member.subscription.owned.contains(partition)
                        && member.subscription.generation > other.subscription.generation;
                    prop_assert!(!theirs || mine, "{partition} may still be read by {}", other.member_id);
                }
            }
        }
        let kept = |member: &Joined| member.subscription.owned.intersection(&first[&member.member_id]).cloned().collect();
        let settled: Vec<Joined> = claims.iter().map(|member| Joined {
            subscription: crate::group::subscription::Subscription {
                owned: kept(member), generation: 5, ..member.subscription.clone()
            },
            ..member.clone()
        }).collect();
        let second = assign(&settled, &topics);
        let sizes: Vec<usize> = second.values().map(BTreeSet::len).collect();
        prop_assert_eq!(sizes.iter().sum::<usize>(), count as usize);
        prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{:?}", sizes);
    }
}
