//! The story of a transaction that was decided wrongly, in about ten lines.
//!
//! It begins with the request that came late: a Produce of the transaction that arrived when its client had ended it, or
//! else the EndTxn of an earlier transaction that reached the deciding agent last.
//! From the trace around it and around the victim it picks what a person needs, in order of time, and marks the line
//! that decides.

use crate::explain::seconds;
use crate::oracle::Decision;
use sim::trace::{Entry, EventId, NodeId};

/// A line of a story.
struct Line {
    at_ns: u64,
    event: EventId,
    who: String,
    what: String,
    decides: bool,
}

struct Teller<'a> {
    trace: &'a [Entry],
    nodes: &'a [String],
    lines: Vec<Line>,
}

/// Tells how the first of `decisions` came about; nothing if there is none.
pub(crate) fn tell(decisions: &[Decision], trace: &[Entry], nodes: &[String]) -> Vec<String> {
    let Some(first) = decisions.first() else { return Vec::new() };
    let Some(deciding) = trace.iter().find(|entry| entry.id.0 == first.event) else {
        return Vec::new();
    };
    let mut teller = Teller { trace, nodes, lines: Vec::new() };
    let victim = Transaction { id: first.wrong.producer.clone(), number: first.wrong.transaction };
    let decision = if first.committed { "commits" } else { "aborts" };
    let what = if let Some(late) = teller.late_record(&victim, deciding) {
        teller.tell_late_record(&victim, late);
        format!(
            "{decision} the later transaction, and with it what came late of transaction {}",
            victim.number
        )
    } else {
        if let Some(late) = teller.late_request(&victim, deciding) {
            teller.tell_late_request(&victim, late, deciding);
        }
        format!("executes the late EndTxn: {decision} what transaction {} has written so far", victim.number)
    };
    teller.tell_victim(&victim, deciding);
    teller.say(deciding, what, true);
    teller.finish()
}

struct Transaction {
    id: String,
    number: u64,
}

impl Transaction {
    fn is_subject(&self, entry: &Entry) -> bool {
        entry.text("id") == self.id && entry.number("txn") == Some(self.number as i64)
    }
}

