//! `wavetank list`

use super::{CliResult, Ending};
use scenarios::Expect;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> CliResult {
    if args.json {
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
        return Ok(Ending::Expected);
    }
    say!("Scenarios (wavetank run NAME)");
    for scenario in scenarios::all() {
        say!("  {:26} {}", scenario.name, scenario.claim);
        say!("  {:26} {}", "", expectation(&(scenario.expect)(&(scenario.config)())));
    }
    say!("\nSwitches (--with SWITCH, may be repeated)");
    for switch in scenarios::switches() {
        say!("  {:26} {}", switch.name, switch.what);
    }
    Ok(Ending::Expected)
}

fn expectation(expect: &Expect) -> String {
    match expect {
        Expect::Shows { must, .. } => format!("every seed shows {}", must.join(", ")),
        Expect::Finds { must, .. } => format!("some seed of a few hundred shows {}", must.join(", ")),
        Expect::Allows { may } => format!("seeds may show {}, and nothing else", may.join(", ")),
        Expect::Clean => "no seed shows anything".into(),
    }
}
