//! An election: one session at a time leads, and everybody can see who.

use super::{RecipeError, Session, directory, oldest, own_key, wait_for_deletions};
use crate::api::{
    Compare, CompareOp, CompareTarget, DeleteRangeRequest, KeyValue, Op, OpResponse, PutRequest,
    RangeRequest, TxnRequest, WatchRequest,
};
use crate::client::{Client, Error, Watcher};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

/// An election under a prefix, as one session takes part in it.
#[derive(Debug)]
pub struct Election<'s> {
    session: &'s Session,
    directory: Bytes,
    /// The contender's key and when it was created.
    mine: Option<(Bytes, i64)>,
}

impl<'s> Election<'s> {
    /// The election `prefix`, in which the session does not take part yet.
    pub fn new(session: &'s Session, prefix: &str) -> Self {
        Election { session, directory: directory(prefix), mine: None }
    }

    /// Waits until this session leads, with `value` as what the others see. Done again it sets the value and waits on
    /// at its old place.
    ///
    /// # Errors
    /// As the client's; the candidacy is then withdrawn if it can be, and ends with the lease otherwise.
    pub async fn campaign(&mut self, value: impl Into<Bytes>) -> Result<(), RecipeError> {
        let (value, lease) = (value.into(), self.session.lease());
        let key = own_key(&self.directory, lease);
        let request = TxnRequest {
            compare: vec![Compare::new(key.clone(), CompareOp::Equal, CompareTarget::CreateRevision(0))],
            success: vec![Op::Put(PutRequest { lease, ..PutRequest::new(key.clone(), value.clone()) })],
            failure: vec![Op::Range(RangeRequest::key(key.clone()))],
        };
        let response = self.session.client().txn(request).await?;
        let mut created = response.revision;
        if let Some(OpResponse::Range(range)) = response.responses.first() {
            let there = range.kvs.first().expect("the key is there: its compare failed");
            created = there.create_revision;
            self.mine = Some((key, created));
            if there.value != value {
                self.proclaim(value).await?;
            }
        } else {
            self.mine = Some((key, created));
        }
        let waited = wait_for_deletions(self.session.client(), &self.directory, created - 1).await;
        if let Err(error) = waited {
            let _ = self.resign().await;
            return Err(error.into());
        }
        Ok(())
    }

    /// Changes what the others see, without another election.
    ///
    /// # Errors
    /// [`RecipeError::NotLeader`] if the key is gone, or as the client's.
    pub async fn proclaim(&mut self, value: impl Into<Bytes>) -> Result<(), RecipeError> {
        let (key, created) = self.mine.clone().ok_or(RecipeError::NotLeader)?;
        let put = PutRequest { lease: self.session.lease(), ..PutRequest::new(key.clone(), value) };
        if self.guarded(key, created, Op::Put(put)).await? {
            return Ok(());
        }
        self.mine = None;
        Err(RecipeError::NotLeader)
    }

    /// Lets somebody else lead. It does nothing if this session does not take part, or no longer.
    ///
    /// # Errors
    /// As the client's.
    pub async fn resign(&mut self) -> Result<(), RecipeError> {
        if let Some((key, created)) = self.mine.clone() {
            let delete = Op::DeleteRange(DeleteRangeRequest::key(key.clone()));
            self.guarded(key, created, delete).await?;
            self.mine = None;
        }
        Ok(())
    }

    /// The leader's key and value.
    ///
    /// # Errors
    /// [`RecipeError::NoLeader`] if nobody leads, or as the client's.
    pub async fn leader(&self) -> Result<Arc<KeyValue>, RecipeError> {
        let response = self.session.client().range(oldest(&self.directory)).await?;
        response.kvs.into_iter().next().ok_or(RecipeError::NoLeader)
    }

    /// The contender's key.
    pub fn key(&self) -> Option<&Bytes> {
        self.mine.as_ref().map(|(key, _)| key)
    }

    /// Follows who leads and what they proclaim.
    pub fn observe(&self) -> Observer {
        Observer {
            client: self.session.client().clone(),
            directory: self.directory.clone(),
            leader: None,
            told: VecDeque::new(),
        }
    }

    /// Does `op` if the contender's key is still the one it made.
    async fn guarded(&self, key: Bytes, created: i64, op: Op) -> Result<bool, Error> {
        let compare = vec![Compare::new(key, CompareOp::Equal, CompareTarget::CreateRevision(created))];
        let request = TxnRequest { compare, success: vec![op], failure: vec![] };
        Ok(self.session.client().txn(request).await?.succeeded)
    }
}

/// Sees each leader's values in order. A leader whose whole reign fell between two looks may be missed, as in etcd.
#[derive(Debug)]
pub struct Observer {
    client: Client,
    directory: Bytes,
    /// Follows the key of the current leader.
    leader: Option<Watcher>,
    told: VecDeque<Arc<KeyValue>>,
}

impl Observer {
    /// Waits for the next leader, or the next value of the current one.
    ///
    /// # Errors
    /// As the client's.
    pub async fn next(&mut self) -> Result<Arc<KeyValue>, Error> {
        loop {
            if let Some(kv) = self.told.pop_front() {
                return Ok(kv);
            }
            let Some(watcher) = &mut self.leader else {
                let (kv, revision) = self.next_leader().await?;
                self.leader = Some(self.client.watch(WatchRequest::key(kv.key.clone(), revision + 1)));
                return Ok(kv);
            };
            let response = watcher.next().await?;
            let reign = response.events.iter().take_while(|event| !event.kv.is_tombstone());
            self.told.extend(reign.map(|event| event.kv.clone()));
            if response.canceled || response.events.iter().any(|event| event.kv.is_tombstone()) {
                self.leader = None;
            }
        }
    }

    /// The oldest contender, or the next to come; and the revision at which it was seen.
    async fn next_leader(&self) -> Result<(Arc<KeyValue>, i64), Error> {
        loop {
            let response = self.client.range(oldest(&self.directory)).await?;
            if let Some(kv) = response.kvs.into_iter().next() {
                return Ok((kv, response.revision));
            }
            let mut request = WatchRequest::prefix(self.directory.clone(), response.revision + 1);
            request.no_delete = true;
            let mut watcher = self.client.watch(request);
            loop {
                let response = watcher.next().await?;
                if response.canceled {
                    break;
                }
                if let Some(event) = response.events.first() {
                    return Ok((event.kv.clone(), event.kv.mod_revision));
                }
            }
        }
    }
}
