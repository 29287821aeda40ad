//! The state machine: what etcd's disk holds, and what each request does to it.
//!
//! Pure: no runtime, no clock of its own, no chance. The same requests at the same times give the same responses.
//! Watches are not here, as they do not outlive a process; they read this store through [`Store::events`].

mod check;
mod index;
mod lease;
mod read;
#[cfg(test)]
mod tests;
mod txn;

pub(crate) use index::{Index, Span};

use crate::api::{
    DeleteRangeRequest, DeleteRangeResponse, Event, EventKind, KeyValue, PutRequest, PutResponse,
    RangeRequest, RangeResponse, Request, Response, StatusResponse,
};
use crate::error::EtcdError;
use crate::quirks::Quirks;
use index::Writer;
use lease::Leases;
use rt::time::Instant;
use std::sync::Arc;

/// A key-value store with leases, at revision 1 when new.
#[derive(Debug)]
pub struct Store {
    index: Index,
    leases: Leases,
    quirks: Quirks,
    raft_index: u64,
    raft_term: u64,
}

/// The version of etcd whose behaviour this is.
const VERSION: &str = "3.6.16";

/// What a request did.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The answer.
    pub response: Result<Response, EtcdError>,
    /// The revision it made, if it changed a key; [`Store::events`] has the changes.
    pub revision: Option<i64>,
}

impl Default for Store {
    fn default() -> Self {
        Store::new()
    }
}

impl Store {
    /// An empty store that behaves as etcd promises.
    pub fn new() -> Self {
        Store::with_quirks(Quirks::default())
    }

    /// An empty store with deviations, which its server and watches share.
    pub fn with_quirks(quirks: Quirks) -> Self {
        Store { index: Index::new(), leases: Leases::default(), quirks, raft_index: 0, raft_term: 1 }
    }

    pub(crate) fn quirks(&self) -> &Quirks {
        &self.quirks
    }

    /// The current revision.
    pub fn revision(&self) -> i64 {
        self.index.revision()
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// Does what a request asks, the server's monotonic clock showing `now`.
    pub fn apply(&mut self, now: Instant, request: &Request) -> Applied {
        let mut revision = None;
        let response = check::check(request).and_then(|()| {
            self.raft_index += u64::from(request.is_proposal());
            self.execute(now, request, &mut revision)
        });
        Applied { response, revision }
    }

    fn execute(
        &mut self,
        now: Instant,
        request: &Request,
        made: &mut Option<i64>,
    ) -> Result<Response, EtcdError> {
        Ok(match request {
            Request::Range(request) => {
                let lag = if request.serializable { self.quirks.serializable_lag_revisions } else { 0 };
                Response::Range(self.range_as_of(request, self.revision() - lag)?)
            }
            Request::Put(request) => {
                self.check_lease(request)?;
                self.check_kept(request)?;
                let mut writer = self.index.write();
                let response = put(&mut writer, &mut self.leases, request);
                *made = writer.commit();
                Response::Put(response)
            }
            Request::DeleteRange(request) => {
                let mut writer = self.index.write();
                let response = delete_range(&mut writer, &mut self.leases, request);
                *made = writer.commit();
                Response::DeleteRange(response)
            }
            Request::Txn(request) => Response::Txn(self.txn(request, made)?),
            Request::Compact { revision } => {
                self.compact(*revision)?;
                Response::Compact { revision: self.revision() }
            }
            Request::LeaseGrant { ttl_s, id } => {
                let (id, ttl_s) = self.leases.grant(now, *ttl_s, *id)?;
                Response::LeaseGrant { revision: self.revision(), id, ttl_s }
            }
            Request::LeaseRevoke { id } => {
                *made = self.revoke(*id)?;
                Response::LeaseRevoke { revision: self.revision() }
            }
            Request::LeaseKeepAlive { id } => {
                let revision = self.revision();
                // etcd lets the renewal of a lease whose time is over wait until it is revoked.
                if self.leases.is_due(now, *id) {
                    *made = self.revoke(*id)?;
                }
                let ttl_s = self.leases.renew(now, *id).unwrap_or(0);
                Response::LeaseKeepAlive { revision, id: *id, ttl_s }
            }
            Request::LeaseTimeToLive { id, keys } => {
                let mut response = self.leases.time_to_live(now, *id, *keys);
                response.revision = self.revision();
                Response::LeaseTimeToLive(response)
            }
            Request::LeaseLeases => {
                Response::LeaseLeases { revision: self.revision(), ids: self.leases.ids() }
            }
            Request::Status => Response::Status(StatusResponse {
                revision: self.revision(),
                version: VERSION.to_string(),
                db_size_bytes: self.index.bytes(),
                raft_index: self.raft_index,
                raft_term: self.raft_term,
            }),
        })
    }

    /// Reads as a member that knows nothing after `known`, or after the last compaction if that is later.
    pub(crate) fn range_as_of(&self, request: &RangeRequest, known: i64) -> Result<RangeResponse, EtcdError> {
        let oldest = self.index.compacted().max(1);
        read::range(&self.index, request, known.clamp(oldest.min(self.revision()), self.revision()))
    }

    fn check_lease(&self, request: &PutRequest) -> Result<(), EtcdError> {
        if request.lease != 0 && !self.leases.exists(request.lease) {
            return Err(EtcdError::LEASE_NOT_FOUND);
        }
        Ok(())
    }

    fn check_kept(&self, request: &PutRequest) -> Result<(), EtcdError> {
        let keeps = request.ignore_value || request.ignore_lease;
        if keeps && self.index.get(&request.key, self.revision()).is_none() {
            return Err(EtcdError::KEY_NOT_FOUND);
        }
        Ok(())
    }

    fn compact(&mut self, revision: i64) -> Result<(), EtcdError> {
        if revision <= self.index.compacted() {
            return Err(EtcdError::COMPACTED);
        }
        if revision > self.revision() {
            return Err(EtcdError::FUTURE_REVISION);
        }
        self.index.compact(revision, !self.quirks.compaction_drops_tombstones);
        Ok(())
    }

    /// Ends a lease and deletes its keys, in order of key, in one revision; in none if it has no keys.
    fn revoke(&mut self, id: i64) -> Result<Option<i64>, EtcdError> {
        let keys = self.leases.remove(id)?;
        let mut writer = self.index.write();
        for key in &keys {
            writer.delete(Span::One(key));
        }
        Ok(writer.commit())
    }

    /// When the next lease runs out.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.leases.next_deadline().map(|(deadline, _)| deadline)
    }

