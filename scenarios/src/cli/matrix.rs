//! `wavetank matrix`

use super::matrix_html;
use super::options;
use super::{CliResult, Ending, Unusable, seeds};
use indicatif::ProgressBar;
use scenarios::explore;
use scenarios::matrix::{COLUMNS, Column, Counts, GROUNDS, Ground, upper_bound};
use scenarios::{Keep, Mechanism};
use std::ops::Range;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The seeds of every cell, as A..B
    #[arg(long, value_name = "A..B", default_value = "0..1000", value_parser = options::seeds)]
    seeds: Range<u64>,
    /// Only these columns, by name
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    columns: Vec<String>,
    /// Beside the counts, try every schedule of one stale copy with each remedy
    #[arg(long)]
    explore: bool,
    /// Print one JSON object a cell
    #[arg(long)]
    json: bool,
    /// Write the table as a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Seeds to run at the same time
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// One row of the table, as text.
pub(super) struct Row {
    pub(super) title: String,
    /// By column.
    pub(super) cells: Vec<Cell>,
}

/// One cell.
pub(super) struct Cell {
    pub(super) text: String,
    /// Something was at work, or went wrong.
    pub(super) is_hit: bool,
    /// The command that counts it.
    pub(super) command: String,
}

/// A column and what was counted in it, by ground.
struct Counted {
    column: &'static Column,
    counts: Vec<Counts>,
    explored: Option<Explored>,
}

struct Explored {
    schedules: usize,
    harm: usize,
}

pub(super) fn run(args: &Args) -> CliResult {
    let columns = chosen(&args.columns)?;
    let jobs = args.jobs.unwrap_or_else(seeds::default_jobs).max(1);
    let mut counted = count(&columns, &args.seeds, jobs);
    if args.explore {
        for column in &mut counted {
            column.explored = Some(explored(column.column, jobs)?);
        }
    }
    let rows = rows(&counted, &args.seeds);
    match args.json {
        true => print_json(&counted, &args.seeds),
        false => print_text(&counted, &rows, &args.seeds),
    }
    if let Some(file) = &args.html {
        let titles: Vec<&str> = columns.iter().map(|column| column.words).collect();
        let page = matrix_html::page(&titles, &rows, &args.seeds);
        options::write_file("--html", file, &page)?;
    }
    let expected = counted.iter().all(is_expected);
    if !args.json {
        say!("expected: {}", if expected { "yes" } else { "NO" });
    }
    Ok(if expected { Ending::Expected } else { Ending::Unexpected })
}

fn chosen(names: &[String]) -> Result<Vec<&'static Column>, Unusable> {
    if names.is_empty() {
        return Ok(COLUMNS.iter().collect());
    }
    let find = |name: &String| {
        let known: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        COLUMNS.iter().find(|column| column.name == name).ok_or_else(|| {
            Unusable::new(format!("--columns: there is no column {name}: use one of {}", known.join(", ")))
        })
    };
    names.iter().map(find).collect()
}

/// Runs every cell with the same seeds.
fn count(columns: &[&'static Column], range: &Range<u64>, jobs: usize) -> Vec<Counted> {
    let new = |column: &&'static Column| Counted {
        column,
        counts: vec![Counts::default(); GROUNDS.len()],
        explored: None,
    };
    let mut counted: Vec<Counted> = columns.iter().map(new).collect();
    let seeds_each = range.end - range.start;
    let cells = columns
        .iter()
        .flat_map(|column| GROUNDS.iter().map(|ground| (ground.scenario(), ground.world(column))));
    let worlds: Vec<_> = cells.collect();
    let runs = worlds.len() as u64 * seeds_each;
    let progress = ProgressBar::new(runs);
    let at = |run: u64| ((run / seeds_each) as usize, range.start + run % seeds_each);
    let execute = |run| {
        let (world, seed) = at(run);
        let (scenario, config) = &worlds[world];
        scenarios::execute(&(scenario.plan)(seed, config), Keep::Events)
    };
    seeds::run(0..runs, jobs, execute, |run, outcome| {
        let (world, seed) = at(run);
        counted[world / GROUNDS.len()].counts[world % GROUNDS.len()].add(seed, &outcome);
        progress.inc(1);
        true
    });
    progress.finish_and_clear();
    counted
}

/// Every schedule of one stale copy.
fn explored(column: &Column, jobs: usize) -> Result<Explored, Unusable> {
    let mut world = (options::scenario("three-transactions")?.config)();
    let switches: Vec<String> = column.switches.iter().map(ToString::to_string).collect();
    options::switch_on(&mut world, &switches)?;
    let (schedules, _) = explore::schedules(&world);
    let mut harm = 0;
    let execute = |n| scenarios::execute(&schedules[n as usize].plan, Keep::Events);
    seeds::run(0..schedules.len() as u64, jobs, execute, |n, outcome| {
        let class = schedules[n as usize].class(&outcome);
        harm += usize::from(!class.signature.is_empty() && !class.is_exempt());
        true
    });
    Ok(Explored { schedules: schedules.len(), harm })
}

fn is_expected(counted: &Counted) -> bool {
    let safe = counted.explored.as_ref().is_none_or(|explored| explored.harm == 0);
    counted.counts.iter().all(|counts| counts.is_expected(counted.column))
        && (safe || !counted.column.promises_safety)
}

