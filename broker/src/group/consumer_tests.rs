//! The consumer protocol rule by rule, as Kafka 4 has it, and in random order.

use super::*;
use crate::group::beat::Beat;
use crate::group::timer::Timer;
use proptest::prelude::*;
use std::time::Duration;

const T: TopicId = [1; 16];
const U: TopicId = [2; 16];

/// The topics `t` and, if it has any partitions, `u`.
fn topics(t: i32, u: i32) -> Catalogue {
    let all = [("t", T, t), ("u", U, u)].into_iter().filter(|(_, _, partitions)| *partitions > 0);
    let found = all.map(|(name, id, partitions)| (name.to_string(), Topic { id, partitions }));
    Catalogue { asked: None, found: found.collect() }
}

fn comes_in(member_id: &str) -> Beat {
    Beat {
        member_id: member_id.to_string(),
        rebalance_timeout_ms: Some(60_000),
        names: Some(["t".to_string()].into()),
        owned: Some(Partitions::new()),
        ..Beat::default()
    }
}

fn partitions(t: &[i32]) -> Partitions {
    if t.is_empty() { Partitions::new() } else { Partitions::from([(T, t.iter().copied().collect())]) }
}

impl ConsumerGroup {
    fn beats(&mut self, beat: &Beat, catalogue: &Catalogue) -> Result<(), i16> {
        let mut next = self.clone();
        next.beat(beat, catalogue, usize::MAX).map_err(|error| error.code())?;
        *self = next;
        Ok(())
    }

    /// A heartbeat in the epoch that the member has, with what it owns.
    fn alive(&mut self, member_id: &str, owned: Option<&[i32]>, catalogue: &Catalogue) {
        let beat = Beat {
            member_id: member_id.to_string(),
            epoch: self.members[member_id].epoch,
            owned: owned.map(partitions),
            ..Beat::default()
        };
        self.beats(&beat, catalogue).unwrap();
    }

    /// Epoch, progress and assignment of a member.
    fn of(&self, member_id: &str) -> (i32, Progress, Vec<i32>) {
        let member = &self.members[member_id];
        (member.epoch, member.progress, member.assigned.get(&T).into_iter().flatten().copied().collect())
    }
}

use Progress::{Stable, UnreleasedPartitions, UnrevokedPartitions};

#[test]
fn a_partition_is_given_on_once_its_owner_says_that_it_gave_it_up() {
    let (mut group, four) = (ConsumerGroup::default(), topics(4, 0));
    assert_eq!(group.state_name(), "Empty");
    group.beats(&comes_in("a"), &four).unwrap();
    assert_eq!((group.epoch, group.of("a")), (1, (1, Stable, vec![0, 1, 2, 3])));
    group.beats(&comes_in("b"), &four).unwrap();
    assert_eq!((group.epoch, group.of("b")), (2, (2, UnreleasedPartitions, vec![])));
    assert_eq!(group.state_name(), "Reconciling");

    group.alive("a", None, &four);
    assert_eq!(group.of("a"), (1, UnrevokedPartitions, vec![0, 1]));
    let revoking = group.members["a"].revoking.clone();
    assert_eq!(revoking, partitions(&[2, 3]));
    let wanted = Timer::Revocation { member_id: "a".into(), epoch: 1 };
    assert_eq!(group.timers(45_000)[&wanted], Duration::from_secs(60));
    group.alive("b", Some(&[]), &four);
    group.alive("a", Some(&[0, 1, 2]), &four);
    assert_eq!((group.of("a"), group.of("b").2), ((1, UnrevokedPartitions, vec![0, 1]), vec![]));

    group.alive("a", Some(&[0, 1]), &four);
    assert_eq!(group.of("a"), (2, Stable, vec![0, 1]));
    group.alive("b", None, &four);
    assert_eq!((group.of("b"), group.state_name()), ((2, Stable, vec![2, 3]), "Stable"));
    let had = |member_id: &str, partition, epoch| group.members[member_id].has_had(&T, partition, epoch);
    assert_eq!((had("a", 0, 1), had("a", 0, 0), had("a", 2, 1)), (true, false, false), "since it came in");
    assert_eq!((had("b", 2, 2), had("b", 2, 1)), (true, false), "since it was given up by the other");
    let before = group.clone();
    group.alive("b", None, &four);
    group.alive("a", Some(&[0, 1]), &four);
    assert_eq!(group, before, "a heartbeat that changes nothing");
}

