//! A case as plain data: steps of two processes, `a` and `b`, on a machine each, troubles that strike them, and what
//! Linux answered.
//!
//! One step a line, its recorded observation behind `=>`. Where the model is known to answer otherwise, that follows
//! behind `| model`, and docs/fidelity-tcp.md says why. What is late has a class and about
//! so many seconds; what chance decides comes `sooner or later`. A number behind the letter tells a process's sockets
//! apart.
//!
//! ```text
//! case TITLE
//!   b listen => ok            b unlisten => ok
//!   a dial => ok              b2 accept => ok
//!   a write 10 => 10          b read 10 => 10            a read all => 20 then end
//!   a shutdown => ok          a close => ok
//!   a read 10 &               begins; the script goes on
//!   a wait read 500 => pending
//!   a wait read 5000 => 10 after retransmission ~1.5s
//!   sleep 500                 a pause b 1000             troubles last so many ms
//!   crash b, crash b restart 500, off b, off b restart 500, off b told (by routers), cut a b 2000, cut both 2000, lose a b 30 2000 (percent)
//! ```

use sim::fault::{Fault, Scheduled, When};
use std::fmt;

/// One of the two processes, and its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    A,
    B,
}

impl Side {
    pub(crate) const BOTH: [Side; 2] = [Side::A, Side::B];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Side::A => "a",
            Side::B => "b",
        }
    }

    pub(crate) fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }

    pub(crate) fn named(name: &str) -> Result<Side, String> {
        Side::BOTH.into_iter().find(|side| side.name() == name).ok_or_else(|| format!("no side {name:?}"))
    }
}

/// What a process asks of its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Listen,
    Unlisten,
    Dial,
    Accept,
    /// Reads until it has so many bytes.
    Read(usize),
    /// Writes so many bytes.
    Write(usize),
    Shutdown,
    /// Gives up what the socket is doing, and closes it.
    Close,
}

/// [`Call::Read`] up to the end of the file.
pub(crate) const ALL: usize = usize::MAX;

impl Call {
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Call::Listen => "listen",
            Call::Unlisten => "unlisten",
            Call::Dial => "dial",
            Call::Accept => "accept",
            Call::Read(_) => "read",
            Call::Write(_) => "write",
            Call::Shutdown => "shutdown",
            Call::Close => "close",
        }
    }

    /// The verb that is spelled so.
    pub(crate) fn named(verb: &str) -> Result<&'static str, String> {
        let number: &[&str] = if matches!(verb, "read" | "write") { &["0"] } else { &[] };
        Ok(Call::parse(&[&[verb], number].concat())?.verb())
    }

    pub(crate) fn parse(words: &[&str]) -> Result<Call, String> {
        let number = |word: &str| match word {
            "all" => Ok(ALL),
            word => word.parse().map_err(|_| format!("no number of bytes: {word:?}")),
        };
        Ok(match words {
            ["listen"] => Call::Listen,
            ["unlisten"] => Call::Unlisten,
            ["dial"] => Call::Dial,
            ["accept"] => Call::Accept,
            ["read", bytes] => Call::Read(number(bytes)?),
            ["write", bytes] => Call::Write(number(bytes)?),
            ["shutdown"] => Call::Shutdown,
            ["close"] => Call::Close,
            _ => return Err(format!("no call: {}", words.join(" "))),
        })
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Read(ALL) => f.write_str("read all"),
            Call::Read(bytes) | Call::Write(bytes) => write!(f, "{} {bytes}", self.verb()),
            call => f.write_str(call.verb()),
        }
    }
}

/// A call of a socket of a side; the verb tells calls on one socket apart.
pub(crate) type CallKey = (Side, u8, &'static str);

#[derive(Clone, Debug)]
pub(crate) enum Act {
    Call {
        side: Side,
        socket: u8,
        call: Call,
        waits: bool,
    },
    Wait {
        key: CallKey,
        limit_ms: u64,
    },
    /// `told`: routers answer for a machine that is off, on Linux.
    Trouble {
        fault: Fault,
        told: bool,
    },
    Sleep {
        ms: u64,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) text: String,
    pub(crate) act: Act,
    /// What Linux answered, and what the model answers.
    pub(crate) recorded: Option<[String; 2]>,
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) title: String,
    pub(crate) steps: Vec<Step>,
}

/// The event by which step `index` calls for its trouble in the tank.
pub(crate) const TROUBLE_EVENT: &str = "script.trouble";

impl Case {
    /// The troubles, each to strike when its step says so.
    pub(crate) fn faults(&self) -> Vec<Scheduled> {
        let on_event = |step: usize| {
            let words = format!("{TROUBLE_EVENT} step={step}");
            When::Event(sim::fault::EventPattern { words, node: None, nth: 1, after_ms: 0 })
        };
        let troubles = self.steps.iter().enumerate().filter_map(|(index, step)| match &step.act {
            Act::Trouble { fault, .. } => Some((index, fault.clone())),
            _ => None,
        });
        troubles.map(|(index, fault)| Scheduled { id: index as u32, when: on_event(index), fault }).collect()
    }