    /// Revokes the leases whose time is over at `now`, in order of deadline; returns the revisions made.
    pub fn expire(&mut self, now: Instant) -> Vec<i64> {
        let mut revisions = Vec::new();
        while let Some((deadline, id)) = self.leases.next_deadline() {
            if deadline > now {
                break;
            }
            self.raft_index += 1;
            revisions.extend(self.revoke(id).expect("it has a deadline, so it exists"));
        }
        revisions
    }

    /// What a starting server does first: it elects itself, and every lease gets its full TTL again, and one second (an election timeout).
    pub fn recover(&mut self, now: Instant) {
        self.raft_index += 1;
        self.raft_term += 1;
        self.leases.extend_all(now);
    }

    /// The changes of one revision, with the keys as they were before; none once compacted.
    pub fn events(&self, revision: i64) -> Vec<Event> {
        self.index.changes(revision).iter().map(|record| self.event(record, true)).collect()
    }

    pub(crate) fn event(&self, record: &Arc<KeyValue>, prev_kv: bool) -> Event {
        let kind = if record.is_tombstone() { EventKind::Delete } else { EventKind::Put };
        let before = record.mod_revision - 1;
        let created = record.create_revision == record.mod_revision;
        let prev_kv = if prev_kv && !created && before >= self.index.compacted() {
            self.index.get(&record.key, before).cloned()
        } else {
            None
        };
        Event { kind, kv: record.clone(), prev_kv }
    }
}

fn put(writer: &mut Writer<'_>, leases: &mut Leases, request: &PutRequest) -> PutResponse {
    let kept = if request.ignore_value || request.ignore_lease {
        writer.index().get(&request.key, writer.revision()).cloned()
    } else {
        None
    };
    let value = kept.as_ref().filter(|_| request.ignore_value).map_or(&request.value, |kept| &kept.value);
    let lease = kept.as_ref().filter(|_| request.ignore_lease).map_or(request.lease, |kept| kept.lease);
    let before = writer.put(&request.key, value.clone(), lease);
    leases.reattach(&request.key, before.as_ref().map_or(0, |before| before.lease), lease);
    PutResponse { revision: writer.revision(), prev_kv: before.filter(|_| request.prev_kv) }
}

fn delete_range(
    writer: &mut Writer<'_>,
    leases: &mut Leases,
    request: &DeleteRangeRequest,
) -> DeleteRangeResponse {
    let deleted = writer.delete(Span::new(&request.key, &request.range_end));
    for record in &deleted {
        leases.reattach(&record.key, record.lease, 0);
    }
    DeleteRangeResponse {
        revision: writer.revision(),
        deleted: deleted.len() as i64,
        prev_kvs: if request.prev_kv { deleted } else { Vec::new() },
    }
}
