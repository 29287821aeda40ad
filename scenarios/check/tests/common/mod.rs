//! Histories made by a model of a faultless cluster, for tests and for the benchmark.
//!
//! Transactions take effect when they complete, so that what was acknowledged is there, and everyone reads one log in
//! one order. A tenth of the transactions abort; a few end without an answer, and their client is replaced by another
//! that goes on where it was. At the end as many fresh clients as there were read everything from the start.

use check::{Ack, Atom, Function, History, Op, Polled, Status};
use std::collections::BTreeMap;

/// What to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Shifts every choice.
    pub(crate) seed: u64,
    /// Clients at work at once.
    pub(crate) clients: u64,
    /// Operations before the final reads.
    pub(crate) operations: u64,
    /// After so many records a key is given up for a new one.
    pub(crate) records_per_key: u64,
    /// The most records that a poll returns.
    pub(crate) records_per_poll: usize,
    /// One in so many records takes the offset behind that of the next record of its key; none if 0. The log is then
    /// not in the order in which it was written, and dependencies make cycles.
    pub(crate) swap_one_in: u64,
}

struct Client {
    process: i64,
    /// How far it has read in the log.
    position: usize,
    /// The operation it has invoked: for each micro-operation the key and the value to send, or a poll.
    open: Option<Vec<Option<(i64, i64)>>>,
}

struct Cluster {
    load: Load,
    history: History,
    /// Committed records of all keys, in the order in which they became visible.
    log: Vec<Polled>,
    /// By slot: the key there, and how many records were sent to it.
    keys: Vec<(i64, i64)>,
    next_key: i64,
    /// By key: the next offset.
    ends: BTreeMap<i64, i64>,
    /// By key: the offset that was left for the next record.
    gaps: BTreeMap<i64, i64>,
    /// How many choices were made.
    choices: u64,
}

const SLOTS: u64 = 10;

/// The history of a load.
pub(crate) fn history(load: Load) -> History {
    let mut cluster = Cluster {
        load,
        history: History::default(),
        log: Vec::new(),
        keys: (0..SLOTS as i64).map(|key| (key, 0)).collect(),
        next_key: SLOTS as i64,
        ends: BTreeMap::new(),
        gaps: BTreeMap::new(),
        choices: 0,
    };
    let mut clients: Vec<Client> =
        (0..load.clients as i64).map(|process| Client { process, position: 0, open: None }).collect();
    let mut operations = 0;
    while operations < load.operations {
        let at = cluster.choose(load.clients) as usize;
        operations += u64::from(clients[at].open.is_some());
        cluster.step(&mut clients[at]);
    }
    for client in clients.iter_mut().filter(|client| client.open.is_some()) {
        cluster.step(client);
    }
    for client in &mut clients {
        client.process += load.clients as i64;
        client.position = 0;
        while client.position < cluster.log.len() {
            client.open = Some(vec![None]);
            cluster.invoke(client);
            cluster.complete(client, Status::Ok);
        }
    }
    cluster.history
}

impl Cluster {
    fn step(&mut self, client: &mut Client) {
        if client.open.is_some() {
            let status = match self.choose(100) {
                0 => Status::Info,
                1..=10 => Status::Fail,
                _ => Status::Ok,
            };
            self.complete(client, status);
        } else {
            let length = 1 + self.choose(4);
            let op = |_| if self.choose(2) == 0 { Some(self.next_record()) } else { None };
            client.open = Some((0..length).map(op).collect());
            self.invoke(client);
        }
    }

    fn invoke(&mut self, client: &Client) {
        let time_ns = self.history.len() as u64 * 1000;
        self.history.push(client.process, Status::Invoke, Function::Txn, time_ns);
        for op in client.open.iter().flatten() {
            match op {
                Some((key, value)) => self.history.send(*key, *value, Ack::None),
                None => self.history.poll_unanswered(),
            }
        }
    }

    fn complete(&mut self, client: &mut Client, status: Status) {
        let time_ns = self.history.len() as u64 * 1000;
        self.history.push(client.process, status, Function::Txn, time_ns);
        let (mut position, mut sent) = (client.position, Vec::new());
        for op in client.open.take().into_iter().flatten() {
            let Some((key, value)) = op else {
                let end = self.log.len().min(position + self.load.records_per_poll);
                let mut records = self.log[position..end].to_vec();
                records.sort_by_key(|record| (record.key, record.offset));
                self.history.poll(records);
                position = end;
                continue;
            };
            let offset = self.append(key);
            let ack = if status == Status::Info { Ack::None } else { Ack::At(offset) };
            self.history.send(key, value, ack);
            sent.push(Polled { key: Atom::Int(key), offset: Some(offset), value: Atom::Int(value) });
        }
        let is_committed = status == Status::Ok || (status == Status::Info && self.choose(2) == 0);
        if is_committed {
            self.log.extend(sent);
        }
        // Who fails goes back, as Jepsen's clients do.
        if status == Status::Ok {
            client.position = position;
        }
        if status == Status::Info {
            client.process += 2 * self.load.clients as i64;
        }
    }

    /// Key and value of one more record.
    fn next_record(&mut self) -> (i64, i64) {
        let slot = self.choose(SLOTS) as usize;
        if self.keys[slot].1 == self.load.records_per_key as i64 {
            self.keys[slot] = (self.next_key, 0);
            self.next_key += 1;
        }
        let (key, count) = &mut self.keys[slot];
        *count += 1;
        (*key, *count)
    }

    /// The offset of one more record. The marker of its transaction may leave a hole behind it.
    fn append(&mut self, key: i64) -> i64 {
        if let Some(offset) = self.gaps.remove(&key) {
            return offset;
        }
        let hole = self.choose(3) as i64 / 2;
        let is_swapped = self.load.swap_one_in > 0 && self.choose(self.load.swap_one_in) == 0;
        let end = self.ends.entry(key).or_default();
        if is_swapped {
            self.gaps.insert(key, *end);
            *end += 1;
        }
        *end += 1 + hole;
        *end - 1 - hole
    }

    /// A number below `count`, from the seed and how many were drawn before.
    fn choose(&mut self, count: u64) -> u64 {
        self.choices += 1;
        let mut mixed = (self.load.seed << 40 ^ self.choices).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % count
    }
}

/// How many records all polls of a history returned.
pub(crate) fn polled(history: &History) -> usize {
    history.events().map(|event| event.polled().count()).sum()
}

/// How many records were sent by completed operations.
pub(crate) fn sent(history: &History) -> usize {
    let done = history.events().filter(|event| event.status() != Status::Invoke);
    done.map(|event| event.ops().iter().filter(|op| matches!(op, Op::Send { .. })).count()).sum()
}