#[test]
fn who_leaves_or_falls_silent_leaves_its_partitions_free() {
    let (mut group, four) = (ConsumerGroup::default(), topics(4, 0));
    for name in ["a", "b", "c"] {
        group.beats(&comes_in(name), &four).unwrap();
    }
    assert_eq!(group.bow_out("x", None, -1), Err(ResponseError::UnknownMemberId));
    group.bow_out("a", None, -1).unwrap();
    assert_eq!((group.epoch, group.assignment_epoch, group.state_name()), (4, 3, "Assigning"));
    let session = Timer::Session { member_id: "b".into(), generation: 0, is_new: false };
    assert_eq!(group.timers(45_000)[&session], Duration::from_secs(45));
    group.elapse(&session);
    assert_eq!((group.epoch, group.members.len()), (5, 1));
    group.alive("c", None, &four);
    assert_eq!(group.of("c"), (5, Stable, vec![0, 1, 2, 3]));
    group.bow_out("c", None, -1).unwrap();
    assert_eq!((group.state_name(), group.timers(1).len()), ("Empty", 0));
}

#[test]
fn epochs_fence_who_missed_something() {
    let (mut group, four) = (ConsumerGroup::default(), topics(4, 0));
    group.beats(&comes_in("a"), &four).unwrap();
    let with = |epoch, owned: Option<&[i32]>| Beat {
        member_id: "a".into(),
        epoch,
        owned: owned.map(partitions),
        ..Beat::default()
    };
    assert_eq!(group.beats(&with(2, None), &four), Err(110));
    assert_eq!(group.beats(&Beat { member_id: "x".into(), ..with(1, None) }, &four), Err(25));
    for _ in 0..2 {
        group.beats(&comes_in("b"), &four).unwrap();
        group.alive("a", Some(&[0, 1]), &four);
        group.bow_out("b", None, -1).unwrap();
        group.alive("a", Some(&[0, 1]), &four);
    }
    let (epoch, previous) = (group.members["a"].epoch, group.members["a"].previous_epoch);
    assert!(previous > 1 && epoch > previous);
    assert_eq!(group.beats(&with(previous, None), &four), Err(110), "it does not say what it has");
    assert_eq!(group.beats(&with(previous, Some(&[9])), &four), Err(110), "what it was not given");
    assert_eq!(group.beats(&with(previous, Some(&[1])), &four), Ok(()), "its last answer was lost");
    assert_eq!(group.beats(&with(previous - 1, Some(&[])), &four), Err(110));
    assert_eq!(group.beats(&comes_in("a"), &four), Ok(()), "it gave everything up and comes in again");
}

#[test]
fn a_static_member_keeps_its_partitions_while_it_is_away() {
    let (mut group, four) = (ConsumerGroup::default(), topics(4, 0));
    let fixed = |member_id: &str| Beat { instance_id: Some("i".into()), ..comes_in(member_id) };
    group.beats(&fixed("s1"), &four).unwrap();
    group.beats(&comes_in("b"), &four).unwrap();
    let owned = Beat { epoch: 1, owned: Some(partitions(&[0, 1])), ..fixed("s1") };
    group.beats(&owned, &four).unwrap();
    assert_eq!(group.of("s1"), (2, Stable, vec![0, 1]));
    group.alive("b", None, &four);
    assert_eq!(group.beats(&fixed("s2"), &four), Err(111), "the instance id is not released");
    assert_eq!(group.bow_out("s2", Some("i"), AWAY), Err(ResponseError::FencedInstanceId));
    assert_eq!(group.bow_out("s1", Some("x"), AWAY), Err(ResponseError::UnknownMemberId));
    group.bow_out("s1", Some("i"), AWAY).unwrap();
    let (epoch, had) = (group.epoch, group.members["s1"].assigned.clone());
    assert_eq!(group.members["s1"].epoch, AWAY);
    group.alive("b", None, &four);
    assert_eq!(group.members["b"].assigned, partitions(&[2, 3]), "nothing of the other's");
    group.beats(&fixed("s2"), &four).unwrap();
    assert_eq!((group.epoch, &group.members["s2"].assigned), (epoch, &had));
    assert_eq!((group.members.contains_key("s1"), group.of("s2").0), (false, epoch));
    assert_eq!(group.beats(&fixed("s2"), &four), Ok(()), "the same heartbeat, its answer lost");
    assert_eq!(group.beats(&Beat { epoch: 1, ..fixed("s1") }, &four), Err(82));
    assert_eq!(group.beats(&Beat { epoch: 1, instance_id: Some("x".into()), ..fixed("y") }, &four), Err(25));
}

