//! Single facts that generated operations do not reach: limits in bytes, fragments, ids a server chooses, progress,
//! raft's counters, what versions disagree on, and the recipes.

use crate::lockstep::Lockstep;
use crate::outcome::Outcome;
use crate::real;
use bytes::Bytes;
use etcd_client as etcd;
use fake_etcd::api::*;
use fake_etcd::recipes::{Election, Mutex, Session};
use std::time::Duration;

/// Checks every fact with fresh servers; returns those that do not hold.
pub(crate) async fn check(lockstep: &mut Lockstep) -> Vec<String> {
    let is_34 = lockstep.version.starts_with("3.4.");
    let mut wrong = Vec::new();
    let mut claim = |fact: &str, held: Result<(), String>| {
        if let Err(what) = held {
            wrong.push(format!("{fact}: {what}"));
        }
    };
    claim("the largest request", largest_request(lockstep).await);
    claim("operations and starts are counted", counters(lockstep).await);
    claim("a server chooses a positive id for a lease", chosen_id(lockstep).await);
    claim("a large message is fragmented", fragments(lockstep).await);
    claim("progress of all watches, and none with one that starts later", progress(lockstep, is_34).await);
    claim("a transaction with two faults", two_faults(lockstep, is_34).await);
    claim("a deletion at the compacted revision", compacted_deletion(lockstep, is_34).await);
    claim("locks", locks(lockstep).await);
    claim("elections", elections(lockstep).await);
    wrong
}

fn equal<T: PartialEq + std::fmt::Debug>(real: T, fake: T) -> Result<(), String> {
    if real == fake { Ok(()) } else { Err(format!("real {real:?}, fake {fake:?}")) }
}

async fn put(lockstep: &mut Lockstep, key: &'static str, value: impl Into<Bytes>) -> Result<Outcome, String> {
    lockstep.both(&Request::Put(PutRequest::new(key, value))).await
}

/// A put of which only the agreement matters.
async fn write(lockstep: &mut Lockstep, key: &'static str, value: impl Into<Bytes>) -> Result<(), String> {
    put(lockstep, key, value).await.map(drop)
}

/// A proposal's random id takes nine or ten bytes, so the limit is known to a byte or two.
async fn largest_request(lockstep: &mut Lockstep) -> Result<(), String> {
    for less in [0, 20, 27, 100] {
        write(lockstep, "big", vec![0; 1_572_864 - less]).await?;
        let ops = vec![Op::Put(PutRequest::new("big", vec![0; 1_572_864 - less - 10]))];
        lockstep.same(&Request::Txn(TxnRequest { success: ops, ..Default::default() })).await?;
    }
    Ok(())
}

async fn counters(lockstep: &mut Lockstep) -> Result<(), String> {
    async fn both(lockstep: &Lockstep) -> [u64; 2] {
        let Ok(Response::Status(real)) = real::call(&lockstep.real, &Request::Status).await else {
            panic!("it serves")
        };
        [real.raft_index, lockstep.fake.status().await.expect("it serves").raft_index]
    }
    let before = both(lockstep).await;
    write(lockstep, "k", "1").await?;
    lockstep.same(&Request::Range(RangeRequest::key("k"))).await?;
    lockstep.same(&Request::LeaseGrant { ttl_s: 100, id: 77 }).await?;
    lockstep.same(&Request::LeaseKeepAlive { id: 77 }).await?;
    lockstep.same(&Request::LeaseRevoke { id: 77 }).await?;
    lockstep.same(&Request::LeaseRevoke { id: 77 }).await?;
    lockstep.same(&Request::Put(PutRequest { lease: 77, ..PutRequest::new("k", "") })).await?;
    let after = both(lockstep).await;
    equal(after[0] - before[0], after[1] - before[1])
}

async fn chosen_id(lockstep: &Lockstep) -> Result<(), String> {
    let grant = Request::LeaseGrant { ttl_s: 100, id: 0 };
    let real = real::call(&lockstep.real, &grant).await;
    let fake = lockstep.fake.call(grant).await;
    match (real, fake) {
        (Ok(Response::LeaseGrant { id: real, .. }), Ok(Response::LeaseGrant { id: fake, .. })) => {
            real::call(&lockstep.real, &Request::LeaseRevoke { id: real }).await.expect("it was granted");
            lockstep.fake.lease_revoke(fake).await.expect("it was granted");
            equal(real > 0, fake > 0)
        }
        other => Err(format!("{other:?}")),
    }
}

