//! Sessions, locks and elections, as in the `concurrency` package of etcd's Go client: the same keys, the same
//! transactions, the same ways to lose.
//!
//! A contender puts a key `PREFIX/LEASE` (the lease in hexadecimal) and holds the lock, or leads, once no key under the
//! prefix is older than its own; until then it waits for the deletion of the one just before. The lease ties the key to
//! the contender's life, which is all the safety there is: whoever was paused longer than its lease may still believe.
//! Guard every write with the holder's compare.

mod election;
mod mutex;
mod session;

pub use election::{Election, Observer};
pub use mutex::Mutex;
pub use session::Session;

use crate::api::{KeyValue, RangeRequest, SortOrder, SortTarget, WatchRequest};
use crate::client::{Client, Error};
use bytes::Bytes;
use std::sync::Arc;

/// Why a recipe failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecipeError {
    /// A request failed. The recipes' own requests may all be done again.
    #[error(transparent)]
    Etcd(#[from] Error),
    /// The lease ran out, and the key with it.
    #[error("mutex: session is expired")]
    SessionExpired,
    /// Somebody else holds the lock.
    #[error("mutex: Locked by another session")]
    Locked,
    /// The lock is not held.
    #[error("mutex: lock has already been released")]
    LockReleased,
    /// This contender does not lead, or no longer.
    #[error("election: not leader")]
    NotLeader,
    /// Nobody leads.
    #[error("election: no leader")]
    NoLeader,
}

/// `PREFIX/` as bytes.
fn directory(prefix: &str) -> Bytes {
    format!("{prefix}/").into()
}

/// The contender's own key.
fn own_key(directory: &Bytes, lease: i64) -> Bytes {
    [directory.as_ref(), format!("{lease:x}").as_bytes()].concat().into()
}

/// The oldest key under a directory.
fn oldest(directory: &Bytes) -> RangeRequest {
    RangeRequest {
        sort: Some((SortTarget::CreateRevision, SortOrder::Ascend)),
        limit: 1,
        ..RangeRequest::prefix(directory.clone())
    }
}

/// Waits until no key under the directory is as old as `created` or older.
async fn wait_for_deletions(client: &Client, directory: &Bytes, created: i64) -> Result<(), Error> {
    loop {
        let before = RangeRequest {
            sort: Some((SortTarget::CreateRevision, SortOrder::Descend)),
            limit: 1,
            max_create_revision: created,
            ..RangeRequest::prefix(directory.clone())
        };
        let response = client.range(before).await?;
        let Some(last) = response.kvs.first() else { return Ok(()) };
        wait_for_deletion(client, last, response.revision).await?;
    }
}

/// Waits until a key that was there at `revision` is deleted, or that revision is compacted.
async fn wait_for_deletion(client: &Client, key: &Arc<KeyValue>, revision: i64) -> Result<(), Error> {
    let mut watcher = client.watch(WatchRequest::key(key.key.clone(), revision));
    loop {
        let response = watcher.next().await?;
        if response.canceled || response.events.iter().any(|event| event.kv.is_tombstone()) {
            return Ok(());
        }
    }
}
