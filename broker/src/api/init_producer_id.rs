//! InitProducerId (22): kafka.md 3.2, decided by `transaction::init`.

use super::{fenced_since, refuse};
use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Compare, Op, Range};
use crate::finish::{self, Contents, Prepared};
use crate::gate::Fault;
use crate::layout;
use crate::transaction::{self, Init, TxnState};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};
use rt::time::wall_ms;

/// First version with PRODUCER_FENCED.
const FENCED_SINCE: i16 = 4;

pub(super) async fn handle(
    context: &Context,
    version: i16,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    let granted = match &request.transactional_id {
        None => idempotent(context).await,
        Some(id) => transactional(context, id, &request).await,
    };
    match granted {
        Ok((producer_id, epoch)) => {
            let id = request.transactional_id.as_ref().map_or("", |id| id.as_str());
            rt::event!(
                "init_producer_id",
                transactional_id = id,
                producer_id = producer_id,
                epoch = epoch,
                bump = request.producer_id.0 >= 0,
            );
            InitProducerIdResponse::default()
                .with_producer_id(ProducerId(producer_id))
                .with_producer_epoch(epoch)
        }
        Err(error) => refuse::producer_id(fenced_since(error, version, FENCED_SINCE)),
    }
}

/// A fresh producer id, whatever the client held before.
async fn idempotent(context: &Context) -> Result<(i64, i16), ResponseError> {
    let mut patience = context.patience();
    loop {
        match context.gate.take_number(layout::producer_id_counter()).await {
            Ok(producer_id) => return Ok((producer_id, 0)),
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return Err(fault.coordinator_error()),
        }
    }
}

async fn transactional(
    context: &Context,
    id: &str,
    request: &InitProducerIdRequest,
) -> Result<(i64, i16), ResponseError> {
    if !layout::is_id(id) {
        return Err(ResponseError::InvalidRequest);
    }
    let timeout_ms = request.transaction_timeout_ms;
    if timeout_ms <= 0 || timeout_ms > context.config.transactions.max_timeout_ms {
        return Err(ResponseError::InvalidTransactionTimeout);
    }
    let expected = match (request.producer_id.0, request.producer_epoch) {
        (-1, -1) => None,
        (producer_id @ 0.., epoch @ 0..) => Some((producer_id, epoch)),
        _ => return Err(ResponseError::InvalidRequest),
    };
    let mut patience = context.patience();
    loop {
        match attempt(context, id, expected, timeout_ms).await {
            Ok(Some(answer)) => return answer,
            Ok(None) if !patience.is_over() => {}
            Ok(None) => return Err(ResponseError::ConcurrentTransactions),
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return Err(fault.coordinator_error()),
        }
    }
}

/// One try; `None` if the transactional id changed under it.
///
/// A write whose answer was lost is decided anew. Without an expected epoch that may bump twice, and with one it is
/// recognised as the client's own repeat; neither grants an epoch to two producers.
async fn attempt(
    context: &Context,
    id: &str,
    expected: Option<(i64, i16)>,
    timeout_ms: i32,
) -> Result<Option<Result<(i64, i16), ResponseError>>, Fault> {
    let key = layout::txn(id);
    let stored = context.gate.read(vec![Range::key(key.clone())]).await?.one::<TxnState>()?;
    let decision = stored.value().map(|state| (state, transaction::init(state, expected, timeout_ms)));
    let (next, fence) = match decision {
        None => (TxnState::first(take_producer_id(context).await?, timeout_ms), false),
        Some((state, Init::Rotate { last_epoch })) => {
            let producer_id = take_producer_id(context).await?;
            (transaction::rotated(state, producer_id, last_epoch, timeout_ms), false)
        }
        Some((_, Init::Grant(next))) => (next, false),
        Some((_, Init::Fence(next))) => (next, true),
        Some((state, Init::Repeat)) => {
            rt::mark!(reachable, "a repeated InitProducerId was recognised");
            return Ok(Some(Ok((state.producer_id, state.epoch))));
        }
        Some((state, Init::Refuse(error))) => {
            if state.phase.prepared().is_some() {
                context.steward.finish(Prepared { transactional_id: id.to_string(), known: None });
            }
            return Ok(Some(Err(error)));
        }
    };
    rt::preempt("init-producer-id.before-commit").await;
    let guards = vec![Compare::unchanged(key.clone(), stored.revision())];
    if fence {
        let by = if expected.is_some() { "bump" } else { "fencing" };
        let prepared =
            finish::prepare(context, id, next, by, guards, Vec::new(), Contents::default()).await?;
        return Ok(prepared.map(|_| Err(ResponseError::ConcurrentTransactions)));
    }
    let granted =
        vec![Op::put(key, codec::encode(&next)), Op::put(layout::txn_idle(id), codec::encode(&wall_ms()))];
    let answer = context.gate.commit(guards, granted).await?;
    Ok(answer.map(|_| Ok((next.producer_id, next.epoch))))
}

async fn take_producer_id(context: &Context) -> Result<i64, Fault> {
    context.gate.take_number(layout::producer_id_counter()).await
}
