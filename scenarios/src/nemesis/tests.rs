//! What is drawn keeps to Jepsen's rules, over many seeds.

use super::flags::FLAGS;
use super::*;
use crate::cluster::{COORDINATOR, STORAGE};
use sim::fault::Fault;
use std::collections::{BTreeMap, BTreeSet};

const SEEDS: u64 = 200;
/// Ten periods.
const UNTIL_MS: u64 = 305_000;
const PERIOD_MS: u64 = 30_000;
const PERIODS: u64 = 10;

fn config() -> Config {
    Config { agents: 5, spare_agents: 1, ..Config::default() }
}

fn drawn(seed: u64, flags: &[&str]) -> Vec<(u64, Fault)> {
    let nemesis = Nemesis::jepsen(packages(flags).expect("flags"), UNTIL_MS);
    by_time(draw(&Choices::new(seed, &[]), &config(), &nemesis))
}

fn by_time(schedule: Vec<Scheduled>) -> Vec<(u64, Fault)> {
    let timed = schedule.into_iter().map(|scheduled| match scheduled.when {
        When::AtMs(at_ms) => (at_ms, scheduled.fault),
        other => panic!("drawn faults strike by time, not at {other:?}"),
    });
    timed.collect()
}

/// Everything at once.
fn everything() -> Vec<&'static str> {
    vec!["partition", "pause", "kill", "clock", "membership"]
}

#[test]
fn nothing_strikes_early_and_everything_is_healed_by_the_end_of_its_period() {
    for seed in 0..SEEDS {
        let mixes = MIXES.iter().map(|mix| mix.to_vec());
        for flags in FLAGS.map(|flag| vec![flag]).into_iter().chain(mixes).chain([everything()]) {
            for (at_ms, fault) in drawn(seed, &flags) {
                assert!(at_ms > 5_000, "seed {seed}, {flags:?}: {fault:?} at {at_ms} ms");
                let period = (at_ms - 5_000 - 1) / PERIOD_MS;
                let end_ms = 5_000 + (period + 1) * PERIOD_MS;
                let healed_ms = at_ms + fault.lasts_ms();
                assert!(
                    period < PERIODS && healed_ms <= end_ms,
                    "seed {seed}, {flags:?}: {fault:?} at {at_ms} ms"
                );
            }
        }
    }
}

#[test]
fn times_can_be_scaled_and_ids_count_up() {
    let all = packages(&everything()).expect("flags");
    let short = |first_id| Nemesis {
        packages: all.clone(),
        from_ms: 200,
        until_ms: 2_000,
        period_ms: 700,
        interval_ms: 200,
        first_id,
    };
    let mut not_empty = 0;
    for seed in 0..SEEDS {
        let choices = Choices::new(seed, &[]);
        let schedule = draw(&choices, &config(), &short(901));
        assert_eq!(schedule, draw(&choices, &config(), &short(901)));
        let ids: Vec<u32> = schedule.iter().map(|scheduled| scheduled.id).collect();
        assert_eq!(ids, (901..901 + ids.len() as u32).collect::<Vec<_>>());
        let other = by_time(draw(&choices, &config(), &short(1)));
        let faults = by_time(schedule);
        assert!(faults.is_empty() || faults != other, "seed {seed}: one draw for two");
        not_empty += usize::from(!faults.is_empty());
        for (at_ms, fault) in faults {
            assert!(at_ms > 200 && at_ms + fault.lasts_ms() <= 2_000, "seed {seed}: {fault:?} at {at_ms} ms");
        }
    }
    assert!(not_empty > 180, "{not_empty} of {SEEDS}");
}

#[test]
fn a_quarter_of_the_periods_is_quiet() {
    for flags in [vec!["kill"], vec!["partition-bufstream"], everything()] {
        let mut busy = BTreeSet::new();
        for seed in 0..SEEDS {
            let faults = drawn(seed, &flags);
            busy.extend(faults.iter().map(|(at_ms, _)| (seed, (at_ms - 5_000 - 1) / PERIOD_MS)));
        }
        let quiet = 100 - 100 * busy.len() as u64 / (SEEDS * PERIODS);
        assert!((15..=35).contains(&quiet), "{flags:?}: {quiet} %");
    }
}

