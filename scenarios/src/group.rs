//! Judges the consumer group, by what its members and those who asked for its offsets told.
//!
//! It says nothing about a run without members.

use crate::config::key_of as partition;
use crate::ground::Findings;
use crate::log::Facts;
use check::group::{self, Event, Outcome};
use check::look;
use check::{
    commit_moved_back, exactly_once, ownership, processed_twice, redelivery, undelivered, unprocessed,
};
use sim::trace::Entry;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn judge(facts: &Facts, trace: &[Entry]) -> Findings {
    let mut findings = Findings::default();
    let events = events(trace);
    if events.is_empty() {
        return findings;
    }
    let known = group::Facts::new(&events);
    findings.add("two-owners", ownership::find(&events));
    findings.add("commit-moved-back", commit_moved_back::find(&known));
    findings.add("zombie-commit", commit_moved_back::zombies(&known));
    findings.add("redelivered", redelivery::find(&known));
    let log = look::log(&facts.looks);
    // Members read committed records.
    let visible: BTreeMap<i64, Vec<i64>> =
        log.iter().map(|(partition, batches)| (*partition, look::visible(batches, true))).collect();
    findings.add("undelivered", undelivered::find(&known, &visible));
    findings.add("processed-twice", processed_twice::find(&facts.results));
    // Whoever commits outside a transaction writes no results.
    let is_pipeline =
        !known.attempts.is_empty() && known.attempts.iter().all(|attempt| attempt.transactional);
    if is_pipeline && facts.behind.is_empty() {
        for apart in exactly_once::find(&visible, &committed(&known), &facts.results) {
            findings.anomalies.push((apart.name(), apart.to_string()));
        }
    }
    if known.attempts.iter().all(|attempt| !attempt.transactional) {
        let found = unprocessed::find(&committed(&known), &delivered(&known), &processed(trace));
        findings.add("unprocessed", found);
    }
    let behind =
        facts.behind.iter().map(|partition| format!("partition {partition} was never consumed to its end"));
    findings.add("stuck-group", behind.collect());
    findings.vacuous.extend(group::vacuous(&known).iter().map(ToString::to_string));
    findings
}

/// Partition and offset of each record that was handed to a member.
fn delivered(known: &group::Facts) -> BTreeSet<(i64, i64)> {
    let of = |spell: &group::Spell| {
        let partition = spell.partition;
        spell.deliveries.iter().map(move |(_, offset)| (partition, *offset)).collect::<Vec<_>>()
    };
    known.spells.iter().flat_map(of).collect()
}

/// Partition and offset of each record that a member has done its work on.
fn processed(trace: &[Entry]) -> BTreeSet<(i64, i64)> {
    let done = trace.iter().filter(|entry| entry.name == "member.processed");
    done.filter_map(|entry| Some((partition(&entry.text("partition"))?, entry.number("offset")?))).collect()
}

/// What the group has committed of each partition, as last seen.
fn committed(known: &group::Facts) -> BTreeMap<i64, i64> {
    let mut seen: Vec<_> = known.seen.iter().collect();
    seen.sort_by_key(|seen| seen.until);
    seen.into_iter().map(|seen| (seen.partition, seen.offset)).collect()
}

/// The history of the group. A consumer that is no member has none.
fn events(trace: &[Entry]) -> Vec<Event> {
    let joined = || trace.iter().filter(|entry| entry.name == "member.joined");
    let members: BTreeSet<String> = joined().map(|entry| entry.text("client")).collect();
    if members.is_empty() {
        return Vec::new();
    }
    let ids = joined().map(|entry| (entry.text("member"), entry.text("client")));
    let mut transactions = Transactions { members: ids.collect(), offsets: BTreeMap::new() };
    let mut events = Vec::new();
    for entry in trace {
        if entry.name == "consumer.polled" {
            events.extend(delivered_by(entry, &members));
        } else {
            events.extend(event(entry).or_else(|| transactions.event(entry)));
        }
    }
    events
}