/// Three puts of 900 KiB in the past: above 2 MiB, so two events and then one. The fake's client puts them together.
async fn fragments(lockstep: &mut Lockstep) -> Result<(), String> {
    let Ok(Response::Put(first)) = put(lockstep, "large", vec![1; 900 * 1024]).await? else {
        return Err("the first put was refused".to_string());
    };
    for n in [2, 3] {
        write(lockstep, "large", vec![n; 900 * 1024]).await?;
    }
    let request = WatchRequest { fragment: true, ..WatchRequest::key("large", first.revision) };
    let options = real::watch_options(1, &request);
    let mut stream = lockstep
        .real
        .watch_client()
        .watch("large", Some(options))
        .await
        .map_err(|error| error.to_string())?;
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < 3 {
        let response = stream.message().await.map_err(|error| error.to_string())?.ok_or("it ended")?;
        if !response.created() {
            sizes.push(response.events().len());
        }
    }
    let whole = lockstep.fake.watch(request).next().await.map_err(|error| error.to_string())?;
    equal((sizes, 3), (vec![2, 1], whole.events.len()))
}

async fn progress(lockstep: &mut Lockstep, is_34: bool) -> Result<(), String> {
    let Ok(Response::Put(now)) = put(lockstep, "k", "2").await? else { return Err("refused".to_string()) };
    for (start, reported) in [(now.revision, true), (now.revision + 100, is_34)] {
        let request = WatchRequest::key("k", start);
        let options = real::watch_options(1, &request);
        let mut stream = lockstep
            .real
            .watch_client()
            .watch("k", Some(options))
            .await
            .map_err(|error| error.to_string())?;
        // Until it caught up there is no progress to report.
        tokio::time::sleep(Duration::from_millis(300)).await;
        stream.request_progress().await.map_err(|error| error.to_string())?;
        let mut real = None;
        while let Ok(Ok(Some(response))) =
            tokio::time::timeout(Duration::from_millis(500), stream.message()).await
        {
            if response.watch_id() == -1 {
                real = response.header().map(etcd::ResponseHeader::revision);
            }
        }
        let mut watcher = lockstep.fake.watch(request);
        // Begins the watch, and takes the event if there is one.
        let _ = tokio::time::timeout(Duration::from_millis(100), watcher.next()).await;
        watcher.request_progress();
        let told = tokio::time::timeout(Duration::from_millis(500), watcher.next()).await;
        let fake = told.ok().and_then(Result::ok).map(|response| response.revision);
        equal(real, reported.then_some(now.revision))?;
        equal(fake, (start == now.revision).then_some(now.revision))?;
    }
    Ok(())
}

/// Puts come before ranges in 3.4, and each in its turn later.
async fn two_faults(lockstep: &Lockstep, is_34: bool) -> Result<(), String> {
    let future = RangeRequest { revision: i64::MAX, ..RangeRequest::key("k") };
    let leased = PutRequest { lease: 12345, ..PutRequest::new("k", "") };
    let success = vec![Op::Range(future), Op::Put(leased)];
    let request = Request::Txn(TxnRequest { success, ..Default::default() });
    let real = real::call(&lockstep.real, &request).await.map_err(|(code, _)| code);
    let fake = lockstep.fake.call(request).await;
    equal(real.err(), Some(if is_34 { 5 } else { 11 }))?;
    let is_future =
        matches!(fake, Err(fake_etcd::Error::Etcd { code: fake_etcd::error::Code::OutOfRange, .. }));
    equal(true, is_future)
}

/// Compacts at the revision of a deletion, and watches from it: 3.4.23 has lost the deletion (etcd issue 18089).
async fn compacted_deletion(lockstep: &mut Lockstep, is_34: bool) -> Result<(), String> {
    write(lockstep, "gone", "1").await?;
    let deleted = lockstep.both(&Request::DeleteRange(DeleteRangeRequest::key("gone"))).await?;
    let Ok(Response::DeleteRange(deleted)) = deleted else { return Err("refused".to_string()) };
    lockstep.same(&Request::Compact { revision: deleted.revision }).await?;
    write(lockstep, "gone", "2").await?;
    let request = WatchRequest::key("gone", deleted.revision);
    let options = real::watch_options(1, &request);
    let mut stream =
        lockstep.real.watch_client().watch("gone", Some(options)).await.map_err(|error| error.to_string())?;
    let mut real = None;
    while real.is_none() {
        let response = stream.message().await.map_err(|error| error.to_string())?.ok_or("it ended")?;
        real = response.events().first().map(real::event);
    }
    let fake = lockstep.fake.watch(request).next().await.map_err(|error| error.to_string())?;
    let lost = real.as_ref().map(|event| event.kind) == Some(EventKind::Put);
    equal(lost, is_34)?;
    equal(real, fake.events.into_iter().next())
}

/// Whatever is under a prefix, at both sides.
async fn contenders(lockstep: &mut Lockstep, prefix: &'static str) -> Result<(), String> {
    lockstep.same(&Request::Range(RangeRequest::prefix(prefix))).await
}