impl<'a> Teller<'a> {
    fn node(&self, id: NodeId) -> &'a str {
        self.nodes.get(id.0 as usize).map_or("?", String::as_str)
    }

    fn say(&mut self, entry: &Entry, what: String, decides: bool) {
        let who = self.node(entry.node).to_string();
        self.lines.push(Line { at_ns: entry.at_ns, event: entry.id, who, what, decides });
    }

    /// The arrival of a Produce of the victim after its client was told how it ended.
    fn late_record(&self, victim: &Transaction, deciding: &Entry) -> Option<&'a Entry> {
        let told = |entry: &&Entry| entry.name == "producer.end" && victim.is_subject(entry);
        let end = self.trace.iter().find(told)?;
        let between = self.trace.iter().filter(|entry| entry.id > end.id && entry.id < deciding.id);
        let mut arrivals = between.filter(|entry| {
            entry.name == "net.frame.delivered"
                && is_request_of(entry, "Produce", &victim.id)
                && word(entry, "txn=") == Some(victim.number)
        });
        arrivals.next()
    }

    fn tell_late_record(&mut self, victim: &Transaction, arrival: &'a Entry) {
        let (trace, agent) = (self.trace, self.node(arrival.node));
        let sent = trace.iter().find(|entry| {
            entry.name == "net.frame"
                && entry.text("label") == arrival.text("label")
                && entry.text("to") == agent
        });
        if let Some(sent) = sent {
            let what = format!("Produce of transaction {} -> {agent}: is on its way for long", victim.number);
            self.say(sent, what, false);
        }
        let before = trace.iter().take_while(|entry| entry.id < arrival.id);
        let begins = before.filter(|entry| entry.name == "producer.begin" && entry.text("id") == victim.id);
        let Some(later) = begins.last() else { return };
        let number = later.number("txn").unwrap_or_default();
        self.say(later, format!("transaction {number} begins"), false);
        self.say(arrival, format!("the late Produce arrives, in transaction {number}"), false);
    }

    /// The arrival, at the deciding agent, of the last EndTxn of an earlier transaction of the same producer.
    fn late_request(&self, victim: &Transaction, deciding: &Entry) -> Option<&'a Entry> {
        let before = self.trace.iter().take_while(|entry| entry.id < deciding.id);
        let arrivals = before.filter(|entry| {
            entry.node == deciding.node
                && entry.name == "net.frame.delivered"
                && is_request_of(entry, "EndTxn", &victim.id)
        });
        arrivals.filter(|entry| word(entry, "txn=").is_some_and(|txn| txn < victim.number)).last()
    }

    fn tell_late_request(&mut self, victim: &Transaction, arrival: &'a Entry, deciding: &Entry) {
        let label = arrival.text("label");
        let earlier = word(arrival, "txn=").unwrap_or_default();
        let agent = self.node(deciding.node);
        let sent = self.trace.iter().find(|entry| {
            entry.name == "net.frame" && entry.text("label") == label && entry.text("to") == agent
        });
        let Some(sent) = sent else { return };
        let end = if label.contains("commit") { "commit" } else { "abort" };
        let held = self.trace.iter().any(|entry| entry.name == "net.held" && entry.text("label") == label);
        let waits = if held {
            "is held on its way".to_string()
        } else if self.is_paused_at(agent, arrival.at_ns) {
            format!("waits in {agent}'s socket: {agent} is paused")
        } else if self.pauses_between(agent, arrival.id, deciding.id) {
            format!("{agent} is paused before it can execute it")
        } else {
            format!("is slow to be executed by {agent}")
        };
        self.say(sent, format!("EndTxn({end}) of transaction {earlier} -> {agent}: {waits}"), false);
        let subject = Transaction { id: victim.id.clone(), number: earlier };
        self.tell_retries(&subject, end, sent);
        self.tell_release(arrival, held, deciding);
    }

    /// The client gives up waiting, and another agent executes the same request.
    fn tell_retries(&mut self, subject: &Transaction, end: &str, sent: &Entry) {
        let trace = self.trace;
        let after = || trace.iter().skip_while(|entry| entry.id <= sent.id);
        let is_resend = |entry: &&Entry| {
            entry.name == "net.frame"
                && is_request_of(entry, "EndTxn", &subject.id)
                && word(entry, "txn=") == Some(subject.number)
        };
        let Some(resend) = after().find(is_resend) else { return };
        let waited_s = (resend.at_ns - sent.at_ns) as f64 / 1e9;
        let to = resend.text("to");
        self.say(
            resend,
            format!("no answer in {waited_s:.1} s: closes the socket, sends the same EndTxn -> {to}"),
            false,
        );
        let answered = after().find(|entry| {
            entry.name == "end_txn.answered"
                && self.node(entry.node) == to
                && entry.id > resend.id
                && entry.number("code") == Some(0)
        });
        if let Some(answered) = answered {
            self.say(answered, format!("{end}s transaction {}, answers", subject.number), false);
        }
    }

    fn tell_release(&mut self, arrival: &'a Entry, held: bool, deciding: &Entry) {
        if held {
            let what = "the held EndTxn is let go, and reaches its agent".to_string();
            self.say(arrival, what, false);
            return;
        }
        let resumes = |entry: &&Entry| {
            entry.name == "node.resume" && entry.node == deciding.node && entry.id < deciding.id
        };
        if let Some(resume) = self.trace.iter().rev().find(resumes).filter(|resume| resume.id > arrival.id) {
            self.say(resume, "resumes".into(), false);
        }
    }

    fn tell_victim(&mut self, victim: &Transaction, deciding: &Entry) {
        let trace = self.trace;
        let of = |name: &'static str| {
            trace.iter().filter(move |entry| entry.name == name && victim.is_subject(entry))
        };
        let epoch = trace.iter().rev().find(|entry| {
            entry.name == "producer.epoch" && entry.text("id") == victim.id && entry.id < deciding.id
        });
        let epoch = epoch.map(|entry| {
            format!(", producer id {} epoch {}", entry.text("producer_id"), entry.text("epoch"))
        });
        if let Some(begin) = of("producer.begin").next() {
            self.say(
                begin,
                format!("transaction {} begins{}", victim.number, epoch.unwrap_or_default()),
                false,
            );
        }
        let (before, after): (Vec<_>, Vec<_>) =
            of("producer.delivered").partition(|entry| entry.id < deciding.id);
        for part in [before, after] {
            if let Some(last) = part.last() {
                let records: Vec<_> = part
                    .iter()
                    .map(|entry| format!("{}:{}", entry.text("partition"), entry.text("value")))
                    .collect();
                self.say(last, format!("has written {}", records.join(" ")), false);
            }
        }
        if let Some(end) = of("producer.end").next() {
            let asked = if end.flag("committed") { "commit" } else { "abort" };
            self.say(
                end,
                format!(
                    "{asked} of transaction {}: the client is told \"{}\"",
                    victim.number,
                    end.text("outcome")
                ),
                false,
            );
        }
    }

    fn is_paused_at(&self, node: &str, at_ns: u64) -> bool {
        let states = self
            .trace
            .iter()
            .take_while(|entry| entry.at_ns <= at_ns)
            .filter(|entry| self.node(entry.node) == node);
        states
            .filter(|entry| matches!(entry.name, "node.pause" | "node.resume"))
            .last()
            .is_some_and(|entry| entry.name == "node.pause")
    }

    fn pauses_between(&self, node: &str, after: EventId, before: EventId) -> bool {
        let between = self.trace.iter().filter(|entry| entry.id > after && entry.id < before);
        between.filter(|entry| entry.name == "node.pause").any(|entry| self.node(entry.node) == node)
    }

    fn finish(mut self) -> Vec<String> {
        self.lines.sort_by_key(|line| line.event);
        let width = self.lines.iter().map(|line| line.who.len()).max().unwrap_or_default();
        let numbered = self.lines.iter().zip(1..).map(|(line, n)| {
            let mark = if line.decides { "        <- decides it" } else { "" };
            format!("{n:>4}  {:>9}  {:width$}  {}{mark}", seconds(line.at_ns), line.who, line.what)
        });
        numbered.collect()
    }
}

/// Whether a frame is such a request of the producer `id`.
fn is_request_of(frame: &Entry, name: &str, id: &str) -> bool {
    let label = frame.text("label");
    let mut words = label.split_whitespace();
    words.next() == Some(name) && words.any(|word| word.strip_prefix("id=") == Some(id))
}

/// The number after `prefix` in a frame's label.
fn word(frame: &Entry, prefix: &str) -> Option<u64> {
    frame.text("label").split_whitespace().find_map(|word| word.strip_prefix(prefix)?.parse().ok())
}
