//! Leases: who holds which keys until when. `lease/lessor.go` is the model.
//!
//! A single member without checkpoints: a restart gives every lease its full TTL again, plus one election timeout.

use crate::api::LeaseTimeToLiveResponse;
use crate::error::EtcdError;
use bytes::Bytes;
use rt::time::Instant;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The least TTL granted, in seconds: one and a half default election timeouts, rounded up.
const MIN_TTL_S: i64 = 2;
/// The largest TTL that may be asked for, in seconds.
const MAX_TTL_S: i64 = 9_000_000_000;
/// What a new leader adds to every lease: the default election timeout.
const EXTEND: Duration = Duration::from_secs(1);
/// Where ids that the server chooses begin.
const FIRST_ID: i64 = 0x0694_d8a0_0000_0000;

#[derive(Debug)]
struct Lease {
    ttl_s: i64,
    deadline: Instant,
    keys: BTreeSet<Bytes>,
}

#[derive(Debug, Default)]
pub(crate) struct Leases {
    leases: BTreeMap<i64, Lease>,
    /// The same, by deadline.
    deadlines: BTreeSet<(Instant, i64)>,
    chosen: i64,
}

impl Leases {
    /// Grants a lease and returns its id and TTL.
    pub(crate) fn grant(&mut self, now: Instant, ttl_s: i64, id: i64) -> Result<(i64, i64), EtcdError> {
        if ttl_s > MAX_TTL_S {
            return Err(EtcdError::LEASE_TTL_TOO_LARGE);
        }
        let id = if id == 0 { self.choose_id() } else { id };
        if self.leases.contains_key(&id) {
            return Err(EtcdError::LEASE_EXISTS);
        }
        let ttl_s = ttl_s.max(MIN_TTL_S);
        let deadline = now + ttl(ttl_s);
        self.leases.insert(id, Lease { ttl_s, deadline, keys: BTreeSet::new() });
        self.deadlines.insert((deadline, id));
        Ok((id, ttl_s))
    }

    fn choose_id(&mut self) -> i64 {
        loop {
            self.chosen += 1;
            let id = FIRST_ID + self.chosen;
            if !self.leases.contains_key(&id) {
                return id;
            }
        }
    }

    pub(crate) fn exists(&self, id: i64) -> bool {
        self.leases.contains_key(&id)
    }

    /// Whether the lease's time is over, though it is still there.
    pub(crate) fn is_due(&self, now: Instant, id: i64) -> bool {
        self.leases.get(&id).is_some_and(|lease| lease.deadline <= now)
    }

    /// Renews a lease to its full TTL, which is returned; `None` if it is gone.
    pub(crate) fn renew(&mut self, now: Instant, id: i64) -> Option<i64> {
        let lease = self.leases.get_mut(&id)?;
        self.deadlines.remove(&(lease.deadline, id));
        lease.deadline = now + ttl(lease.ttl_s);
        self.deadlines.insert((lease.deadline, id));
        Some(lease.ttl_s)
    }

    /// Ends a lease and returns its keys, in order.
    pub(crate) fn remove(&mut self, id: i64) -> Result<BTreeSet<Bytes>, EtcdError> {
        let lease = self.leases.remove(&id).ok_or(EtcdError::LEASE_NOT_FOUND)?;
        self.deadlines.remove(&(lease.deadline, id));
        Ok(lease.keys)
    }

    /// Moves a key from one lease to another; 0 is none.
    pub(crate) fn reattach(&mut self, key: &Bytes, from: i64, to: i64) {
        if from == to {
            return;
        }
        if let Some(lease) = self.leases.get_mut(&from) {
            lease.keys.remove(key);
        }
        if let Some(lease) = self.leases.get_mut(&to) {
            lease.keys.insert(key.clone());
        }
    }

    pub(crate) fn time_to_live(&self, now: Instant, id: i64, keys: bool) -> LeaseTimeToLiveResponse {
        let Some(lease) = self.leases.get(&id) else {
            return LeaseTimeToLiveResponse { id, ttl_s: -1, ..Default::default() };
        };
        LeaseTimeToLiveResponse {
            id,
            ttl_s: (lease.deadline - now).as_secs() as i64,
            granted_ttl_s: lease.ttl_s,
            keys: if keys { lease.keys.iter().cloned().collect() } else { Vec::new() },
            ..Default::default()
        }
    }

    /// Every lease, the next to run out first.
    pub(crate) fn ids(&self) -> Vec<i64> {
        self.deadlines.iter().map(|(_, id)| *id).collect()
    }

    /// The next deadline and whose it is.
    pub(crate) fn next_deadline(&self) -> Option<(Instant, i64)> {
        self.deadlines.first().copied()
    }

    /// What a leader does when it takes over.
    pub(crate) fn extend_all(&mut self, now: Instant) {
        self.deadlines.clear();
        for (id, lease) in &mut self.leases {
            lease.deadline = now + ttl(lease.ttl_s) + EXTEND;
            self.deadlines.insert((lease.deadline, *id));
        }
    }
}

fn ttl(ttl_s: i64) -> Duration {
    Duration::from_secs(ttl_s.unsigned_abs())
}