/// Which nodes are struck together, by moment.
fn together(faults: &[(u64, Fault)]) -> BTreeMap<u64, Vec<String>> {
    let mut together: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (at_ms, fault) in faults {
        together.entry(*at_ms).or_default().extend(fault.nodes().into_iter().map(str::to_string));
    }
    together
}

#[test]
fn one_a_majority_or_all_agents_are_killed_and_single_nodes_as_a_whole() {
    for (what, is_kill) in [("kill", true), ("pause", false)] {
        let mut sizes: BTreeMap<usize, u32> = BTreeMap::new();
        for seed in 0..SEEDS {
            let faults = drawn(seed, &[&format!("{what}-bufstream")]);
            assert!(faults.iter().all(|(_, fault)| matches!(fault, Fault::Crash { .. }) == is_kill));
            for (_, nodes) in together(&faults) {
                assert!(nodes.iter().all(|node| config().agent_names().contains(node)));
                *sizes.entry(nodes.len()).or_default() += 1;
            }
            for (role, node) in [("storage", STORAGE), ("coordination", COORDINATOR)] {
                let faults = drawn(seed, &[&format!("{what}-{role}")]);
                assert!(faults.iter().all(|(_, fault)| fault.nodes() == [node]));
            }
        }
        assert_eq!(sizes.keys().copied().collect::<Vec<_>>(), [1, 3, 5], "{what}");
        assert!(sizes.values().all(|count| *count > 400), "{what}: {sizes:?}");
    }
}

#[test]
fn kills_and_pauses_of_a_role_are_mixed_and_each_waits_for_its_own_end() {
    let (mut kills, mut pauses) = (0, 0);
    for seed in 0..SEEDS {
        let (mut killed_ms, mut paused_ms) = ((0, 0), (0, 0));
        for (at_ms, fault) in drawn(seed, &["kill-bufstream", "pause-bufstream"]) {
            let (count, last) = match fault {
                Fault::Crash { .. } => (&mut kills, &mut killed_ms),
                Fault::Pause { .. } => (&mut pauses, &mut paused_ms),
                other => panic!("neither kill nor pause: {other:?}"),
            };
            let (last_ms, until_ms) = *last;
            assert!(at_ms == last_ms || at_ms > until_ms, "seed {seed}: on at {at_ms}, off at {until_ms}");
            *last = (at_ms, at_ms + fault.lasts_ms());
            *count += 1;
        }
    }
    assert!(kills > 1_000 && pauses > 1_000, "{kills} kills, {pauses} pauses");
}

