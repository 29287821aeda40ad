//! What helps against a late EndTxn (finding 9), by where it spends its time: on its way to the agent, in the socket of an agent
//! that is paused, or in an agent that has read it. `WAVETANK_SEED=N` and `WAVETANK_SEEDS=A..B` choose the seeds.

mod support;

use scenarios::matrix::{COLUMNS, GROUNDS};
use scenarios::{Config, Keep, Mechanism, Plan, Scenario};
use sim::fault::{Fault, FramePattern, Scheduled, When};
use support::seeds;

/// The second transaction's EndTxn, as the script of finding 9 holds it.
const LATE: &str = "EndTxn commit id=jt1 txn=2";
/// Longer than the client waits for an answer, and not so long that the third transaction is over, in milliseconds.
const PAUSE_MS: u64 = 3_350;

fn scenario() -> &'static Scenario {
    scenarios::find("torn-transaction").expect("the script of finding 9")
}

fn world(switch: Option<&'static str>) -> Config {
    let mut config = (scenario().config)();
    if let Some(name) = switch {
        let switch = scenarios::switches().iter().find(|known| known.name == name).expect("a known switch");
        (switch.apply)(&mut config);
    }
    config
}

/// Where the request is late.
#[derive(Clone, Copy, Debug)]
enum Place {
    OnItsWay,
    InTheSocket,
    InTheAgent,
}

fn plan(seed: u64, world: &Config, place: Place) -> Plan {
    let mut plan = (scenario().plan)(seed, world);
    let frame = FramePattern::words(LATE);
    let pause = |when| {
        let agent = agent_of(&plan);
        vec![Scheduled { id: 1, when, fault: Fault::Pause { node: agent, for_ms: PAUSE_MS } }]
    };
    plan.faults = match place {
        Place::OnItsWay => return plan,
        Place::InTheSocket => pause(When::Frame(frame)),
        // The first transaction's end comes there first.
        Place::InTheAgent => {
            pause(When::Point { node: Some(agent_of(&plan)), point: "end-txn.before-commit".into(), nth: 2 })
        }
    };
    plan
}

/// The agent to which the second transaction's EndTxn goes, which is that of the first one's: the client stays with its coordinator.
fn agent_of(plan: &Plan) -> String {
    let outcome = scenarios::execute(&Plan { faults: vec![], ..plan.clone() }, Keep::Story);
    let frames = outcome.trace.iter().filter(|entry| entry.name == "net.frame");
    let sent =
        frames.filter(|entry| LATE.split(' ').all(|word| entry.text("label").split(' ').any(|w| w == word)));
    let to: Vec<String> = sent.map(|entry| entry.text("to")).collect();
    assert_eq!(to.len(), 1, "without trouble it is sent once");
    to[0].clone()
}

#[test]
fn the_revision_clock_orders_what_agents_do_and_a_number_everything() {
    // Without a remedy, with the clock's stamp taken when the request is read, with the last one known, with a number. What an agent
    // knew last depends on who else talks to it: on the way it may help.
    let remedies = [None, Some("revision-clock"), Some("revision-clock-last-known"), Some("numbered")];
    for (place, torn) in [
        (Place::OnItsWay, [Some(true), Some(true), None, Some(false)]),
        (Place::InTheSocket, [Some(true), Some(true), Some(false), Some(false)]),
        (Place::InTheAgent, [Some(true), Some(false), Some(false), Some(false)]),
    ] {
        for (remedy, torn) in remedies.into_iter().zip(torn) {
            for seed in seeds(1..11).0 {
                let outcome = scenarios::execute(&plan(seed, &world(remedy), place), Keep::Events);
                assert_eq!(
                    (&outcome.failures, &outcome.vacuous),
                    (&vec![], &vec![]),
                    "{place:?} {remedy:?} {seed}"
                );
                let is_torn = outcome.signature.contains("torn-transaction");
                assert_eq!(
                    is_torn,
                    torn.unwrap_or(is_torn),
                    "{place:?} {remedy:?} {seed}: {:?}",
                    outcome.anomalies
                );
                assert!(
                    is_torn || outcome.signature.is_empty(),
                    "{place:?} {remedy:?} {seed}: {:?}",
                    outcome.anomalies
                );
            }
        }
    }
}

/// A small matrix: what nothing leaves is found, explained, and gone where safety is promised.
#[test]
fn remedies_that_promise_safety_leave_nothing_but_fences() {
    let scenario = scenarios::find("stale-requests").expect("the ground of the matrix");
    let mut found: Vec<Mechanism> = Vec::new();
    for column in COLUMNS.iter().filter(|column| column.name == "nothing" || column.promises_safety) {
        for ground in GROUNDS {
            for seed in seeds(0..60).0 {
                let outcome = scenarios::execute(&(scenario.plan)(seed, &ground.world(column)), Keep::Events);
                let attribution = outcome.attribution;
                assert_eq!(attribution.unexplained, Vec::<String>::new(), "{} {seed}", column.name);
                let harmful = attribution.mechanisms.iter().filter(|one| **one != Mechanism::StaleInit);
                assert!(!column.promises_safety || harmful.count() == 0, "{} {seed}", column.name);
                found.extend(attribution.mechanisms);
            }
        }
    }
    found.sort();
    found.dedup();
    assert!(found.len() >= 4, "too little happens for this to mean something: {found:?}");
}
