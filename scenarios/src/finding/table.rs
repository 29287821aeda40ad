//! The catalogue as a table, of runs made now: what `docs/findings.md` holds.

use super::{Class, Finding, all};
use crate::config::Config;
use crate::execute::execute;
use crate::outcome::Outcome;
use sim::trace::Keep;

/// The seed that the table shows.
const SEED: u64 = 1;

/// A table in Markdown: each finding's script, run with seed 1, as it fails and with the fix.
pub fn table() -> String {
    let mut text = String::from(
        "| | finding | class | `wavetank run ... --seed 1` shows | fingerprint | with `--fixed` | what was told of it |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for finding in all() {
        text += &row(finding);
    }
    text
}

fn row(finding: &Finding) -> String {
    let run = |world: &Config| execute(&(finding.scenario.plan)(SEED, world), Keep::Events);
    let failing = run(&finding.world());
    let fixed = finding.fixed_world().map_or("there is no fix".into(), |world| shown(&run(&world)));
    let class = match finding.class {
        Class::Defect { switch } => format!("defect: `{switch}`"),
        class => class.name().to_string(),
    };
    format!(
        "| {} | `{}`: {} | {class} | {} | `{}` | {} | {} |\n",
        finding.id,
        finding.scenario.name,
        finding.title,
        shown(&failing),
        failing.fingerprint,
        fixed,
        finding.echo
    )
}

fn shown(outcome: &Outcome) -> String {
    let names: Vec<String> = outcome.signature.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "nothing".into() } else { names.join(" ") }
}
