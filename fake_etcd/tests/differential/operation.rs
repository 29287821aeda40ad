//! Generated operations. Each is a function of its seed and of the revision the case began at, so a case can be run
//! again, later and with any of its operations left out.

use bytes::Bytes;
use fake_etcd::api::*;

/// One step of a case.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Call(Request),
    /// Begins a watch under an id.
    Watch(i64, WatchRequest),
    /// Ends the watch of an id, if there is one.
    Unwatch(i64),
}

/// Keys with every edge: nested prefixes, the smallest successor of another, and the largest bytes. Few enough that
/// Go's sort keeps equals in order.
const KEYS: [&[u8]; 10] = [b"a", b"a\0", b"b", b"b/1", b"b/2", b"b/3", b"c", b"d", b"\xff", b"\xff\xff"];
const ENDS: [&[u8]; 5] = [b"\0", b"b0", b"c", b"e", b"\xff"];

/// A splitmix64 stream.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, ordinal: u64) -> Self {
        Dice(seed ^ ordinal.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// Step `ordinal` of the case `seed`, which began at revision `base` and has `length` steps.
pub(crate) fn step(seed: u64, ordinal: u64, length: u64, base: i64) -> Step {
    let generator = &mut Generator { dice: Dice::new(seed, ordinal), base, length: length as i64 };
    match generator.dice.below(100) {
        0..35 => Step::Call(Request::Txn(generator.txn(0))),
        35..52 => Step::Call(Request::Put(generator.put())),
        52..62 => Step::Call(Request::DeleteRange(generator.delete())),
        62..82 => Step::Call(Request::Range(generator.range())),
        82..93 => Step::Call(generator.lease_request()),
        93 => Step::Call(Request::Compact { revision: generator.revision() }),
        94..98 => Step::Watch(1 + generator.dice.below(9) as i64, generator.watch()),
        _ => Step::Unwatch(1 + generator.dice.below(9) as i64),
    }
}

struct Generator {
    dice: Dice,
    base: i64,
    length: i64,
}

impl Generator {
    fn key(&mut self) -> Bytes {
        if self.dice.one_in(150) { Bytes::new() } else { Bytes::from_static(self.dice.pick(&KEYS)) }
    }

    fn end(&mut self) -> Bytes {
        match self.dice.below(5) {
            0..3 => Bytes::new(),
            3 => Bytes::from_static(self.dice.pick(&ENDS)),
            _ => Bytes::from_static(self.dice.pick(&KEYS)),
        }
    }

    fn value(&mut self) -> Bytes {
        Bytes::from_static(self.dice.pick(&[b"".as_slice(), b"v", b"w", b"\0\xff", b"a longer value"]))
    }

    /// Mostly one that exists or will, sometimes one that was compacted or will never be.
    fn revision(&mut self) -> i64 {
        match self.dice.below(20) {
            0 => self.base - 1 - self.dice.below(3) as i64,
            1 => -(self.dice.below(3) as i64),
            2 => self.base + self.length * 2,
            _ => self.base + self.dice.below(self.length as u64 / 2 + 1) as i64,
        }
    }

    fn bound(&mut self) -> i64 {
        if self.dice.one_in(6) { self.revision() } else { 0 }
    }

    fn lease(&mut self) -> i64 {
        if self.dice.one_in(3) { 1 + self.dice.below(5) as i64 } else { 0 }
    }

    fn range(&mut self) -> RangeRequest {
        let targets = [
            SortTarget::Key,
            SortTarget::Version,
            SortTarget::CreateRevision,
            SortTarget::ModRevision,
            SortTarget::Value,
        ];
        let orders = [SortOrder::None, SortOrder::Ascend, SortOrder::Descend];
        let sorted = self.dice.one_in(3);
        RangeRequest {
            uncounted: false,
            key: self.key(),
            range_end: self.end(),
            limit: if self.dice.one_in(3) { self.dice.below(5) as i64 - 1 } else { 0 },
            revision: if self.dice.one_in(3) { self.revision() } else { 0 },
            sort: sorted.then(|| (self.dice.pick(&targets), self.dice.pick(&orders))),
            serializable: self.dice.one_in(4),
            keys_only: self.dice.one_in(6),
            count_only: self.dice.one_in(8),
            min_mod_revision: self.bound(),
            max_mod_revision: self.bound(),
            min_create_revision: self.bound(),
            max_create_revision: self.bound(),
        }
    }

    fn put(&mut self) -> PutRequest {
        let (ignore_value, ignore_lease) = (self.dice.one_in(12), self.dice.one_in(12));
        PutRequest {
            key: self.key(),
            value: if ignore_value && !self.dice.one_in(6) { Bytes::new() } else { self.value() },
            lease: if ignore_lease && !self.dice.one_in(6) { 0 } else { self.lease() },
            prev_kv: self.dice.one_in(3),
            ignore_value,
            ignore_lease,
        }
    }

    fn delete(&mut self) -> DeleteRangeRequest {
        DeleteRangeRequest { key: self.key(), range_end: self.end(), prev_kv: self.dice.one_in(3) }
    }

    fn compare(&mut self) -> Compare {
        let ops = [CompareOp::Equal, CompareOp::NotEqual, CompareOp::Greater, CompareOp::Less];
        let target = match self.dice.below(5) {
            0 => CompareTarget::Version(self.dice.below(4) as i64),
            1 => CompareTarget::CreateRevision(if self.dice.one_in(2) { 0 } else { self.revision() }),
            2 => CompareTarget::ModRevision(if self.dice.one_in(2) { 0 } else { self.revision() }),
            3 => CompareTarget::Value(self.value()),
            _ => CompareTarget::Lease(self.lease()),
        };
        Compare { key: self.key(), range_end: self.end(), op: self.dice.pick(&ops), target }
    }

    fn txn(&mut self, depth: u32) -> TxnRequest {
        let compare = (0..self.dice.below(3)).map(|_| self.compare()).collect();
        let mut txn = TxnRequest { compare, success: self.ops(depth), failure: self.ops(depth) };
        if depth == 0 && deletes_from(&txn) {
            keep_nothing(&mut txn);
        }
        txn
    }

    fn ops(&mut self, depth: u32) -> Vec<Op> {
        let count = if self.dice.one_in(400) { 120 + self.dice.below(20) } else { self.dice.below(4) };
        (0..count).map(|_| self.op(depth)).collect()
    }

    fn op(&mut self, depth: u32) -> Op {
        match self.dice.below(10) {
            0..5 => Op::Put(self.put()),
            5..7 => Op::DeleteRange(self.delete()),
            7 if depth < 3 => Op::Txn(self.txn(depth + 1)),
            _ => Op::Range(self.range()),
        }
    }

    fn lease_request(&mut self) -> Request {
        let id = 1 + self.dice.below(5) as i64;
        match self.dice.below(9) {
            0..3 => Request::LeaseGrant { ttl_s: self.ttl_s(), id },
            3 => Request::LeaseRevoke { id },
            4 | 5 => Request::LeaseKeepAlive { id },
            6 | 7 => Request::LeaseTimeToLive { id, keys: self.dice.one_in(2) },
            _ => Request::LeaseLeases,
        }
    }

    /// Long enough that nothing runs out, and far enough apart that the order of deadlines is plain.
    fn ttl_s(&mut self) -> i64 {
        if self.dice.one_in(20) { 9_000_000_001 } else { 10_000 * (1 + self.dice.below(50) as i64) }
    }

    fn watch(&mut self) -> WatchRequest {
        let start_revision = if self.dice.one_in(2) { 0 } else { self.revision() };
        let (no_put, no_delete) = (self.dice.one_in(6), self.dice.one_in(6));
        WatchRequest {
            key: self.key(),
            range_end: self.end(),
            start_revision,
            progress_notify: false,
            no_put,
            // One that is told nothing at all cannot be waited for, so it must not have a past to catch up with.
            no_delete: no_delete && !(no_put && start_revision != 0),
            fragment: self.dice.one_in(3),
            prev_kv: self.dice.one_in(2),
        }
    }
}

/// Whether it deletes every key from one on.
fn deletes_from(txn: &TxnRequest) -> bool {
    txn.success.iter().chain(&txn.failure).any(|op| match op {
        Op::DeleteRange(delete) => delete.range_end == b"\0"[..],
        Op::Txn(nested) => deletes_from(nested),
        Op::Put(_) | Op::Range(_) => false,
    })
}

/// A put that keeps what such a deletion took ends a real etcd for good, so none is sent.
fn keep_nothing(txn: &mut TxnRequest) {
    for op in txn.success.iter_mut().chain(&mut txn.failure) {
        match op {
            Op::Put(put) => (put.ignore_value, put.ignore_lease) = (false, false),
            Op::Txn(nested) => keep_nothing(nested),
            Op::DeleteRange(_) | Op::Range(_) => {}
        }
    }
}
