//! The end of a group: at once for everybody, and swept up afterwards.
//!
//! One coordinator transaction takes the members' state away and marks the head: every offset written up to then is dead.
//! The offsets' keys go afterwards in bounded steps, by whoever deleted the group or by retention; a group made anew under
//! the name meanwhile has none of them.

use super::commit::GroupHead;
use super::state::GroupState;
use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Compare, CoordinatorError, Op, Range};
use crate::gate::{Fault, Stored};
use crate::layout;
use bytes::Bytes;
use kafka_protocol::ResponseError;

/// Keys deleted by one coordinator transaction, beside the head: within etcd's 128 operations.
const STEP: i64 = 100;

/// Deletes a group without members (DeleteGroups).
pub(crate) async fn delete(context: &Context, group: &str) -> Result<(), ResponseError> {
    let mut patience = context.patience();
    let mut tried = false;
    loop {
        match attempt(context, group, &mut tried).await {
            Ok(Ok(true)) => break,
            Ok(Ok(false)) if patience.is_over() => return Err(ResponseError::CoordinatorLoadInProgress),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => return Err(error),
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return Err(fault.coordinator_error()),
        }
    }
    // It is gone, whether this gets through or not.
    let _ = sweep(context, group).await;
    Ok(())
}

/// One try; false if the group changed under it. `tried` says that an answer was lost.
async fn attempt(
    context: &Context,
    group: &str,
    tried: &mut bool,
) -> Result<Result<bool, ResponseError>, Fault> {
    let (head_key, state_key) = (layout::group(group), layout::group_state(group));
    let keys = vec![Range::key(head_key.clone()), Range::key(state_key.clone())];
    let mut now = context.gate.read(keys).await?;
    let revision = now.revision;
    let (head, state): (Stored<GroupHead>, Stored<GroupState>) = (now.one()?, now.one()?);
    if state.value().is_none() && head.value().is_none_or(|head| head.deleted) {
        return Ok(if *tried { Ok(true) } else { Err(ResponseError::GroupIdNotFound) });
    }
    if state.value().is_some_and(|state| !state.is_empty()) {
        return Ok(Err(ResponseError::NonEmptyGroup));
    }
    let dead = GroupHead { dead_through: revision, deleted: true, ..GroupHead::default() };
    let compares = vec![
        Compare::unchanged(head_key.clone(), head.revision()),
        Compare::unchanged(state_key.clone(), state.revision()),
    ];
    let ops = vec![Op::put(head_key, codec::encode(&dead)), Op::delete(state_key)];
    rt::preempt("delete-group.before-commit").await;
    let answer = context.gate.commit(compares, ops).await;
    *tried |= answer == Err(CoordinatorError::Unknown);
    let landed = answer?.is_some();
    if landed {
        rt::event!("group.deleted", group = group, revision = revision);
    }
    Ok(Ok(landed))
}

/// Deletes the keys of dead offsets, then what marks them.
pub(crate) async fn sweep(context: &Context, group: &str) -> Result<(), Fault> {
    let head_key = layout::group(group);
    let dead_through = read_head(context, &head_key).await?.value().map_or(0, |head| head.dead_through);
    if dead_through == 0 {
        return Ok(());
    }
    for prefix in [layout::group_offsets(group), layout::group_pending(group)] {
        let (mut from, end) = (prefix.clone(), layout::end_of(&prefix));
        loop {
            let page = Range::span(from.clone(), end.clone(), STEP);
            let mut now = context.gate.read(vec![Range::key(head_key.clone()), page]).await?;
            let (head, page) = (now.one::<GroupHead>()?, now.next());
            if head.value().is_none() {
                // Somebody else swept.
                return Ok(());
            }
            let dead = page.kvs.iter().filter(|kv| kv.mod_revision <= dead_through);
            let mut ops: Vec<Op> = dead.map(|kv| Op::delete(kv.key.clone())).collect();
            if !ops.is_empty() {
                ops.push(Op::put(head_key.clone(), head.bytes()));
                let guard = vec![Compare::unchanged(head_key.clone(), head.revision())];
                rt::preempt("sweep-group.before-commit").await;
                if context.gate.commit(guard, ops).await?.is_none() {
                    continue;
                }
            }
            match page.kvs.last() {
                Some(last) if page.more => from = [&last.key[..], &[0]].concat().into(),
                _ => break,
            }
        }
    }
    let head = read_head(context, &head_key).await?;
    let guard = vec![Compare::unchanged(head_key.clone(), head.revision())];
    let op = match head.value().filter(|head| head.dead_through == dead_through) {
        Some(head) if head.deleted => Op::delete(head_key),
        Some(head) => Op::put(head_key, codec::encode(&GroupHead { dead_through: 0, ..head.clone() })),
        // Deleted again meanwhile, which is swept by itself.
        None => return Ok(()),
    };
    context.gate.commit(guard, vec![op]).await?;
    Ok(())
}

async fn read_head(context: &Context, key: &Bytes) -> Result<Stored<GroupHead>, Fault> {
    Ok(context.gate.read(vec![Range::key(key.clone())]).await?.one()?)
}