#[test]
fn topics_that_come_grow_or_go_move_the_epoch() {
    let mut group = ConsumerGroup::default();
    let both = Beat { names: Some(["t".to_string(), "u".to_string()].into()), ..comes_in("a") };
    group.beats(&both, &topics(2, 0)).unwrap();
    assert_eq!((group.epoch, group.is_subscribed("t"), group.is_subscribed("u")), (1, true, false));
    group.alive("a", None, &topics(2, 1));
    assert_eq!((group.epoch, group.members["a"].assigned.len()), (2, 2));
    group.alive("a", None, &topics(3, 1));
    assert_eq!((group.epoch, group.of("a")), (3, (3, Stable, vec![0, 1, 2])));
    group.alive("a", None, &topics(0, 1));
    assert_eq!((group.epoch, group.of("a")), (4, (3, UnrevokedPartitions, vec![])));
    let gone = Beat {
        member_id: "a".into(),
        epoch: 3,
        owned: Some(Partitions::from([(U, [0].into())])),
        ..Beat::default()
    };
    group.beats(&gone, &topics(0, 1)).unwrap();
    assert_eq!(group.of("a"), (4, Stable, vec![]));
}

#[test]
fn a_pattern_names_whole_topics() {
    let mut group = ConsumerGroup::default();
    let by = |pattern: &str| Beat { names: None, pattern: Some(pattern.into()), ..comes_in("a") };
    assert_eq!(group.beats(&by("("), &topics(2, 2)), Err(128));
    assert_eq!(group.beats(&by(&"a".repeat(1_025)), &topics(2, 2)), Err(128));
    group.beats(&by("[tv]"), &topics(2, 2)).unwrap();
    assert_eq!((group.names(), group.members["a"].assigned.len()), (None, 1));
    group.beats(&Beat { epoch: 1, ..by("t|") }, &topics(2, 2)).unwrap();
    assert_eq!((group.epoch, group.members["a"].assigned.len()), (2, 1));
    group.beats(&Beat { epoch: 2, names: Some(["u".to_string()].into()), ..by("t") }, &topics(2, 2)).unwrap();
    assert_eq!((group.epoch, group.members["a"].assigned.len()), (3, 2), "names and pattern together");
    let beat = Beat { epoch: 3, names: Some(BTreeSet::new()), owned: Some(Partitions::new()), ..by("") };
    group.beats(&beat, &topics(2, 2)).unwrap();
    assert_eq!((group.names(), group.of("a")), (Some(BTreeSet::new()), (4, Stable, vec![])));
}

#[test]
fn the_assignor_is_what_most_members_want() {
    let (mut group, four) = (ConsumerGroup::default(), topics(4, 0));
    assert_eq!(group.assignor(), Assignor::Uniform);
    for (name, assignor) in [("a", None), ("b", Some(Assignor::Range))] {
        group.beats(&Beat { assignor, ..comes_in(name) }, &four).unwrap();
    }
    assert_eq!((group.assignor(), group.epoch), (Assignor::Range, 2));
    let change =
        Beat { member_id: "b".into(), epoch: 2, assignor: Some(Assignor::Uniform), ..Beat::default() };
    group.beats(&change, &four).unwrap();
    assert_eq!((group.assignor(), group.epoch), (Assignor::Uniform, 3));
    assert_eq!(group.clone().beat(&comes_in("c"), &four, 2), Err(ResponseError::GroupMaxSizeReached));
    assert_eq!(group.clone().beat(&comes_in("b"), &four, 2), Ok(()));
}

#[test]
fn who_gives_nothing_up_in_time_is_out() {
    let (mut group, four) = (ConsumerGroup::default(), topics(4, 0));
    group.beats(&comes_in("a"), &four).unwrap();
    group.beats(&comes_in("b"), &four).unwrap();
    group.alive("a", None, &four);
    group.elapse(&Timer::Revocation { member_id: "a".into(), epoch: 1 });
    group.alive("b", None, &four);
    assert_eq!((group.epoch, group.of("b")), (3, (3, Stable, vec![0, 1, 2, 3])));
}

