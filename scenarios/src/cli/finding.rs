//! `wavetank finding`

use super::list::expectation;
use super::{CliResult, Ending, Unusable};
use scenarios::Config;
use scenarios::finding::{self, Blind, Class, Finding};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Its number or its name (see `wavetank list`)
    #[arg(value_name = "N", required_unless_present = "table")]
    which: Option<String>,
    /// Run every script, as it fails and with the fix, and print what they show, as in docs/findings.md
    #[arg(long, conflicts_with_all = ["which", "json"])]
    table: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> CliResult {
    let Some(which) = &args.which else {
        say!("{}", finding::table().trim_end());
        return Ok(Ending::Expected);
    };
    let finding = known(which)?;
    if args.json {
        say!("{}", json(finding))
    } else {
        tell(finding)
    }
    Ok(Ending::Expected)
}

/// The finding of this number or name.
pub(super) fn known(which: &str) -> Result<&'static Finding, Unusable> {
    let by_number = which.parse().ok().and_then(finding::find);
    by_number.or_else(|| finding::named(which)).ok_or_else(|| {
        let known = finding::all().iter().map(|finding| format!("{} {}", finding.id, finding.scenario.name));
        let known = known.collect::<Vec<_>>().join(", ");
        Unusable::new(format!("N: no finding is called {which}: use one of {known}"))
    })
}

fn tell(finding: &Finding) {
    let (name, claim) = (finding.scenario.name, finding.scenario.claim);
    let class = match finding.class {
        Class::Defect { switch } => format!("defect, planted by --with {switch}"),
        class => class.name().to_string(),
    };
    let parts = [
        ("What happened", finding.what.to_string()),
        ("Class", format!("{class}: {}", finding.cause)),
        ("The script", claim.to_string()),
        ("Signature", signature(finding)),
        ("Fix", finding.fix.to_string()),
        ("Echo", finding.echo.to_string()),
        ("Run it", format!("wavetank run {name}")),
        ("Search for it", format!("wavetank blind {}", finding.id)),
        ("By chance", by_chance(&finding.blind)),
    ];
    let fixed = finding.fixed.map(|_| ("With the fix", format!("wavetank run {name} --fixed")));
    say!("Finding {}, {name}: {}\n", finding.id, finding.title);
    for (what, words) in parts.into_iter().chain(fixed) {
        let mut lines = wrap(&words).into_iter();
        say!("{what:14} {}", lines.next().unwrap_or_default());
        lines.for_each(|line| say!("{:14} {line}", ""));
    }
}

/// What every seed shows, as it fails and with the fix.
fn signature(finding: &Finding) -> String {
    let of = |world: &Config| expectation(&(finding.scenario.expect)(world));
    let fixed = finding.fixed_world().map_or(String::new(), |world| format!("; with the fix {}", of(&world)));
    of(&finding.world()) + &fixed
}

/// Where chance finds it, and what a catch is.
fn by_chance(blind: &Blind) -> String {
    let with: String = blind.with.iter().map(|switch| format!(" --with {switch}")).collect();
    let must: Vec<String> = blind.must.iter().map(|list| list.join(" or ")).collect();
    let part = |words: &str, names: &[&str]| match names.is_empty() {
        true => String::new(),
        false => format!("; {words} {}", names.join(", ")),
    };
    format!(
        "in {}{with}; a catch shows {}{}{}{}",
        blind.scenario,
        must.join(" and "),
        part("not", blind.without),
        part("runs may show", blind.may),
        part("with the fix runs may show", blind.left)
    )
}

fn json(finding: &Finding) -> serde_json::Value {
    let switch = match finding.class {
        Class::Defect { switch } => Some(switch),
        Class::Protocol | Class::Configuration => None,
    };
    serde_json::json!({
        "finding": finding.id,
        "scenario": finding.scenario.name,
        "title": finding.title,
        "what": finding.what,
        "class": finding.class.name(),
        "switch": switch,
        "cause": finding.cause,
        "claim": finding.scenario.claim,
        "expect": signature(finding),
        "blind": by_chance(&finding.blind),
        "fix": finding.fix,
        "echo": finding.echo,
    })
}

/// Lines of whole words.
fn wrap(words: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split_whitespace() {
        if lines.last().is_some_and(|line| !line.is_empty() && line.len() + 1 + word.len() > LINE_LENGTH_MAX)
        {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// Beside the names of the parts.
const LINE_LENGTH_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_of_whole_words_and_not_too_long() {
        let words = "one two three ".repeat(40);
        let lines = wrap(&words);
        assert!(lines.len() > 4 && lines.iter().all(|line| line.len() <= LINE_LENGTH_MAX), "{lines:?}");
        assert_eq!(lines.join(" "), words.trim_end());
        assert_eq!(wrap("one"), ["one"]);
    }
}
