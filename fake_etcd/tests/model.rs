//! The store against a naive model: the list of all writes, from which every answer is recomputed from nothing.

use bytes::Bytes;
use fake_etcd::Store;
use fake_etcd::api::*;
use fake_etcd::error::EtcdError;
use proptest::prelude::*;
use rt::time::Instant;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// One change: revision, key, and value with lease, or nothing for a deletion.
type Change = (i64, Bytes, Option<(Bytes, i64)>);

#[derive(Default)]
struct Model {
    changes: Vec<Change>,
    compacted: Option<i64>,
    /// Deadline in seconds and TTL, by id.
    leases: BTreeMap<i64, (u64, i64)>,
}

impl Model {
    fn revision(&self) -> i64 {
        self.changes.last().map_or(1, |(revision, ..)| *revision)
    }

    fn at(&self, revision: i64) -> BTreeMap<Bytes, KeyValue> {
        let mut keys: BTreeMap<Bytes, KeyValue> = BTreeMap::new();
        for (made, key, change) in self.changes.iter().filter(|(made, ..)| *made <= revision) {
            match change {
                Some((value, lease)) => {
                    let kv = keys.entry(key.clone()).or_insert_with(|| KeyValue {
                        key: key.clone(),
                        create_revision: *made,
                        ..Default::default()
                    });
                    (kv.value, kv.lease, kv.mod_revision) = (value.clone(), *lease, *made);
                    kv.version += 1;
                }
                None => drop(keys.remove(key)),
            }
        }
        keys
    }

    fn range(&self, request: &RangeRequest, now: i64) -> Result<(Vec<KeyValue>, bool, i64), EtcdError> {
        if request.revision > now {
            return Err(EtcdError::FUTURE_REVISION);
        }
        if request.revision > 0 && self.compacted.is_some_and(|compacted| request.revision < compacted) {
            return Err(EtcdError::COMPACTED);
        }
        let keys = self.at(if request.revision > 0 { request.revision } else { now });
        let mut found: Vec<_> =
            keys.into_values().filter(|kv| within(&kv.key, &request.key, &request.range_end)).collect();
        let count = found.len() as i64;
        let more = request.limit > 0 && count > request.limit;
        if more {
            found.truncate(request.limit as usize);
        }
        Ok((found, more, count))
    }

    fn put(&mut self, revision: i64, request: &PutRequest) {
        self.changes.push((revision, request.key.clone(), Some((request.value.clone(), request.lease))));
    }

    fn delete(&mut self, revision: i64, hit: impl Fn(&KeyValue) -> bool) -> i64 {
        let gone: Vec<_> = self.at(revision).into_values().filter(hit).map(|kv| kv.key).collect();
        let count = gone.len() as i64;
        self.changes.extend(gone.into_iter().map(|key| (revision, key, None)));
        count
    }

    fn expire(&mut self, now: u64) {
        let mut due: Vec<_> =
            self.leases.iter().filter(|(_, (at, _))| *at <= now).map(|(id, (at, _))| (*at, *id)).collect();
        due.sort_unstable();
        for (_, id) in due {
            self.revoke(id);
        }
    }

    fn revoke(&mut self, id: i64) -> bool {
        let known = self.leases.remove(&id).is_some();
        if known {
            self.delete(self.revision() + 1, |kv| kv.lease == id);
        }
        known
    }

    fn holds(&self, compare: &Compare) -> bool {
        let kv = self.at(self.revision()).remove(&compare.key);
        let exists = kv.is_some();
        let kv = kv.unwrap_or_default();
        let ordering = match &compare.target {
            CompareTarget::Version(n) => kv.version.cmp(n),
            CompareTarget::CreateRevision(n) => kv.create_revision.cmp(n),
            CompareTarget::ModRevision(n) => kv.mod_revision.cmp(n),
            CompareTarget::Lease(n) => kv.lease.cmp(n),
            CompareTarget::Value(value) => {
                if !exists {
                    return false;
                }
                kv.value.cmp(value)
            }
        };
        match compare.op {
            CompareOp::Equal => ordering.is_eq(),
            CompareOp::NotEqual => ordering.is_ne(),
            CompareOp::Greater => ordering.is_gt(),
            CompareOp::Less => ordering.is_lt(),
        }
    }