#[test]
fn agents_are_parted_from_each_other_alone_or_in_two_and_one_cut_at_a_time() {
    let mut sizes = BTreeSet::new();
    for seed in 0..SEEDS {
        let mut healed_ms = 0;
        for (at_ms, fault) in drawn(seed, &["partition-bufstream"]) {
            assert!(at_ms > healed_ms, "seed {seed}: cut at {at_ms} ms, healed at {healed_ms} ms");
            healed_ms = at_ms + fault.lasts_ms();
            let Fault::Cut { from, to, both_ways, .. } = fault else { panic!("{fault:?} is no cut") };
            let ends: BTreeSet<String> = from.iter().chain(&to).cloned().collect();
            assert!(both_ways && ends == config().agent_names().into_iter().collect());
            assert_eq!(from.len() + to.len(), 5, "nobody is on both sides");
            sizes.insert(from.len());
        }
    }
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn one_agent_has_nobody_to_be_parted_from() {
    let alone = Config { agents: 1, ..config() };
    let nemesis = Nemesis::jepsen(packages(&["partition-bufstream"]).expect("a flag"), UNTIL_MS);
    assert!((0..SEEDS).all(|seed| draw(&Choices::new(seed, &[]), &alone, &nemesis).is_empty()));
}

#[test]
fn some_agents_are_cut_off_from_one_dependency_and_cuts_pile_up() {
    let mut seen = BTreeSet::new();
    let mut piled = 0;
    for seed in 0..SEEDS {
        let mut healed_ms = 0;
        for (at_ms, fault) in
            drawn(seed, &["partition-bufstream-coordination", "partition-bufstream-storage"])
        {
            piled += usize::from(at_ms < healed_ms);
            healed_ms = at_ms + fault.lasts_ms();
            let Fault::Cut { from, to, both_ways: true, .. } = fault else {
                panic!("{fault:?} is no whole cut")
            };
            assert_eq!(from.len(), 1);
            assert!(!to.is_empty() && to.iter().all(|node| config().agent_names().contains(node)));
            seen.insert((from[0].clone(), to.len()));
        }
        let coordinator = drawn(seed, &["partition-bufstream-coordination"]);
        assert!(coordinator.iter().all(|(_, fault)| fault.nodes()[0] == COORDINATOR));
    }
    let every: BTreeSet<(String, usize)> = [COORDINATOR, STORAGE]
        .into_iter()
        .flat_map(|node| (1..=5).map(move |n| (node.to_string(), n)))
        .collect();
    assert_eq!(seen, every);
    assert!(piled > 400, "{piled}");
}

#[test]
fn clocks_jump_and_strobe_within_bounds_and_are_right_in_the_end() {
    let (mut bumps, mut strobes, mut resets) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut wrong_by_ms: BTreeMap<String, i64> = BTreeMap::new();
        let mut last_period = 0;
        for (at_ms, fault) in drawn(seed, &["clock"]) {
            let period = (at_ms - 5_000 - 1) / PERIOD_MS;
            assert!(period == last_period || wrong_by_ms.is_empty(), "seed {seed}: {wrong_by_ms:?}");
            last_period = period;
            match fault {
                Fault::ClockJump { node, by_ms } => {
                    assert!((11..=287_627).contains(&by_ms.abs()), "{by_ms}");
                    *wrong_by_ms.entry(node).or_default() += by_ms;
                    wrong_by_ms.retain(|_, by_ms| *by_ms != 0);
                    bumps += 1;
                }
                Fault::ClockStrobe { delta_ms, period_ms, for_ms, .. } => {
                    assert!((4..=262_144).contains(&delta_ms) && (1..=1_024).contains(&period_ms));
                    assert!((1..=32_000).contains(&for_ms));
                    strobes += 1;
                }
                Fault::ClockReset { node } => {
                    assert!(wrong_by_ms.remove(&node).is_some(), "seed {seed}: {node}'s clock was right");
                    resets += 1;
                }
                other => panic!("no clock: {other:?}"),
            }
        }
        assert!(wrong_by_ms.is_empty(), "seed {seed}: {wrong_by_ms:?}");
    }
    assert!(bumps > 1_000 && strobes > 1_000 && resets > 1_000, "{bumps} {strobes} {resets}");
}

#[test]
fn one_agent_is_away_at_a_time_and_the_spare_joins_once() {
    let (mut left, mut joined) = (0, 0);
    for seed in 0..SEEDS {
        let (mut back_ms, mut joins) = (0, 0);
        for (at_ms, fault) in drawn(seed, &["membership"]) {
            match fault {
                Fault::Stop { node, restart_after_ms: Some(after_ms) } => {
                    assert!(config().agent_names().contains(&node));
                    assert!(at_ms >= back_ms, "seed {seed}: leaves at {at_ms} ms, back at {back_ms} ms");
                    back_ms = at_ms + after_ms;
                    left += 1;
                }
                Fault::Start { node } => {
                    assert_eq!(node, "agent-6");
                    joins += 1;
                }
                other => panic!("neither leaves nor joins: {other:?}"),
            }
        }
        assert!(joins <= 1);
        joined += joins;
    }
    assert!(left > 1_000 && joined > 100, "{left} left, {joined} joined");
}