    /// Whether it needs two machines: nothing is cut, lost or switched off within one.
    pub(crate) fn needs_wire(&self) -> bool {
        self.steps.iter().any(|step| {
            matches!(
                step.act,
                Act::Trouble {
                    fault: Fault::Cut { .. } | Fault::Loss { .. } | Fault::MachineCrash { .. },
                    ..
                }
            )
        })
    }

    /// Whether chance decides what is lost on its way.
    pub(crate) fn is_lossy(&self) -> bool {
        let by_chance = |act: &Act| matches!(act, Act::Trouble { fault: Fault::Loss { probability, .. }, .. } if *probability < 1.0);
        self.steps.iter().any(|step| by_chance(&step.act))
    }

    /// Whether model and Linux are known to differ in it.
    pub(crate) fn differs(&self) -> bool {
        self.steps.iter().any(|step| step.recorded.as_ref().is_some_and(|[linux, model]| linux != model))
    }
}

/// The cases of one file.
pub(crate) fn parse(file: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = Vec::new();
    for (number, line) in file.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(title) = line.strip_prefix("case ") {
            cases.push(Case { title: title.into(), steps: Vec::new() });
            continue;
        }
        let case = cases.last_mut().ok_or("a step before the first case")?;
        let step = parse_step(line).map_err(|error| format!("line {}: {error}", number + 1))?;
        case.steps.push(step);
    }
    Ok(cases)
}

fn parse_step(line: &str) -> Result<Step, String> {
    let (text, recorded) = match line.split_once("=>") {
        Some((text, recorded)) => {
            let recorded = recorded.trim();
            let (linux, model) = recorded.split_once(" | model ").unwrap_or((recorded, recorded));
            (text.trim(), Some([linux.trim().to_string(), model.trim().to_string()]))
        }
        None => (line, None),
    };
    let act = parse_act(&text.split_whitespace().collect::<Vec<_>>())?;
    let observes = match &act {
        Act::Call { waits, .. } => *waits,
        Act::Wait { .. } => true,
        Act::Trouble { .. } | Act::Sleep { .. } => false,
    };
    if observes != recorded.is_some() {
        return Err(format!("an observation is missing, or there is none to make: {text}"));
    }
    Ok(Step { text: text.into(), act, recorded })
}

fn parse_act(words: &[&str]) -> Result<Act, String> {
    if let Some(fault) = parse_fault(words)? {
        return Ok(Act::Trouble { fault, told: words.last() == Some(&"told") });
    }
    Ok(match words {
        ["sleep", time] => Act::Sleep { ms: number(time)? },
        [socket, "wait", verb, limit] => {
            let (side, socket) = parse_socket(socket)?;
            Act::Wait { key: (side, socket, Call::named(verb)?), limit_ms: number(limit)? }
        }
        [socket, call @ .., "&"] => {
            let (side, socket) = parse_socket(socket)?;
            Act::Call { side, socket, call: Call::parse(call)?, waits: false }
        }
        [socket, call @ ..] => {
            let (side, socket) = parse_socket(socket)?;
            Act::Call { side, socket, call: Call::parse(call)?, waits: true }
        }
        [] => return Err("an empty step".into()),
    })
}

fn parse_fault(words: &[&str]) -> Result<Option<Fault>, String> {
    let node = |word: &str| Side::named(word).map(|side| side.name().to_string());
    Ok(Some(match words {
        ["pause", side, time] => Fault::Pause { node: node(side)?, for_ms: number(time)? },
        ["crash", side] => Fault::Crash { node: node(side)?, restart_after_ms: None },
        ["crash", side, "restart", time] => {
            Fault::Crash { node: node(side)?, restart_after_ms: Some(number(time)?) }
        }
        ["off", side] | ["off", side, "told"] => {
            Fault::MachineCrash { node: node(side)?, restart_after_ms: None }
        }
        ["off", side, "restart", time] => {
            Fault::MachineCrash { node: node(side)?, restart_after_ms: Some(number(time)?) }
        }
        ["cut", "both", time] => Fault::Cut {
            from: vec!["a".into()],
            to: vec!["b".into()],
            both_ways: true,
            for_ms: number(time)?,
        },
        ["cut", from, to, time] => Fault::Cut {
            from: vec![node(from)?],
            to: vec![node(to)?],
            both_ways: false,
            for_ms: number(time)?,
        },
        ["lose", from, to, percent, time] => Fault::Loss {
            from: vec![node(from)?],
            to: vec![node(to)?],
            probability: number(percent)? as f64 / 100.0,
            for_ms: number(time)?,
        },
        _ => return Ok(None),
    }))
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("no number: {word:?}"))
}

/// `a` is socket 0 of side a, `b2` socket 2 of side b.
fn parse_socket(word: &str) -> Result<(Side, u8), String> {
    let (side, socket) = word.split_at(word.len().min(1));
    let socket = if socket.is_empty() { Ok(0) } else { socket.parse() };
    Ok((Side::named(side)?, socket.map_err(|_| format!("no socket: {word:?}"))?))
}