fn rows(counted: &[Counted], range: &Range<u64>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, ground) in GROUNDS.iter().enumerate() {
        for mechanism in ground.rows() {
            let cells = counted.iter().map(|column| {
                let count = column.counts[at].of(mechanism);
                cell(count, column.counts[at].seeds, command(ground, column.column, range))
            });
            rows.push(Row {
                title: format!("({}) {mechanism}", mechanism.finding()),
                cells: cells.collect(),
            });
        }
    }
    let unexplained = counted.iter().map(|column| {
        let count: usize = column.counts.iter().map(|counts| counts.unexplained.len()).sum();
        Cell {
            text: count.to_string(),
            is_hit: count > 0,
            command: command(&GROUNDS[0], column.column, range),
        }
    });
    rows.push(Row { title: "unexplained".into(), cells: unexplained.collect() });
    if counted.iter().any(|column| column.explored.is_some()) {
        let cells = counted.iter().map(|column| {
            let (schedules, harm) =
                column.explored.as_ref().map_or((0, 0), |explored| (explored.schedules, explored.harm));
            let text =
                if harm == 0 { format!("none of {schedules}") } else { format!("{harm} of {schedules}") };
            let with: String = column.column.switches.iter().map(|name| format!(" --with {name}")).collect();
            Cell { text, is_hit: harm > 0, command: format!("wavetank explore{with}") }
        });
        rows.push(Row { title: "harm among all schedules of one stale copy".into(), cells: cells.collect() });
    }
    rows
}

/// A count, and what it bounds: never "proven".
fn cell(count: u64, seeds: u64, command: String) -> Cell {
    let bound = upper_bound(count, seeds) * 100.0;
    Cell { text: format!("{count}/{seeds} <{bound:.1}%"), is_hit: count > 0, command }
}

fn command(ground: &Ground, column: &Column, range: &Range<u64>) -> String {
    let with: String = ground.switches_with(column).iter().map(|name| format!(" --with {name}")).collect();
    format!("wavetank run {}{with} --seeds {}..{}", ground.scenario, range.start, range.end)
}

fn print_text(counted: &[Counted], rows: &[Row], range: &Range<u64>) {
    say!(
        "seeds {}..{} in every cell: count / seeds, and the upper end of the 95 % interval",
        range.start,
        range.end
    );
    for (letter, column) in ('a'..).zip(counted) {
        say!("  {letter}  {}", column.column.words);
    }
    let title = rows.iter().map(|row| row.title.chars().count()).max().unwrap_or_default();
    let width = rows.iter().flat_map(|row| &row.cells).map(|cell| cell.text.len()).max().unwrap_or_default();
    let letters: Vec<String> =
        ('a'..).take(counted.len()).map(|letter| format!("{letter:>width$}")).collect();
    say!("{:title$}  {}", "", letters.join("  "));
    for row in rows {
        let cells: Vec<String> = row.cells.iter().map(|cell| format!("{:>width$}", cell.text)).collect();
        say!("{:title$}  {}", row.title, cells.join("  "));
    }
    let mut unexplained = 0;
    for column in counted {
        for (ground, counts) in GROUNDS.iter().zip(&column.counts) {
            unexplained += counts.unexplained.len();
            for (seed, what) in counts.unexplained.iter().take(3) {
                say!("UNEXPLAINED  {what}: {}", command(ground, column.column, &(*seed..seed + 1)));
            }
            for (seed, what) in counts.broken.iter().take(3) {
                say!("BROKEN  {what}: {}", command(ground, column.column, &(*seed..seed + 1)));
            }
        }
    }
    say!("unexplained: {unexplained}");
}

fn print_json(counted: &[Counted], range: &Range<u64>) {
    for column in counted {
        for (ground, counts) in GROUNDS.iter().zip(&column.counts) {
            for row in ground.rows() {
                say!("{}", json_cell(row, ground, column, counts, range));
            }
        }
        let residual = |of: fn(&Counts) -> &Vec<(u64, String)>| {
            let by_ground = GROUNDS.iter().zip(&column.counts);
            let all = by_ground.flat_map(|(ground, counts)| {
                of(counts).iter().map(|(seed, what)| {
                    serde_json::json!({"what": what, "command": command(ground, column.column, &(*seed..seed + 1))})
                })
            });
            all.collect::<Vec<_>>()
        };
        let mut residual = serde_json::json!({
            "column": column.column.name,
            "unexplained": residual(|counts| &counts.unexplained),
            "broken": residual(|counts| &counts.broken),
            "expected": is_expected(column),
        });
        if let Some(explored) = &column.explored {
            residual["schedules"] = explored.schedules.into();
            residual["schedules_harmful"] = explored.harm.into();
        }
        say!("{residual}");
    }
}

fn json_cell(
    row: Mechanism,
    ground: &Ground,
    column: &Counted,
    counts: &Counts,
    range: &Range<u64>,
) -> serde_json::Value {
    serde_json::json!({
        "row": row.name(), "finding": row.finding(), "column": column.column.name, "count": counts.of(row),
        "seeds": counts.seeds, "upper_95": upper_bound(counts.of(row), counts.seeds),
        "command": command(ground, column.column, range),
    })
}
