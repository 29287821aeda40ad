//! The stage on Linux: two real processes on namespaces' machines, stopped, continued and killed by real signals.
//!
//! Processes are told what to do on their standard input and answer on their standard output, a line each.

use crate::lan::Lan;
use crate::puppet::{Addresses, Answer, puppet};
use crate::script::{Call, Case, Side};
use crate::stage::{Seen, Stage, play};
use sim::fault::Fault;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Where the two processes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a machine each.
    TwoMachines,
    /// On one machine, over loopback.
    Loopback,
}

/// Plays `case` on Linux, in namespaces called after `name`.
pub(crate) fn run(case: &Case, place: Place, name: &str) -> Result<Vec<Option<Seen>>, String> {
    let mut host = Host::new(place, name)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let seen = runtime.block_on(play(case, &mut host));
    match host.trouble.take() {
        Some(error) => Err(error),
        None => Ok(seen),
    }
}

/// The end of a trouble.
#[derive(Clone, Debug)]
enum End {
    Resume(Side),
    Start(Side),
    SwitchOn(Side),
    Heal(Vec<Side>),
    LoseNoMore,
}

struct Process {
    child: Child,
    strings: ChildStdin,
}

struct Host {
    lan: Lan,
    place: Place,
    start: Instant,
    processes: [Option<Process>; 2],
    say: Sender<(Side, String)>,
    answers: Receiver<(Side, String)>,
    ends: Vec<(u64, End)>,
    /// What went wrong with the stage itself.
    trouble: Option<String>,
}

impl Host {
    fn new(place: Place, name: &str) -> Result<Self, String> {
        let (say, answers) = channel();
        let (lan, start) = (Lan::new(name)?, Instant::now());
        let (processes, ends) = ([None, None], Vec::new());
        let mut host = Host { lan, place, start, processes, say, answers, ends, trouble: None };
        for side in Side::BOTH {
            host.start(side)?;
        }
        Ok(host)
    }