#[test]
fn what_is_down_is_not_struck() {
    let (mut strikes, mut downs) = (0, 0);
    for seed in 0..SEEDS {
        let mut up_ms: BTreeMap<String, u64> = BTreeMap::new();
        for (at_ms, fault) in drawn(seed, &everything()) {
            let lasts_ms = fault.lasts_ms();
            let (node, goes_down) = match fault {
                Fault::Pause { node, .. } => (node, false),
                Fault::Crash { node, .. } | Fault::Stop { node, .. } => (node, true),
                _ => continue,
            };
            strikes += 1;
            let up_ms = up_ms.entry(node).or_default();
            assert!(at_ms > *up_ms, "seed {seed}: struck at {at_ms} ms, down until {up_ms} ms");
            if goes_down {
                *up_ms = at_ms + lasts_ms;
                downs += 1;
            }
        }
    }
    assert!(strikes > 5_000 && downs > 2_000, "{strikes} strikes, {downs} of them end a process");
}

#[test]
fn windows_of_trouble_are_those_of_its_faults() {
    let nemesis = Nemesis::jepsen(packages(&["kill-storage"]).expect("a flag"), UNTIL_MS);
    let mut count = 0;
    for seed in 0..SEEDS {
        let schedule = draw(&Choices::new(seed, &[]), &config(), &nemesis);
        let windows = windows(&schedule);
        // One node, one flip-flop: no two overlap.
        let faults = by_time(schedule);
        let expected = faults.iter().map(|(at_ms, fault)| (*at_ms, at_ms + fault.lasts_ms()));
        let expected: Vec<_> = expected.map(|(from, to)| from * 1_000_000..to * 1_000_000).collect();
        assert_eq!(windows, expected);
        count += windows.len();
    }
    assert!(count > 1_000, "{count}");
}

#[test]
fn a_package_draws_the_same_whatever_else_may_be_drawn() {
    // Within one period mixtures differ, draws do not: what both have is the same.
    let (mut shared, mut alone) = (0, 0);
    for seed in 0..SEEDS {
        let cuts = drawn(seed, &["partition-bufstream"]);
        let all = drawn(seed, &["partition-bufstream", "kill-bufstream", "clock-storage"]);
        let parted: Vec<_> = all.iter().filter(|(_, fault)| matches!(fault, Fault::Cut { .. })).collect();
        shared += parted.iter().filter(|cut| cuts.contains(cut)).count();
        alone += parted.iter().filter(|cut| !cuts.contains(cut)).count();
    }
    assert!(shared > 200 && alone == 0, "{shared} shared, {alone} alone");
}

#[test]
fn every_fault_has_an_effect_in_a_run_and_harms_no_strict_client() {
    let ground = &crate::safe_ground::SCENARIO;
    let strict = Config { spare_agents: 1, ..(ground.config)() };
    for seed in 1..=6 {
        let mut plan = (ground.plan)(seed, &strict);
        let nemesis = Nemesis {
            packages: packages(&everything()).expect("flags"),
            from_ms: 2_000,
            until_ms: 15_000,
            period_ms: 3_000,
            interval_ms: 600,
            first_id: 1,
        };
        plan.faults = draw(&Choices::new(seed, &[]), &plan.config, &nemesis);
        crate::validate(&plan).expect("a plan that can be run");
        let outcome = crate::execute(&plan, crate::Keep::Events);
        let idle: Vec<_> = outcome.vacuous.iter().filter(|why| why.contains("had no effect")).collect();
        assert!(idle.is_empty(), "seed {seed}: {idle:?}");
        assert!(outcome.failures.is_empty(), "seed {seed}: {:?}", outcome.failures);
        assert!(outcome.signature.is_empty(), "seed {seed}: {:?}", outcome.anomalies);
    }
}
