//! The multi-version index: what every key was at every revision since the last compaction.
//!
//! Two views of the same records: per key, in order of revision (reads at a revision), and per revision, in order of
//! operation (watches). Records are shared, so a value is kept once. A transaction opens a [`Writer`], which makes at
//! most one new revision. `mvcc.key_index.go` is the model for what compaction keeps.

use crate::api::KeyValue;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// The keys a request speaks of, decoded from `key` and `range_end`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Span<'a> {
    One(&'a [u8]),
    Within(&'a [u8], &'a [u8]),
    From(&'a [u8]),
}

impl<'a> Span<'a> {
    pub(crate) fn new(key: &'a [u8], range_end: &'a [u8]) -> Self {
        match range_end {
            [] => Span::One(key),
            [0] => Span::From(key),
            end => Span::Within(key, end),
        }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        match *self {
            Span::One(one) => key == one,
            Span::Within(start, end) => start <= key && key < end,
            Span::From(start) => start <= key,
        }
    }
}

/// A key's records, oldest first; never empty.
#[derive(Debug)]
struct History {
    records: Vec<Arc<KeyValue>>,
    /// Mod revision of the newest record: here, as the next, so that a count of many keys looks at no record.
    revision: i64,
    /// The newest record is no tombstone.
    live: bool,
}

impl History {
    fn new(first: Arc<KeyValue>) -> Self {
        History { revision: first.mod_revision, live: !first.is_tombstone(), records: vec![first] }
    }

    fn push(&mut self, record: Arc<KeyValue>) {
        (self.revision, self.live) = (record.mod_revision, !record.is_tombstone());
        self.records.push(record);
    }

    fn newest(&self) -> &Arc<KeyValue> {
        self.records.last().expect("a history is never empty")
    }

    /// The live record as of `revision`.
    fn at(&self, revision: i64) -> Option<&Arc<KeyValue>> {
        if self.revision <= revision {
            return self.live.then(|| self.newest());
        }
        let newer = self.records.partition_point(|record| record.mod_revision <= revision);
        self.records.get(newer.checked_sub(1)?).filter(|record| !record.is_tombstone())
    }

    /// Whether it is live as of `revision`.
    fn lives(&self, revision: i64) -> bool {
        if self.revision <= revision { self.live } else { self.at(revision).is_some() }
    }
}

#[derive(Debug)]
pub(crate) struct Index {
    keys: BTreeMap<Bytes, History>,
    /// `log[i]` holds the records of revision `log_first + i`, in order of operation.
    log: VecDeque<Vec<Arc<KeyValue>>>,
    log_first: i64,
    revision: i64,
    compacted: i64,
    bytes: i64,
}

impl Index {
    /// An empty index at revision 1, as a new etcd.
    pub(crate) fn new() -> Self {
        Index {
            keys: BTreeMap::new(),
            log: VecDeque::new(),
            log_first: 2,
            revision: 1,
            compacted: -1,
            bytes: 0,
        }
    }

    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    /// The revision of the last compaction, which is the first still readable; -1 before any.
    pub(crate) fn compacted(&self) -> i64 {
        self.compacted
    }

    /// Bytes of the keys and values of every record kept.
    pub(crate) fn bytes(&self) -> i64 {
        self.bytes
    }

    /// The key as of `revision`.
    pub(crate) fn get(&self, key: &[u8], revision: i64) -> Option<&Arc<KeyValue>> {
        self.keys.get(key).and_then(|history| history.at(revision))
    }

    /// The live keys of a span as of `revision`, in order.
    pub(crate) fn live<'i>(
        &'i self,
        span: Span<'_>,
        revision: i64,
    ) -> impl Iterator<Item = &'i Arc<KeyValue>> + use<'i> {
        self.histories(span).filter_map(move |history| history.at(revision))
    }

    /// How many keys of a span are live as of `revision`.
    pub(crate) fn count(&self, span: Span<'_>, revision: i64) -> usize {
        self.histories(span).filter(|history| history.lives(revision)).count()
    }

    /// The records made at `revision`, in order of operation; none if it was compacted or is still to come.
    pub(crate) fn changes(&self, revision: i64) -> &[Arc<KeyValue>] {
        usize::try_from(revision - self.log_first)
            .ok()
            .and_then(|i| self.log.get(i))
            .map_or(&[], Vec::as_slice)
    }

    /// The revisions from `first` on that changed a key of the span, in order. Costs what the span's keys changed
    /// since, not what everything did.
    pub(crate) fn revisions_since(&self, span: Span<'_>, first: i64) -> Vec<i64> {
        let mut revisions: Vec<i64> = self
            .histories(span)
            .flat_map(|history| {
                let from = history.records.partition_point(|record| record.mod_revision < first);
                history.records[from..].iter().map(|record| record.mod_revision)
            })
            .collect();
        revisions.sort_unstable();
        revisions.dedup();
        revisions
    }

    /// Begins a transaction that may write.
    pub(crate) fn write(&mut self) -> Writer<'_> {
        Writer { index: self, changes: Vec::new() }
    }

    /// Forgets what was superseded before `revision`: of each key remain its newest record up to `revision` (a
    /// tombstone only if it was made just then) and all later ones.
    pub(crate) fn compact(&mut self, revision: i64, keep_tombstones: bool) {
        self.compacted = revision;
        let mut freed = 0;
        self.keys.retain(|_, history| {
            let records = &mut history.records;
            let newer = records.partition_point(|record| record.mod_revision <= revision);
            if let Some(last) = newer.checked_sub(1) {
                let dead = records[last].is_tombstone()
                    && !(keep_tombstones && records[last].mod_revision == revision);
                let old = records.drain(..if dead { newer } else { last });
                freed += old.map(|record| size(&record)).sum::<i64>();
            }
            !records.is_empty()
        });
        self.bytes -= freed;
        let old = usize::try_from(revision - self.log_first).unwrap_or(0).min(self.log.len());
        self.log.drain(..old);
        self.log_first += old as i64;
        if revision == self.log_first
            && let Some(changes) = self.log.front_mut()
        {
            // Of a key changed twice in this revision the last change remains.
            let mut later = BTreeSet::new();
            let newest_first = std::mem::take(changes).into_iter().rev();
            let last = newest_first.filter(|record| later.insert(record.key.clone()));
            changes.extend(last.filter(|record| keep_tombstones || !record.is_tombstone()));
            changes.reverse();
        }
    }

    /// How many records and revisions are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> (usize, usize) {
        (self.keys.values().map(|history| history.records.len()).sum(), self.log.len())
    }

    fn histories<'i>(&'i self, span: Span<'_>) -> impl Iterator<Item = &'i History> + use<'i> {
        let (one, range) = match span {
            Span::One(key) => (self.keys.get(key), None),
            // An inverted range is empty, and BTreeMap panics on one.
            Span::Within(start, end) => {
                (None, Some((Bound::Included(start), Bound::Excluded(end.max(start)))))
            }
            Span::From(start) => (None, Some((Bound::Included(start), Bound::Unbounded))),
        };
        let many = range.map(|range| self.keys.range::<[u8], _>(range).map(|(_, history)| history));
        one.into_iter().chain(many.into_iter().flatten())
    }
}

