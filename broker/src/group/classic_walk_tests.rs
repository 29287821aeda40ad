//! A classic group in random order: whatever comes, it is whole after every step.

use super::*;
use proptest::prelude::*;

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