    fn txn(&mut self, request: &TxnRequest) -> Result<TxnResponse, EtcdError> {
        for branch in [&request.success, &request.failure] {
            let mut puts = BTreeSet::new();
            for op in branch {
                let Op::Put(put) = op else { continue };
                let deleted = branch.iter().any(|op| {
                    matches!(op, Op::DeleteRange(delete)
                        if delete.range_end != b"\0"[..] && within(&put.key, &delete.key, &delete.range_end))
                });
                if deleted || !puts.insert(put.key.clone()) {
                    return Err(EtcdError::DUPLICATE_KEY);
                }
            }
        }
        let succeeded = request.compare.iter().all(|compare| self.holds(compare));
        let ops = if succeeded { &request.success } else { &request.failure };
        for op in ops {
            match op {
                Op::Put(put) if put.lease != 0 && !self.leases.contains_key(&put.lease) => {
                    return Err(EtcdError::LEASE_NOT_FOUND);
                }
                Op::Range(range) => drop(self.range(range, self.revision())?),
                _ => {}
            }
        }
        let next = self.revision() + 1;
        let mut responses = Vec::new();
        for op in ops {
            responses.push(match op {
                Op::Range(range) => {
                    let revision = self.revision();
                    let (kvs, more, count) = self.range(range, revision)?;
                    let kvs = kvs.into_iter().map(Into::into).collect();
                    OpResponse::Range(RangeResponse { revision, kvs, more, count })
                }
                Op::Put(put) => {
                    self.put(next, put);
                    OpResponse::Put(PutResponse { revision: next, prev_kv: None })
                }
                Op::Txn(_) => unreachable!("not generated: the comparison with a real server has them"),
                Op::DeleteRange(delete) => {
                    let deleted = self.delete(next, |kv| within(&kv.key, &delete.key, &delete.range_end));
                    OpResponse::DeleteRange(DeleteRangeResponse {
                        revision: self.revision(),
                        deleted,
                        prev_kvs: vec![],
                    })
                }
            });
        }
        Ok(TxnResponse { revision: self.revision(), succeeded, responses })
    }

    fn apply(&mut self, now: u64, request: &Request) -> Result<Response, EtcdError> {
        Ok(match request {
            Request::Range(range) => {
                let revision = self.revision();
                let (kvs, more, count) = self.range(range, revision)?;
                let kvs = kvs.into_iter().map(Into::into).collect();
                Response::Range(RangeResponse { revision, kvs, more, count })
            }
            Request::Txn(txn) => Response::Txn(self.txn(txn)?),
            Request::Compact { revision } => {
                if self.compacted.is_some_and(|compacted| *revision <= compacted) {
                    return Err(EtcdError::COMPACTED);
                }
                if *revision > self.revision() {
                    return Err(EtcdError::FUTURE_REVISION);
                }
                self.compacted = Some(*revision);
                Response::Compact { revision: self.revision() }
            }
            Request::LeaseGrant { ttl_s, id } => {
                if self.leases.contains_key(id) {
                    return Err(EtcdError::LEASE_EXISTS);
                }
                let ttl_s = (*ttl_s).max(2);
                self.leases.insert(*id, (now + ttl_s as u64, ttl_s));
                Response::LeaseGrant { revision: self.revision(), id: *id, ttl_s }
            }
            Request::LeaseRevoke { id } => {
                if !self.revoke(*id) {
                    return Err(EtcdError::LEASE_NOT_FOUND);
                }
                Response::LeaseRevoke { revision: self.revision() }
            }
            Request::LeaseKeepAlive { id } => {
                let revision = self.revision();
                if self.leases.get(id).is_some_and(|(at, _)| *at <= now) {
                    self.revoke(*id);
                }
                let ttl_s = match self.leases.get_mut(id) {
                    Some((at, ttl_s)) => {
                        *at = now + *ttl_s as u64;
                        *ttl_s
                    }
                    None => 0,
                };
                Response::LeaseKeepAlive { revision, id: *id, ttl_s }
            }
            other => unreachable!("not generated: {other:?}"),
        })
    }
}

fn within(key: &Bytes, start: &Bytes, end: &Bytes) -> bool {
    match end.as_ref() {
        [] => key == start,
        [0] => key >= start,
        _ => key >= start && key < end,
    }
}

