//! Audits a run against the store's own log.
//!
//! Every answer names the revision it was given at, so no search for an order is needed: an answer must be what the log
//! says of its revision, and revisions must not go back in real time. That is linearizability with the order given.

use crate::record::Call;
use crate::workload::Story;
use bytes::Bytes;
use fake_etcd::Error;
use fake_etcd::api::*;
use std::collections::BTreeMap;
use std::sync::Arc;

type State = BTreeMap<Bytes, Arc<KeyValue>>;

/// What a run exercised.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) acknowledged: u64,
    pub(crate) failed: u64,
    pub(crate) unknown_done: u64,
    pub(crate) unknown_not_done: u64,
    pub(crate) expired: u64,
    pub(crate) renewed: u64,
    pub(crate) found_expired: u64,
    pub(crate) events: u64,
}

pub(crate) fn audit(story: &Story, counts: &mut Counts) -> Result<(), String> {
    let states = states(&story.log);
    let mut newest_seen: Vec<(rt::time::Instant, i64)> = Vec::new();
    for call in &story.calls {
        answer(story, &states, call, counts).map_err(|what| format!("{what}: {call:?}"))?;
        if let Some((at, Ok(response))) = &call.end {
            newest_seen.push((*at, revision(response)));
        }
    }
    newest_seen.sort();
    for call in &story.calls {
        real_time(story, &newest_seen, call).map_err(|what| format!("{what}: {call:?}"))?;
    }
    watches(story)?;
    if story.leases_left > 0 {
        return Err("a lease outlives its expiry".to_string());
    }
    counts.events += story.told.iter().map(|told| told.len() as u64).sum::<u64>();
    let deletions = story.log.iter().flatten().filter(|event| event.kind == EventKind::Delete);
    counts.expired += deletions.filter(|event| event.kv.key.starts_with(b"lease/")).count() as u64;
    Ok(())
}

/// The store after each revision; the first is revision 1.
fn states(log: &[Vec<Event>]) -> Vec<State> {
    let mut states = vec![State::new()];
    for events in log {
        let mut state = states.last().expect("never empty").clone();
        for event in events {
            match event.kind {
                EventKind::Put => drop(state.insert(event.kv.key.clone(), event.kv.clone())),
                EventKind::Delete => drop(state.remove(&event.kv.key)),
            }
        }
        states.push(state);
    }
    states
}

fn revision(response: &Response) -> i64 {
    match response {
        Response::Range(response) => response.revision,
        Response::Put(response) => response.revision,
        Response::DeleteRange(response) => response.revision,
        Response::Txn(response) => response.revision,
        Response::LeaseGrant { revision, .. } | Response::LeaseKeepAlive { revision, .. } => *revision,
        other => panic!("not asked for: {other:?}"),
    }
}

/// The revision in which a write's own value stands, if it was done. A value is written by one call only.
fn landed(story: &Story, call: &Call) -> Vec<i64> {
    let value = match &call.request {
        Request::Put(put) => &put.value,
        Request::Txn(txn) => match &txn.success[0] {
            Op::Put(put) => &put.value,
            other => panic!("not asked for: {other:?}"),
        },
        _ => return Vec::new(),
    };
    let has = |events: &[Event]| events.iter().any(|event| event.kv.value == *value);
    (2..).zip(&story.log).filter(|(_, events)| has(events)).map(|(revision, _)| revision).collect()
}

/// Whether the answer, or its absence, is what the log says.
fn answer(story: &Story, states: &[State], call: &Call, counts: &mut Counts) -> Result<(), String> {
    let landed = landed(story, call);
    if landed.len() > 1 {
        return Err(format!("done {} times", landed.len()));
    }
    match &call.end {
        None | Some((_, Err(Error::UnknownOutcome(_)))) => {
            match landed.is_empty() {
                true => counts.unknown_not_done += 1,
                false => counts.unknown_done += 1,
            }
            Ok(())
        }
        Some((_, Err(_))) => {
            counts.failed += 1;
            if landed.is_empty() { Ok(()) } else { Err("failed, and done all the same".to_string()) }
        }
        Some((_, Ok(response))) => {
            counts.acknowledged += 1;
            acknowledged(story, states, call, response, &landed, counts)
        }
    }
}