    /// Starts the process of `side`, and waits until it listens to its strings.
    fn start(&mut self, side: Side) -> Result<(), String> {
        let (machine, ips) = match self.place {
            Place::TwoMachines => (side, Side::BOTH.map(Lan::ip)),
            Place::Loopback => (Side::A, ["127.0.0.1".into(), "127.0.0.1".into()]),
        };
        let address = |side: Side| format!("{}:{}", ips[side as usize], 7000 + side as u16);
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        // `ip netns exec` becomes the program: its process is the one to signal.
        let mut child = Command::new("ip")
            .args(["netns", "exec", &self.lan.namespace(machine)])
            .arg(program)
            .args(["--puppet", &address(side), &address(side.other())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let (Some(strings), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a process has no pipes".into());
        };
        let mut lines = BufReader::new(stdout).lines();
        if !matches!(lines.next(), Some(Ok(ready)) if ready == "ready") {
            return Err("a process did not start".into());
        }
        let say = self.say.clone();
        std::thread::spawn(move || {
            // Ends with the process, or with the stage.
            for line in lines.map_while(Result::ok) {
                if say.send((side, line)).is_err() {
                    return;
                }
            }
        });
        self.processes[side as usize] = Some(Process { child, strings });
        Ok(())
    }

    fn signal(&self, side: Side, signal: libc::c_int) -> Result<(), String> {
        let process = self.processes[side as usize].as_ref().ok_or("no process to signal")?;
        // SAFETY: a child that nobody has waited for yet, so its id is nobody else's.
        match unsafe { libc::kill(process.child.id() as libc::pid_t, signal) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error().to_string()),
        }
    }

    /// Kills the process of `side`; its sockets are closed when this returns.
    fn kill(&mut self, side: Side) -> Result<(), String> {
        let mut process = self.processes[side as usize].take().ok_or("no process to kill")?;
        process.child.kill().and_then(|()| process.child.wait()).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn strike(&mut self, fault: &Fault, told: bool) -> Result<(), String> {
        let now = self.now_ms();
        match fault {
            Fault::Pause { node, for_ms } => {
                let side = Side::named(node)?;
                self.signal(side, libc::SIGSTOP)?;
                self.ends.push((now + for_ms, End::Resume(side)));
            }
            Fault::Crash { node, restart_after_ms } => {
                let side = Side::named(node)?;
                self.kill(side)?;
                self.ends.extend(restart_after_ms.map(|after_ms| (now + after_ms, End::Start(side))));
            }
            Fault::MachineCrash { node, restart_after_ms } => {
                let side = Side::named(node)?;
                // Nothing leaves it, nor reaches it, from now on.
                self.lan.cut(side)?;
                if told {
                    self.lan.tell(side.other())?;
                } else {
                    self.lan.cut(side.other())?;
                }
                self.kill(side)?;
                self.lan.remove(side)?;
                self.ends.extend(restart_after_ms.map(|after_ms| (now + after_ms, End::SwitchOn(side))));
            }
            Fault::Cut { from, both_ways, for_ms, .. } => {
                let from = Side::named(&from[0])?;
                let sides = if *both_ways { vec![from, from.other()] } else { vec![from] };
                for side in &sides {
                    self.lan.cut(*side)?;
                }
                self.ends.push((now + for_ms, End::Heal(sides)));
            }
            Fault::Loss { from, probability, for_ms, .. } => {
                self.lan.lose(Side::named(&from[0])?, (probability * 100.0).round() as u32)?;
                self.ends.push((now + for_ms, End::LoseNoMore));
            }
            fault => return Err(format!("no case has the trouble {fault:?}")),
        }
        Ok(())
    }

    fn end(&mut self, end: &End) -> Result<(), String> {
        match end {
            End::Resume(side) => self.signal(*side, libc::SIGCONT),
            End::Start(side) => self.start(*side),
            End::SwitchOn(side) => {
                self.lan.start(*side)?;
                self.start(*side)?;
                Side::BOTH.into_iter().try_for_each(|of| self.lan.heal(of))
            }
            End::Heal(sides) => sides.iter().try_for_each(|side| self.lan.heal(*side)),
            End::LoseNoMore => self.lan.lose_no_more(),
        }
    }

    /// The end of a trouble that comes next.
    fn next_end(&self) -> Option<usize> {
        (0..self.ends.len()).min_by_key(|index| self.ends[*index].0)
    }

    fn note(&mut self, result: Result<(), String>) {
        if let Err(error) = result {
            self.trouble.get_or_insert(error);
        }
    }

    fn wait_for_answer(&mut self, until_ms: u64) -> Option<(Side, Answer)> {
        loop {
            let end = self.next_end();
            let end_at = end.map_or(u64::MAX, |end| self.ends[end].0);
            let left = until_ms.min(end_at).saturating_sub(self.now_ms());
            match self.answers.recv_timeout(Duration::from_millis(left)) {
                Ok((side, line)) => match parse_answer(&line) {
                    Ok(answer) => return Some((side, answer)),
                    Err(error) => self.note(Err(error)),
                },
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = self.now_ms();
            if let Some(end) = end.filter(|_| end_at <= now) {
                let (_, end) = self.ends.remove(end);
                let ended = self.end(&end);
                self.note(ended);
            } else if until_ms <= now {
                return None;
            }
        }
    }

    fn tell(&mut self, side: Side, socket: u8, call: Call) -> Result<(), String> {
        let process = self.processes[side as usize].as_mut();
        let process = process.ok_or_else(|| format!("{side:?} is told to {call} while it is down"))?;
        writeln!(process.strings, "{socket} {call}").map_err(|error| error.to_string())
    }
}

impl Stage for Host {
    fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    async fn call(&mut self, side: Side, socket: u8, call: Call) {
        let told = self.tell(side, socket, call);
        self.note(told);
    }

    async fn trouble(&mut self, _: usize, fault: &Fault, told: bool) {
        let struck = self.strike(fault, told);
        self.note(struck);
    }

    async fn answer(&mut self, until_ms: u64) -> Option<(Side, Answer)> {
        // Nothing else is to run meanwhile.
        self.wait_for_answer(until_ms)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for mut process in self.processes.iter_mut().filter_map(Option::take) {
            // It may have died by itself, which is a trouble reported elsewhere.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

fn parse_answer(line: &str) -> Result<Answer, String> {
    let wrong = || format!("no answer: {line:?}");
    let (socket, rest) = line.split_once(' ').ok_or_else(wrong)?;
    let (verb, said) = rest.split_once(' ').ok_or_else(wrong)?;
    let socket = socket.parse().map_err(|_| wrong())?;
    Ok(Answer { socket, verb: Call::named(verb)?, said: said.into() })
}

/// The process itself: obeys its standard input.
pub(crate) fn be_puppet(own: &str, peer: &str) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let (tell, calls) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let told = words
                .split_first()
                .and_then(|(socket, call)| Some((socket.parse().ok()?, Call::parse(call).ok()?)));
            if tell.send(told.expect("the stage speaks clearly")).is_err() {
                return;
            }
        }
    });
    println!("ready");
    let addresses = Addresses { own: own.into(), peer: peer.into() };
    runtime.block_on(puppet(addresses, calls, |answer| {
        println!("{} {} {}", answer.socket, answer.verb, answer.said);
    }));
    Ok(())
}