/// A client as it should be: it has what it was told, and says so.
#[derive(Clone, Default)]
struct Client {
    epoch: i32,
    owned: Partitions,
}

proptest! {
    #[test]
    fn no_partition_is_ever_anybody_elses(
        steps in prop::collection::vec((0usize..4, 0u8..8, any::<bool>()), 1..80),
        assignor in prop::option::of(prop::sample::select(vec![Assignor::Range, Assignor::Uniform])),
    ) {
        let (mut group, mut clients) = (ConsumerGroup::default(), BTreeMap::<String, Client>::new());
        let mut catalogue = topics(5, 2);
        let names = ["a", "b", "c", "d"];
        let beat = |group: &mut ConsumerGroup, clients: &mut BTreeMap<String, Client>, name: &str, catalogue: &Catalogue, answered: bool| {
            let known = clients.get(name).filter(|_| group.members.contains_key(name)).cloned();
            let both = Some(["t".to_string(), "u".to_string()].into());
            let beat = match known {
                Some(client) => Beat { epoch: client.epoch, owned: Some(client.owned), ..comes_in(name) },
                None => Beat { assignor, names: both.clone(), ..comes_in(name) },
            };
            let beat = Beat { names: both, ..beat };
            if group.beats(&beat, catalogue).is_err() {
                clients.remove(name);
                group.bow_out(name, None, -1).unwrap();
            } else if answered {
                let member = &group.members[name];
                clients.insert(name.to_string(), Client { epoch: member.epoch, owned: member.assigned.clone() });
            } else if !clients.contains_key(name) {
                clients.insert(name.to_string(), Client::default());
            }
        };
        let whole = |group: &ConsumerGroup, clients: &BTreeMap<String, Client>| -> Result<(), TestCaseError> {
            let mut held = BTreeMap::new();
            for (id, member) in &group.members {
                for (topic, partitions) in member.assigned.iter().chain(&member.revoking) {
                    for n in partitions {
                        prop_assert!(held.insert((*topic, *n), id).is_none(), "two have {n}: {group:#?}");
                    }
                }
            }
            for member in group.members.values() {
                let (mut known, mut has) = (BTreeSet::new(), BTreeSet::new());
                for (topic, since) in &member.since {
                    known.extend(since.keys().map(|n| (*topic, *n)));
                }
                for (topic, partitions) in member.assigned.iter().chain(&member.revoking) {
                    has.extend(partitions.iter().map(|n| (*topic, *n)));
                }
                prop_assert_eq!(known, has, "{:#?}", group);
            }
            for (id, client) in clients.iter().filter(|(id, _)| group.members.contains_key(*id)) {
                for (topic, partitions) in &client.owned {
                    for n in partitions {
                        let holder = held.get(&(*topic, *n)).copied();
                        prop_assert!(holder.is_none_or(|holder| holder == id), "{id} still has {n}: {group:#?}");
                    }
                }
            }
            Ok(())
        };
        for (who, kind, answered) in steps {
            let name = names[who];
            let epoch = group.epoch;
            match kind {
                0 if group.members.contains_key(name) => {
                    group.bow_out(name, None, -1).unwrap();
                    clients.remove(name);
                }
                1 => catalogue = topics(5 + who as i32, if answered { 2 } else { 0 }),
                _ => beat(&mut group, &mut clients, name, &catalogue, answered),
            }
            prop_assert!(group.epoch >= epoch);
            whole(&group, &clients)?;
        }
        for _ in 0..6 {
            for name in names.iter().filter(|name| group.members.contains_key(**name)).copied().collect::<Vec<_>>() {
                beat(&mut group, &mut clients, name, &catalogue, true);
                whole(&group, &clients)?;
            }
        }
        if !group.members.is_empty() {
            prop_assert_eq!(group.state_name(), "Stable", "{:#?}", group);
            let given: usize = group.members.values().flat_map(|member| member.assigned.values()).map(BTreeSet::len).sum();
            let there: i32 = catalogue.found.values().map(|topic| topic.partitions).sum();
            prop_assert_eq!(given as i32, there);
        }
    }
}