fn acknowledged(
    story: &Story,
    states: &[State],
    call: &Call,
    response: &Response,
    landed: &[i64],
    counts: &mut Counts,
) -> Result<(), String> {
    let at = revision(response);
    let state = |revision: i64| &states[revision as usize - 1];
    let truth = match (&call.request, response) {
        (Request::Put(put), Response::Put(response)) => {
            let before = state(at - 1).get(&put.key).filter(|_| put.prev_kv);
            landed == [at] && response.prev_kv.as_ref() == before
        }
        (Request::DeleteRange(delete), Response::DeleteRange(response)) => {
            let before = if response.deleted > 0 { at - 1 } else { at };
            let was: Vec<_> = state(before).get(&delete.key).cloned().into_iter().collect();
            response.prev_kvs == was && !state(at).contains_key(&delete.key)
        }
        (Request::Range(_), Response::Range(response)) => reads(state(at), response),
        (Request::Txn(txn), Response::Txn(response)) => {
            let version = |revision: i64| state(revision).get(&txn.compare[0].key).map_or(0, |kv| kv.version);
            let CompareTarget::Version(wanted) = txn.compare[0].target else { panic!("not asked for") };
            match (&response.responses[..], response.succeeded) {
                ([OpResponse::Range(range)], false) => version(at) != wanted && reads(state(at), range),
                (_, true) => {
                    landed == [at] && version(at - 1) == wanted && story.log[at as usize - 2].len() == 2
                }
                _ => false,
            }
        }
        (Request::LeaseGrant { .. }, Response::LeaseGrant { ttl_s, .. }) => *ttl_s == 2,
        (Request::LeaseKeepAlive { id }, Response::LeaseKeepAlive { ttl_s, .. }) => {
            counts.renewed += u64::from(*ttl_s > 0);
            counts.found_expired += u64::from(*ttl_s == 0);
            let key = Bytes::from(format!("lease/{id}"));
            match *ttl_s {
                0 => !state(at).contains_key(&key) || gone_after(story, &key, at),
                _ => ran_out(story, &key, at).is_none_or(|gone| granted_since(story, call, gone)),
            }
        }
        _ => false,
    };
    if truth { Ok(()) } else { Err(format!("the log says otherwise of revision {at}")) }
}

/// When the key of a lease was last deleted up to `at`; nothing but expiry deletes it.
fn ran_out(story: &Story, key: &Bytes, at: i64) -> Option<i64> {
    let changes = story.log.iter().flatten().filter(|event| event.kv.key == *key);
    let deletions = changes.filter(|event| event.kind == EventKind::Delete);
    deletions.map(|event| event.kv.mod_revision).filter(|revision| *revision <= at).max()
}

/// Whether the lease was, or may have been, granted again at or after `gone` and before `call`.
fn granted_since(story: &Story, call: &Call, gone: i64) -> bool {
    let before = story.calls.iter().filter(|other| other.client == call.client && other.begun < call.begun);
    before.filter(|other| matches!(other.request, Request::LeaseGrant { .. })).any(|other| match &other.end {
        Some((_, Ok(response))) => revision(response) >= gone,
        None | Some((_, Err(Error::UnknownOutcome(_)))) => true,
        Some(_) => false,
    })
}

/// Whether a key is deleted in the revision after `at`: the header of a renewal is older than its answer.
fn gone_after(story: &Story, key: &Bytes, at: i64) -> bool {
    let after = story.log.get(at as usize - 1..).unwrap_or(&[]).iter().flatten();
    after.filter(|event| event.kv.key == *key).map(|event| event.kind).next() == Some(EventKind::Delete)
}

fn reads(state: &State, range: &RangeResponse) -> bool {
    let there: Vec<_> = state.values().filter(|kv| kv.key.starts_with(b"k")).cloned().collect();
    range.kvs == there && range.count == there.len() as i64
}

/// Nothing is answered, or done, at a revision older than one that was told before it was asked.
fn real_time(story: &Story, seen: &[(rt::time::Instant, i64)], call: &Call) -> Result<(), String> {
    let before = seen.partition_point(|(at, _)| *at < call.begun);
    let newest = seen[..before].iter().map(|(_, revision)| *revision).max().unwrap_or(1);
    let own = match &call.end {
        Some((_, Ok(response))) => Some(revision(response)),
        _ => landed(story, call).first().copied(),
    };
    match own {
        Some(own) if own < newest => Err(format!("at revision {own}, after {newest} was told")),
        _ => Ok(()),
    }
}

/// Each watcher was told the log: all of it, once, in order.
fn watches(story: &Story) -> Result<(), String> {
    let all: Vec<_> = story.log.iter().flatten().cloned().collect();
    let one: Vec<_> = all.iter().filter(|event| event.kv.key == "k0").cloned().collect();
    for (told, log) in story.told.iter().zip([all, one]) {
        if *told != log {
            let at = told.iter().zip(&log).take_while(|(told, log)| told == log).count();
            return Err(format!(
                "event {at} of {}, {} told: {:?}, not {:?}",
                log.len(),
                told.len(),
                told.get(at),
                log.get(at)
            ));
        }
    }
    Ok(())
}
