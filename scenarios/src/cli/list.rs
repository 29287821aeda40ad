//! `wavetank list`

use super::{CliResult, Ending};
use scenarios::{Expect, Scenario, finding};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> CliResult {
    if args.json {
        for finding in finding::all() {
            let name = finding.scenario.name;
            say!("{}", serde_json::json!({"finding": finding.id, "name": name, "title": finding.title}));
        }
        for face in finding::faces() {
            say!("{}", serde_json::json!({"finding": 9, "name": face.scenario.name, "row": face.row}));
        }
        for scenario in scenarios::all() {
            let expect = expectation(&(scenario.expect)(&(scenario.config)()));
            say!(
                "{}",
                serde_json::json!({"scenario": scenario.name, "claim": scenario.claim, "expect": expect})
            );
        }
        for switch in scenarios::switches() {
            say!("{}", serde_json::json!({"switch": switch.name, "what": switch.what}));
        }
        for preset in scenarios::presets() {
            say!("{}", serde_json::json!({"build": preset.name, "switches": preset.switches()}));
        }
        return Ok(Ending::Expected);
    }
    say!("Findings (wavetank finding N, wavetank run NAME)");
    for finding in finding::all() {
        say!("  {:>2}  {:24} {}", finding.id, finding.scenario.name, finding.title);
    }
    say!("\nFaces of finding 9, what a late request does (wavetank run NAME)");
    for face in finding::faces() {
        say!("      {:24} {}", face.scenario.name, face.row);
    }
    say!("\nScenarios (wavetank run NAME)");
    let is_face = |name| finding::faces().iter().any(|face| face.scenario.name == name);
    let is_script = |scenario: &&Scenario| finding::named(scenario.name).is_some() || is_face(scenario.name);
    for scenario in scenarios::all().filter(|scenario| !is_script(scenario)) {
        say!("  {:26} {}", scenario.name, scenario.claim);
        say!("  {:26} {}", "", expectation(&(scenario.expect)(&(scenario.config)())));
    }
    say!("\nSwitches (--with SWITCH, may be repeated)");
    for switch in scenarios::switches() {
        say!("  {:26} {}", switch.name, switch.what);
    }
    say!("\nBuilds (--as BUILD: the switches of the defects that Jepsen's report says it had)");
    for preset in scenarios::presets() {
        let switches = preset.switches();
        let switches = if switches.is_empty() { "none".to_string() } else { switches.join(", ") };
        say!("  {:26} {switches}", preset.name);
    }
    Ok(Ending::Expected)
}

pub(super) fn expectation(expect: &Expect) -> String {
    match expect {
        Expect::Shows { must, may: [] } => {
            format!("every seed shows {}, and nothing else", must.join(", "))
        }
        Expect::Shows { must, may } => {
            format!("every seed shows {}, and perhaps {}", must.join(", "), may.join(", "))
        }
        Expect::Finds { must, .. } => format!("some seed of a few hundred shows {}", must.join(", ")),
        Expect::Allows { may } => format!("seeds may show {}, and nothing else", may.join(", ")),
        Expect::Clean => "no seed shows anything".into(),
    }
}