async fn leases(lockstep: &mut Lockstep) -> Result<[Session; 2], String> {
    for id in [0x10a, 0x20b] {
        lockstep.same(&Request::LeaseGrant { ttl_s: 1000, id }).await?;
    }
    let session = |id| Session::of_lease(lockstep.fake.clone(), id);
    match (session(0x10a).await, session(0x20b).await) {
        (Ok(one), Ok(other)) => Ok([one, other]),
        other => Err(format!("{other:?}")),
    }
}

/// The real server's own lock service beside the fake's recipe: the same keys at the same revisions, step by step.
async fn locks(lockstep: &mut Lockstep) -> Result<(), String> {
    let [one, other] = leases(lockstep).await?;
    let (mut first, mut second) = (Mutex::new(&one, "lock"), Mutex::new(&other, "lock"));
    let mut real = lockstep.real.lock_client();
    let by = |lease| Some(etcd::LockOptions::new().with_lease(lease));
    let held = real.lock("lock", by(0x10a)).await.map_err(|error| error.to_string())?;
    first.lock().await.map_err(|error| error.to_string())?;
    equal(held.key(), first.key().expect("it is held"))?;
    contenders(lockstep, "lock").await?;
    let mut waiting = lockstep.real.lock_client();
    let waiter =
        tokio::spawn(
            async move { waiting.lock("lock", Some(etcd::LockOptions::new().with_lease(0x20b))).await },
        );
    let taken = {
        let mut taking = std::pin::pin!(second.lock());
        let early = tokio::time::timeout(Duration::from_millis(300), &mut taking).await.is_ok();
        equal(waiter.is_finished(), early)?;
        equal(early, false)?;
        contenders(lockstep, "lock").await?;
        real.unlock(held.key()).await.map_err(|error| error.to_string())?;
        first.unlock().await.map_err(|error| error.to_string())?;
        taking.await.map_err(|error| error.to_string())?
    };
    let real_taken = waiter.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    equal(real_taken.header().map(etcd::ResponseHeader::revision), Some(taken))?;
    equal(real_taken.key(), second.key().expect("it is held"))?;
    contenders(lockstep, "lock").await?;
    real.unlock(real_taken.key()).await.map_err(|error| error.to_string())?;
    second.unlock().await.map_err(|error| error.to_string())?;
    contenders(lockstep, "lock").await?;
    revoke(lockstep).await
}

async fn revoke(lockstep: &mut Lockstep) -> Result<(), String> {
    for id in [0x10a, 0x20b] {
        lockstep.same(&Request::LeaseRevoke { id }).await?;
    }
    Ok(())
}

async fn elections(lockstep: &mut Lockstep) -> Result<(), String> {
    let [one, other] = leases(lockstep).await?;
    let (mut first, mut second) = (Election::new(&one, "vote"), Election::new(&other, "vote"));
    let mut real = lockstep.real.election_client();
    let error = |error: etcd::Error| error.to_string();
    let won = real.campaign("vote", "a", 0x10a).await.map_err(error)?;
    let leader = won.leader().cloned().ok_or("no leader key")?;
    first.campaign("a").await.map_err(|error| error.to_string())?;
    equal(leader.key(), first.key().expect("it leads"))?;
    contenders(lockstep, "vote").await?;
    let as_leader = || Some(etcd::ProclaimOptions::new().with_leader(leader.clone()));
    real.proclaim("b", as_leader()).await.map_err(error)?;
    first.proclaim("b").await.map_err(|error| error.to_string())?;
    contenders(lockstep, "vote").await?;
    let seen = real.leader("vote").await.map_err(error)?;
    let fake_seen = first.leader().await.map_err(|error| error.to_string())?;
    equal(seen.kv().map(real::key_value), Some(fake_seen))?;
    let mut waiting = lockstep.real.election_client();
    let waiter = tokio::spawn(async move { waiting.campaign("vote", "c", 0x20b).await.map(drop) });
    {
        let mut taking = std::pin::pin!(second.campaign("c"));
        let early = tokio::time::timeout(Duration::from_millis(300), &mut taking).await.is_ok();
        equal((waiter.is_finished(), early), (false, false))?;
        contenders(lockstep, "vote").await?;
        real.resign(Some(etcd::ResignOptions::new().with_leader(leader.clone()))).await.map_err(error)?;
        first.resign().await.map_err(|error| error.to_string())?;
        taking.await.map_err(|error| error.to_string())?;
    }
    waiter.await.map_err(|error| error.to_string())?.map_err(error)?;
    contenders(lockstep, "vote").await?;
    // Whoever resigned cannot proclaim: both refuse, and nothing changes.
    let refused = real.proclaim("d", as_leader()).await.is_err();
    equal(refused, first.proclaim("d").await.is_err())?;
    contenders(lockstep, "vote").await?;
    revoke(lockstep).await
}