/// The records that a poll handed to a member.
fn delivered_by(entry: &Entry, members: &BTreeSet<String>) -> Vec<Event> {
    let member = entry.text("client");
    let Some(partition) = partition(&entry.text("partition")).filter(|_| members.contains(&member)) else {
        return Vec::new();
    };
    let records = entry.text("records");
    client::polled_records(&records)
        .map(|(offset, _)| Event::Delivered { member: member.clone(), partition, offset })
        .collect()
}

/// Offsets that were committed with transactions.
struct Transactions {
    /// Members by member id.
    members: BTreeMap<String, String>,
    /// By producer and transaction, who committed in it, and its number among all of them.
    offsets: BTreeMap<(String, i64), (String, u64)>,
}

impl Transactions {
    /// Numbers of transactions, apart from those of other attempts.
    const FIRST: u64 = 1 << 32;

    fn event(&mut self, entry: &Entry) -> Option<Event> {
        let number = |field| entry.number(field).unwrap_or(-1);
        let transaction = || (entry.text("id"), number("txn"));
        match entry.name {
            "producer.offsets" => {
                let member = self.members.get(&entry.text("member"))?.clone();
                let next = Self::FIRST + self.offsets.len() as u64;
                let known = self.offsets.entry(transaction()).or_insert((member.clone(), next));
                Some(Event::Commits {
                    member,
                    number: known.1,
                    generation: number("generation") as i32,
                    partition: partition(&entry.text("partition"))?,
                    offset: number("offset"),
                    transactional: true,
                })
            }
            "producer.end" => {
                let (member, number) = self.offsets.get(&transaction())?.clone();
                let outcome = match (entry.text("outcome").as_str(), entry.flag("committed")) {
                    ("ok", true) => Outcome::Done,
                    ("ok", false) => Outcome::Refused,
                    _ => Outcome::Unknown,
                };
                Some(Event::CommitEnded { member, number, outcome })
            }
            _ => None,
        }
    }
}

