//! Recordings: those of the repository still show what they recorded, and one made now replays byte for byte.

mod support;

use scenarios::{Keep, Recording};
use std::path::Path;

#[test]
fn every_recording_of_the_repository_shows_its_signature() {
    let recordings = support::recordings();
    assert!(recordings.len() >= 3, "{} recordings", recordings.len());
    for (path, recording) in recordings {
        scenarios::validate(&recording.plan)
            .unwrap_or_else(|problem| panic!("{}: {problem}", path.display()));
        let outcome = scenarios::execute(&recording.plan, Keep::Story);
        let comparison = scenarios::compare(&recording, &outcome);
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        assert!(
            comparison.as_recorded && outcome.vacuous.is_empty(),
            "{}: {}; recorded {:?}, shown {:?}\n{}",
            path.display(),
            comparison.words,
            recording.signature,
            outcome.signature,
            support::explain(&recording.plan, &outcome, &name, recording.plan.seed)
        );
    }
}

#[test]
fn a_recording_made_now_replays_byte_for_byte() {
    for scenario in scenarios::all() {
        let mut config = (scenario.config)();
        if let Some(queue) = &mut config.queue {
            // The trace is kept whole below.
            queue.until_ms = queue.until_ms.min(6_000);
        }
        let plan = (scenario.plan)(5, &config);
        let outcome = scenarios::execute(&plan, Keep::Events);
        let signature = outcome.signature.iter().cloned().collect();
        let text = Recording::new(plan, signature, outcome.fingerprint).to_json();
        let recording = Recording::parse(Path::new("now.json"), &text).expect("just written");
        scenarios::validate(&recording.plan).unwrap_or_else(|problem| panic!("{}: {problem}", scenario.name));
        let again = scenarios::execute(&recording.plan, Keep::Everything);
        assert_eq!(again.fingerprint, outcome.fingerprint, "{}", scenario.name);
        assert!(scenarios::compare(&recording, &again).as_recorded);
    }
}

#[test]
fn another_trace_of_the_same_build_and_plan_is_called_nondeterminism() {
    let scenario = scenarios::find("torn-transaction").expect("known");
    let plan = (scenario.plan)(1, &(scenario.config)());
    let outcome = scenarios::execute(&plan, Keep::Events);
    let signature: Vec<_> = outcome.signature.iter().cloned().collect();
    let mut recording = Recording::new(plan, signature, sim::trace::Fingerprint(1));
    assert!(!scenarios::compare(&recording, &outcome).as_recorded);
    recording.build = "another".into();
    let comparison = scenarios::compare(&recording, &outcome);
    assert!(comparison.as_recorded && comparison.words.contains("another build"), "{comparison:?}");
}

#[test]
fn a_plan_that_does_not_fit_its_world_is_refused_with_field_and_remedy() {
    let (_, recording) = support::recordings().into_iter().next().expect("a recording");
    let refuse = |edit: &dyn Fn(&mut scenarios::Plan)| {
        let mut plan = recording.plan.clone();
        edit(&mut plan);
        scenarios::validate(&plan).expect_err("refused")
    };
    let unknown = refuse(&|plan| plan.scenario = "torn".into());
    assert!(unknown.starts_with("plan.scenario: no scenario is called torn"), "{unknown}");
    let pause = sim::fault::Fault::Pause { node: "agent-9".into(), for_ms: 1 };
    let fault = sim::fault::Scheduled { id: 99, when: sim::fault::When::AtMs(1), fault: pause };
    let node = refuse(&|plan| plan.faults = vec![fault.clone()]);
    assert!(node.starts_with("plan.faults[0]: no node is called agent-9: use one of"), "{node}");
    let key = refuse(&|plan| plan.config.partitions = 1);
    assert!(key.starts_with("plan.operations: key 1 needs more than 1 partitions"), "{key}");
    let net = refuse(&|plan| plan.config.net.loss_probability = 2.0);
    assert!(net.starts_with("plan.config.net: loss_probability is 2"), "{net}");
    let worker = refuse(&|plan| {
        plan.operations.insert("agent-1".into(), Vec::new());
    });
    assert!(worker.starts_with("plan.operations: agent-1 is the name of another node"), "{worker}");
}
