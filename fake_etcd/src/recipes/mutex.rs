//! A lock that one session at a time holds.

use super::{RecipeError, Session, directory, oldest, own_key, wait_for_deletions};
use crate::api::{
    Compare, CompareOp, CompareTarget, DeleteRangeRequest, Op, OpResponse, PutRequest, RangeRequest,
    TxnRequest,
};
use bytes::Bytes;

/// A lock under a prefix, for one session.
#[derive(Debug)]
pub struct Mutex<'s> {
    session: &'s Session,
    directory: Bytes,
    /// The contender's key and when it was created.
    mine: Option<(Bytes, i64)>,
}

impl<'s> Mutex<'s> {
    /// The lock `prefix`, not yet held.
    pub fn new(session: &'s Session, prefix: &str) -> Self {
        Mutex { session, directory: directory(prefix), mine: None }
    }

    /// Waits for the lock; returns the revision at which it was seen to be held. Done again after a failure it waits
    /// on at its old place.
    ///
    /// # Errors
    /// When the lease ran out while waiting, or as the client's.
    pub async fn lock(&mut self) -> Result<i64, RecipeError> {
        let (revision, owner) = self.enter().await?;
        let (key, created) = self.mine.clone().expect("it just entered");
        if owner == created {
            return Ok(revision);
        }
        let client = self.session.client();
        if let Err(error) = wait_for_deletions(client, &self.directory, created - 1).await {
            // Leaves the queue if it can; otherwise its lease does.
            let _ = self.unlock().await;
            return Err(error.into());
        }
        let mine = client.range(RangeRequest::key(key)).await?;
        if mine.kvs.is_empty() {
            self.mine = None;
            return Err(RecipeError::SessionExpired);
        }
        Ok(mine.revision)
    }

    /// Takes the lock if nobody holds it.
    ///
    /// # Errors
    /// [`RecipeError::Locked`] if somebody does, or as the client's.
    pub async fn try_lock(&mut self) -> Result<i64, RecipeError> {
        let (revision, owner) = self.enter().await?;
        if self.mine.as_ref().is_some_and(|(_, created)| *created == owner) {
            return Ok(revision);
        }
        self.unlock().await?;
        Err(RecipeError::Locked)
    }

    /// Gives the lock up.
    ///
    /// # Errors
    /// [`RecipeError::LockReleased`] if it was not held, or as the client's.
    pub async fn unlock(&mut self) -> Result<(), RecipeError> {
        let Some((key, _)) = &self.mine else { return Err(RecipeError::LockReleased) };
        self.session.client().delete_range(DeleteRangeRequest::key(key.clone())).await?;
        self.mine = None;
        Ok(())
    }

    /// The condition that guards a write by the holder; none if it did not try to hold.
    pub fn is_owner(&self) -> Option<Compare> {
        let (key, created) = self.mine.as_ref()?;
        Some(Compare::new(key.clone(), CompareOp::Equal, CompareTarget::CreateRevision(*created)))
    }

    /// The contender's key.
    pub fn key(&self) -> Option<&Bytes> {
        self.mine.as_ref().map(|(key, _)| key)
    }

    /// Puts the contender's key unless it is there; returns the revision and when the oldest key was created.
    async fn enter(&mut self) -> Result<(i64, i64), RecipeError> {
        let lease = self.session.lease();
        let key = own_key(&self.directory, lease);
        let request = TxnRequest {
            compare: vec![Compare::new(key.clone(), CompareOp::Equal, CompareTarget::CreateRevision(0))],
            success: vec![
                Op::Put(PutRequest { lease, ..PutRequest::new(key.clone(), "") }),
                Op::Range(oldest(&self.directory)),
            ],
            failure: vec![Op::Range(RangeRequest::key(key.clone())), Op::Range(oldest(&self.directory))],
        };
        let response = self.session.client().txn(request).await?;
        let created_of = |n: usize| match &response.responses[n] {
            OpResponse::Range(range) => range.kvs.first().map(|kv| kv.create_revision),
            _ => None,
        };
        let created = if response.succeeded { Some(response.revision) } else { created_of(0) };
        let created = created.expect("the key is there: it was put, or its compare failed");
        self.mine = Some((key, created));
        Ok((response.revision, created_of(1).unwrap_or(created)))
    }
}