fn size(record: &KeyValue) -> i64 {
    (record.key.len() + record.value.len()) as i64
}

/// One transaction. Its writes are seen by its own later operations at once, and by others after [`Writer::commit`].
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    index: &'a mut Index,
    changes: Vec<Arc<KeyValue>>,
}

impl Writer<'_> {
    pub(crate) fn index(&self) -> &Index {
        self.index
    }

    /// The revision its operations read at, which is also what their headers say.
    pub(crate) fn revision(&self) -> i64 {
        self.index.revision + i64::from(!self.changes.is_empty())
    }

    /// Puts a key and returns its record as it was.
    pub(crate) fn put(&mut self, key: &Bytes, value: Bytes, lease: i64) -> Option<Arc<KeyValue>> {
        let main = self.index.revision + 1;
        let record = |key: &Bytes, create_revision, version| {
            let key = key.clone();
            Arc::new(KeyValue { key, value, create_revision, mod_revision: main, version, lease })
        };
        let (before, record) = match self.index.keys.get_mut(key) {
            Some(history) => {
                let last = history.newest();
                let before = history.live.then(|| last.clone());
                let (create_revision, version) =
                    before.as_ref().map_or((main, 1), |before| (before.create_revision, before.version + 1));
                // Shares the key that is kept already instead of keeping each request's own copy.
                let record = record(&last.key, create_revision, version);
                history.push(record.clone());
                (before, record)
            }
            None => {
                let record = record(key, main, 1);
                self.index.keys.insert(key.clone(), History::new(record.clone()));
                (None, record)
            }
        };
        self.push(record);
        before
    }

    /// Deletes the live keys of a span and returns their records as they were.
    pub(crate) fn delete(&mut self, span: Span<'_>) -> Vec<Arc<KeyValue>> {
        let before: Vec<_> = self.index.live(span, self.revision()).cloned().collect();
        let main = self.index.revision + 1;
        for record in &before {
            let tombstone =
                Arc::new(KeyValue { key: record.key.clone(), mod_revision: main, ..Default::default() });
            self.index.keys.get_mut(&record.key).expect("it is live").push(tombstone.clone());
            self.push(tombstone);
        }
        before
    }

    fn push(&mut self, record: Arc<KeyValue>) {
        self.index.bytes += size(&record);
        self.changes.push(record);
    }

    /// Ends the transaction; returns the revision it made, if it wrote anything.
    pub(crate) fn commit(self) -> Option<i64> {
        if self.changes.is_empty() {
            return None;
        }
        self.index.revision += 1;
        self.index.log.push_back(self.changes);
        Some(self.index.revision)
    }
}