fn key() -> impl Strategy<Value = Bytes> {
    (0..4u8).prop_map(|n| Bytes::from(vec![b'a' + n]))
}

fn end() -> impl Strategy<Value = Bytes> {
    prop_oneof![2 => Just(Bytes::new()), 1 => key(), 1 => Just(Bytes::from_static(b"\0"))]
}

fn range() -> impl Strategy<Value = RangeRequest> {
    (key(), end(), prop_oneof![Just(0i64), 0..30i64], 0..3i64).prop_map(
        |(key, range_end, revision, limit)| RangeRequest {
            key,
            range_end,
            revision,
            limit,
            ..Default::default()
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let lease = prop_oneof![4 => Just(0i64), 2 => 1..4i64];
    prop_oneof![
        1 => range().prop_map(Op::Range),
        4 => (key(), 0..3u8, lease).prop_map(|(key, value, lease)| {
            Op::Put(PutRequest { lease, ..PutRequest::new(key, vec![value]) })
        }),
        2 => (key(), end()).prop_map(|(key, range_end)| {
            Op::DeleteRange(DeleteRangeRequest { key, range_end, prev_kv: false })
        }),
    ]
}

fn compare() -> impl Strategy<Value = Compare> {
    let op = prop::sample::select(vec![
        CompareOp::Equal,
        CompareOp::NotEqual,
        CompareOp::Greater,
        CompareOp::Less,
    ]);
    let target = (0..5u8, 0..12i64).prop_map(|(kind, n)| match kind {
        0 => CompareTarget::Version(n),
        1 => CompareTarget::CreateRevision(n),
        2 => CompareTarget::ModRevision(n),
        3 => CompareTarget::Lease(n),
        _ => CompareTarget::Value(Bytes::from(vec![n as u8])),
    });
    (key(), op, target).prop_map(|(key, op, target)| Compare::new(key, op, target))
}

fn request() -> impl Strategy<Value = Request> {
    let ops = || prop::collection::vec(op(), 0..4);
    prop_oneof![
        3 => range().prop_map(Request::Range),
        8 => (prop::collection::vec(compare(), 0..3), ops(), ops())
            .prop_map(|(compare, success, failure)| Request::Txn(TxnRequest { compare, success, failure })),
        1 => (0..40i64).prop_map(|revision| Request::Compact { revision }),
        2 => (1..6i64, 1..4i64).prop_map(|(ttl_s, id)| Request::LeaseGrant { ttl_s, id }),
        1 => (1..4i64).prop_map(|id| Request::LeaseRevoke { id }),
        2 => (1..4i64).prop_map(|id| Request::LeaseKeepAlive { id }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..Default::default() })]

    #[test]
    fn the_store_answers_as_the_list_of_all_writes_does(
        steps in prop::collection::vec((request(), 0..2u64, any::<bool>()), 1..60)
    ) {
        let (mut store, mut model) = (Store::new(), Model::default());
        let mut now = 0;
        for (request, wait, looks) in steps {
            now += wait;
            let instant = Instant::from_nanos(0) + Duration::from_secs(now);
            if looks {
                store.expire(instant);
                model.expire(now);
            }
            let before = store.revision();
            let applied = store.apply(instant, &request);
            prop_assert_eq!(&applied.response, &model.apply(now, &request), "{:?}", request);
            prop_assert_eq!(store.revision(), model.revision());
            prop_assert_eq!(applied.revision, (store.revision() > before).then_some(store.revision()));
        }
        for revision in 2..=store.revision() {
            let told: Vec<_> = store.events(revision).iter().map(|event| event.kv.key.clone()).collect();
            let kept = model.compacted.is_none_or(|compacted| revision >= compacted);
            let made: Vec<_> = model.changes.iter().filter(|(made, ..)| kept && *made == revision).collect();
            // Of a key changed twice in the compacted revision the last change remains.
            let last = |n: usize| made[n + 1..].iter().all(|(_, key, _)| *key != made[n].1);
            let all = model.compacted != Some(revision);
            let want = (0..made.len()).filter(|n| all || last(*n)).map(|n| made[n]);
            prop_assert_eq!(told, want.map(|(_, key, _)| key.clone()).collect::<Vec<_>>());
        }
    }
}
