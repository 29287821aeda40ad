//! What members of a consumer group did and were told, in the order in which it happened, and what follows from it. The
//! checks that judge it: [`ownership`](crate::ownership), [`commit_moved_back`](crate::commit_moved_back),
//! [`redelivery`](crate::redelivery), [`undelivered`](crate::undelivered).
//!
//! A member is one incarnation of a client. Its *identity* is its group instance id, or its member id if it has none:
//! a static member that comes back goes on as the same identity, and the incarnation before is cut off. Events must be
//! in the order of real time; an event's place is its moment.

use std::collections::BTreeMap;
use std::fmt;

/// How an attempt to commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect, some time before this.
    Done,
    /// It will not take effect any more.
    Refused,
    /// It may have taken effect, and may do so yet.
    Unknown,
}

/// Something that happened to a member, or to somebody else who asked for committed offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was told that it is in a generation.
    Joined {
        /// The member.
        member: String,
        /// Its identity.
        identity: String,
        /// The generation.
        generation: i32,
    },
    /// It was told its partitions in a generation.
    Synced {
        /// The member.
        member: String,
        /// The generation.
        generation: i32,
        /// All its partitions.
        partitions: Vec<i64>,
    },
    /// Its application has a partition from now on.
    Assigned {
        /// The member.
        member: String,
        /// The partition.
        partition: i64,
    },
    /// Its application has a partition no more.
    Dropped {
        /// The member.
        member: String,
        /// The partition.
        partition: i64,
    },
    /// Its application went back to the committed offset of a partition that it has.
    Sought {
        /// The member.
        member: String,
        /// The partition.
        partition: i64,
    },
    /// A record was handed to its application.
    Delivered {
        /// The member.
        member: String,
        /// The partition.
        partition: i64,
        /// The record's offset.
        offset: i64,
    },
    /// It sent an attempt to commit; one event for each partition in it.
    Commits {
        /// The member.
        member: String,
        /// Which of its attempts.
        number: u64,
        /// The generation as which it speaks.
        generation: i32,
        /// The partition.
        partition: i64,
        /// The offset.
        offset: i64,
        /// It is a part of a transaction: once it is accepted, it takes effect when that is committed, whatever became of
        /// the generation. Who gets the partition next waits for that.
        transactional: bool,
    },
    /// An attempt ended.
    CommitEnded {
        /// The member.
        member: String,
        /// Which of its attempts.
        number: u64,
        /// How.
        outcome: Outcome,
    },
    /// Somebody asked for committed offsets.
    Asks {
        /// Who.
        reader: String,
        /// Which of its requests.
        number: u64,
    },
    /// What it was answered; one event for each partition.
    Finds {
        /// Who.
        reader: String,
        /// Which of its requests.
        number: u64,
        /// The partition.
        partition: i64,
        /// The committed offset; -1 for none.
        offset: i64,
    },
}

/// An attempt to commit one partition's offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Who.
    pub member: String,
    /// As which generation.
    pub generation: i32,
    /// The partition.
    pub partition: i64,
    /// The offset.
    pub offset: i64,
    /// When it was sent.
    pub sent: usize,
    /// When and how it ended, if it did.
    pub ended: Option<(usize, Outcome)>,
    /// When its member was first known to be cut off from that generation; `usize::MAX` if never.
    pub cut_off: usize,
    /// Whether its member had the partition when it sent it.
    pub held: bool,
    /// Whether it is a part of a transaction.
    pub transactional: bool,
}

impl Attempt {
    /// Until when it may have taken effect: a refusal or an answer ends that, and a newer generation, unless it is a part
    /// of a transaction.
    pub(crate) fn effective_until(&self) -> usize {
        let ended = match self.ended {
            Some((at, Outcome::Done | Outcome::Refused)) => at,
            Some((_, Outcome::Unknown)) | None => usize::MAX,
        };
        if self.transactional { ended } else { ended.min(self.cut_off) }
    }