fn event(entry: &Entry) -> Option<Event> {
    let member = || entry.text("client");
    let number = |field| entry.number(field).unwrap_or(-1);
    let partition_of = || partition(&entry.text("partition"));
    Some(match entry.name {
        "member.joined" => Event::Joined {
            member: member(),
            identity: entry.text("identity"),
            generation: number("generation") as i32,
        },
        "member.synced" => Event::Synced {
            member: member(),
            generation: number("generation") as i32,
            partitions: entry.text("partitions").split(',').filter_map(partition).collect(),
        },
        "member.assigned" => Event::Assigned { member: member(), partition: partition_of()? },
        "member.revoked" | "member.lost" => Event::Dropped { member: member(), partition: partition_of()? },
        "member.seeks" => Event::Sought { member: member(), partition: partition_of()? },
        "member.commits" => Event::Commits {
            member: member(),
            number: number("number") as u64,
            generation: number("generation") as i32,
            partition: partition_of()?,
            offset: number("offset"),
            transactional: false,
        },
        "member.commit_end" => Event::CommitEnded {
            member: member(),
            number: number("number") as u64,
            outcome: match entry.text("outcome").as_str() {
                "done" => Outcome::Done,
                "refused" => Outcome::Refused,
                _ => Outcome::Unknown,
            },
        },
        "member.asks" => Event::Asks { reader: member(), number: number("number") as u64 },
        "member.finds" => Event::Finds {
            reader: member(),
            number: number("number") as u64,
            partition: partition_of()?,
            offset: number("offset"),
        },
        "group.asks" => Event::Asks { reader: entry.text("reader"), number: number("number") as u64 },
        "group.finds" => Event::Finds {
            reader: entry.text("reader"),
            number: number("number") as u64,
            partition: number("partition"),
            offset: number("offset"),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::trace::{EventId, Field, NodeId};

    fn told(name: &'static str, texts: &[(&'static str, &str)], numbers: &[(&'static str, i64)]) -> Entry {
        let texts = texts.iter().map(|(name, text)| (*name, Field::Str((*text).into())));
        let numbers = numbers.iter().map(|(name, number)| (*name, Field::I64(*number)));
        let fields = texts.chain(numbers).collect();
        Entry { id: EventId(1), at_ns: 1, node: NodeId(1), parent: EventId::NONE, name, fields }
    }

    #[test]
    fn only_members_make_the_history() {
        let polled = |client: &str| {
            let texts = [("client", client), ("partition", "orders-1"), ("records", "7=a,9=")];
            told("consumer.polled", &texts, &[("offset", 7)])
        };
        assert_eq!(events(&[polled("c1")]), []);
        let joined = told("member.joined", &[("client", "m1"), ("identity", "i")], &[("generation", 2)]);
        let events = events(&[polled("c1"), joined, polled("m1")]);
        let expected = [
            Event::Joined { member: "m1".into(), identity: "i".into(), generation: 2 },
            Event::Delivered { member: "m1".into(), partition: 1, offset: 7 },
            Event::Delivered { member: "m1".into(), partition: 1, offset: 9 },
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn what_is_committed_is_what_was_seen_last() {
        let finds = |number, offset| {
            let numbers = [("number", number), ("partition", 0), ("offset", offset)];
            [
                told("group.asks", &[("reader", "w")], &[("number", number)]),
                told("group.finds", &[("reader", "w")], &numbers),
            ]
        };
        let joined = told("member.joined", &[("client", "m1"), ("identity", "i")], &[("generation", 1)]);
        let trace = [vec![joined], finds(1, 3).to_vec(), finds(2, 5).to_vec()].concat();
        assert_eq!(committed(&group::Facts::new(&events(&trace))), [(0, 5)].into());
    }

    #[test]
    fn what_a_member_was_handed_and_committed_it_worked_on() {
        let texts = [("client", "m1"), ("partition", "orders-1")];
        let of = |name, offset| told(name, &texts, &[("offset", offset)]);
        let polled = [texts[0], texts[1], ("records", "1=a,2=b")];
        let commits = [
            told("member.commits", &texts, &[("number", 1), ("generation", 1), ("offset", 3)]),
            told("member.commit_end", &[("client", "m1"), ("outcome", "done")], &[("number", 1)]),
        ];
        let trace = [
            vec![told("member.joined", &[("client", "m1"), ("identity", "i")], &[("generation", 1)])],
            vec![told(
                "member.synced",
                &[("client", "m1"), ("partitions", "orders-1")],
                &[("generation", 1)],
            )],
            vec![of("member.assigned", 0), told("consumer.polled", &polled, &[("offset", 1)])],
            vec![of("member.processed", 1)],
            commits.to_vec(),
        ];
        let unprocessed = |trace: &[Entry]| {
            let findings = judge(&Facts::default(), trace).anomalies;
            findings.iter().filter(|(name, _)| *name == "unprocessed").count()
        };
        let mut trace = trace.concat();
        assert_eq!(unprocessed(&trace), 1);
        trace.push(of("member.processed", 2));
        assert_eq!(unprocessed(&trace), 0);
    }

    #[test]
    fn a_run_without_members_is_not_judged_and_one_without_rebalances_proves_nothing() {
        assert!(judge(&Facts::default(), &[]).vacuous.is_empty());
        let joined = told("member.joined", &[("client", "m1"), ("identity", "i")], &[("generation", 1)]);
        let partitions = "orders-0,orders-1";
        let synced =
            told("member.synced", &[("client", "m1"), ("partitions", partitions)], &[("generation", 1)]);
        let two = [
            joined.clone(),
            synced.clone(),
            told("member.joined", &[("client", "m2"), ("identity", "j")], &[("generation", 1)]),
            told("member.synced", &[("client", "m2"), ("partitions", "orders-1")], &[("generation", 1)]),
        ];
        let findings = judge(&Facts::default(), &two);
        assert_eq!(findings.anomalies.len(), 1);
        assert_eq!(findings.anomalies[0].0, "two-owners");
        assert_eq!(findings.vacuous.len(), 3);
        assert!(judge(&Facts::default(), &[joined, synced]).anomalies.is_empty());
    }
}