    /// When it was acknowledged, if it was.
    pub(crate) fn done(&self) -> Option<usize> {
        self.ended.filter(|(_, outcome)| *outcome == Outcome::Done).map(|(at, _)| at)
    }

    /// Whether it may have taken effect later than `after` and before `before`, by right.
    pub(crate) fn may_act(&self, after: usize, before: usize) -> bool {
        self.held && self.sent < before && self.effective_until() > after.max(self.sent)
    }
}

/// A time in which a member had a partition, and read on in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spell {
    /// Who.
    pub member: String,
    /// The partition.
    pub partition: i64,
    /// When it began.
    pub began: usize,
    /// When it ended; `usize::MAX` if it did not.
    pub ended: usize,
    /// Moment and offset of each record handed out.
    pub deliveries: Vec<(usize, i64)>,
}

/// A committed offset as somebody saw it: it was that at some moment between the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The partition.
    pub partition: i64,
    /// The offset.
    pub offset: i64,
    /// Not before this.
    pub from: usize,
    /// Not after this.
    pub until: usize,
}

/// What follows from the events.
#[derive(Debug, Default)]
pub struct Facts {
    /// Every attempt, in the order in which they were sent.
    pub attempts: Vec<Attempt>,
    /// Every spell, in the order in which they began.
    pub spells: Vec<Spell>,
    /// What was seen of committed offsets, in the order in which it was told.
    pub seen: Vec<Seen>,
    generations: Generations,
}

/// When who was told of which generation.
#[derive(Debug, Default)]
struct Generations {
    /// When a generation was first told to anybody.
    first_told: BTreeMap<i32, usize>,
    /// By identity, who joined as it, and when.
    joins: BTreeMap<String, Vec<(usize, String)>>,
    identities: BTreeMap<String, String>,
    /// By member, the generations of which it was told its partitions, and when.
    synced: BTreeMap<String, Vec<(usize, i32)>>,
}

impl Generations {
    fn read(&mut self, at: usize, event: &Event) {
        match event {
            Event::Joined { member, identity, generation } => {
                self.first_told.entry(*generation).or_insert(at);
                self.joins.entry(identity.clone()).or_default().push((at, member.clone()));
                self.identities.insert(member.clone(), identity.clone());
            }
            Event::Synced { member, generation, .. } => {
                self.first_told.entry(*generation).or_insert(at);
                self.synced.entry(member.clone()).or_default().push((at, *generation));
            }
            _ => {}
        }
    }

    /// When `member`, as of `generation`, was first known to be cut off: a newer generation was told, or another
    /// incarnation of its identity joined.
    fn cut_off(&self, member: &str, generation: i32) -> usize {
        let newer = self.first_told.range(generation.saturating_add(1)..).map(|(_, at)| *at);
        let joins = self.identities.get(member).and_then(|identity| self.joins.get(identity));
        let mine = joins.into_iter().flatten().filter(|(_, who)| who == member).map(|(at, _)| *at).min();
        let others = joins.into_iter().flatten().filter(|(at, who)| who != member && Some(*at) > mine);
        newer.chain(others.map(|(at, _)| *at)).min().unwrap_or(usize::MAX)
    }
}

impl Facts {
    /// Reads events in their order.
    pub fn new(events: &[Event]) -> Self {
        let mut facts = Facts::default();
        for (at, event) in events.iter().enumerate() {
            facts.generations.read(at, event);
        }
        let mut asked: BTreeMap<(&str, u64), usize> = BTreeMap::new();
        for (at, event) in events.iter().enumerate() {
            match event {
                Event::Joined { .. } | Event::Synced { .. } => {}
                Event::Assigned { member, partition } => facts.begin(member, *partition, at),
                Event::Sought { member, partition } => {
                    facts.finish(member, *partition, at);
                    facts.begin(member, *partition, at);
                }
                Event::Dropped { member, partition } => facts.finish(member, *partition, at),
                Event::Delivered { member, partition, offset } => {
                    if let Some(spell) = facts.spell(member, *partition) {
                        spell.deliveries.push((at, *offset));
                    }
                }
                Event::Commits { member, generation, partition, offset, transactional, .. } => {
                    let held = facts.spell(member, *partition).is_some();
                    facts.attempts.push(Attempt {
                        member: member.clone(),
                        generation: *generation,
                        partition: *partition,
                        offset: *offset,
                        sent: at,
                        ended: None,
                        cut_off: facts.generations.cut_off(member, *generation),
                        held,
                        transactional: *transactional,
                    });
                }
                Event::CommitEnded { member, number, outcome } => {
                    facts.end(events, member, *number, (at, *outcome));
                }
                Event::Asks { reader, number } => drop(asked.insert((reader, *number), at)),
                Event::Finds { reader, number, partition, offset } => {
                    let from = asked.get(&(reader.as_str(), *number)).copied().unwrap_or(at);
                    facts.seen.push(Seen { partition: *partition, offset: *offset, from, until: at });
                }
            }
        }
        facts
    }

    fn begin(&mut self, member: &str, partition: i64, began: usize) {
        let (member, ended, deliveries) = (member.to_string(), usize::MAX, Vec::new());
        self.spells.push(Spell { member, partition, began, ended, deliveries });
    }

    fn finish(&mut self, member: &str, partition: i64, ended: usize) {
        if let Some(spell) = self.spell(member, partition) {
            spell.ended = ended;
        }
    }

    /// The spell that goes on.
    fn spell(&mut self, member: &str, partition: i64) -> Option<&mut Spell> {
        let mut latest = self.spells.iter_mut().rev();
        let latest = latest.find(|spell| spell.member == member && spell.partition == partition);
        latest.filter(|spell| spell.ended == usize::MAX)
    }

    fn end(&mut self, events: &[Event], member: &str, number: u64, ended: (usize, Outcome)) {
        for attempt in self.attempts.iter_mut().rev().filter(|attempt| attempt.ended.is_none()) {
            let is_it = matches!(&events[attempt.sent],
                Event::Commits { member: who, number: which, .. } if who == member && *which == number);
            if !is_it {
                continue;
            }
            attempt.ended = Some(ended);
            if ended.1 == Outcome::Done {
                let Attempt { partition, offset, sent, .. } = *attempt;
                self.seen.push(Seen { partition, offset, from: sent, until: ended.0 });
            }
        }
    }

    /// Whether `member` was, as far as anybody could know, in the current generation at `moment`.
    pub fn is_current(&self, member: &str, moment: usize) -> bool {
        let synced = self.generations.synced.get(member).into_iter().flatten();
        let latest = synced.take_while(|(at, _)| *at < moment).last();
        latest.is_some_and(|(_, generation)| self.generations.cut_off(member, *generation) > moment)
    }
}

/// What did not happen, so that the events could not have shown anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vacuity {
    /// Fewer than two generations had members.
    NoRebalance,
    /// No commit was acknowledged.
    NoCommit,
    /// No record was handed out.
    NothingDelivered,
}

impl fmt::Display for Vacuity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Vacuity::NoRebalance => "the group was never rebalanced",
            Vacuity::NoCommit => "no member committed an offset",
            Vacuity::NothingDelivered => "no member was handed a record",
        })
    }
}

/// Whether the events could have shown anything at all.
pub fn vacuous(facts: &Facts) -> Vec<Vacuity> {
    let all = [
        (facts.generations.first_told.len() > 1, Vacuity::NoRebalance),
        (facts.attempts.iter().any(|attempt| attempt.done().is_some()), Vacuity::NoCommit),
        (facts.spells.iter().any(|spell| !spell.deliveries.is_empty()), Vacuity::NothingDelivered),
    ];
    all.into_iter().filter(|(happened, _)| !happened).map(|(_, vacuity)| vacuity).collect()
}

#[cfg(test)]
#[path = "group_tests.rs"]
pub(crate) mod tests;
