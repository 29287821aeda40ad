//! EndTxn (26), versions 0 to 5: kafka.md 3.4, decided by `transaction::end`. Version 5 is that of transaction version 2.
//!
//! The request says no more than (transactional id, producer id, epoch, commit or abort), so below version 5 the agent
//! cannot know which transaction of that epoch is meant. It loops: read the state, decide, send one coordinator transaction guarded by
//! the revision read; on a time-out or a failed guard read again and end *what is current then*. That is Kafka's old
//! protocol, and with it comes KAFKA-17754 (findings.md, finding 9).

use super::{fenced_since, refuse};
use crate::age::{self, Stamp};
use crate::agent::Context;
use crate::config::TransactionVersion;
use crate::coordinator::Range;
use crate::ends;
use crate::finish::{self, Contents, Prepared};
use crate::gate::Fault;
use crate::layout;
use crate::transaction::{self, End, TxnState};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{EndTxnRequest, EndTxnResponse, ProducerId};

/// First version with PRODUCER_FENCED.
const FENCED_SINCE: i16 = 2;
/// First version of transaction version 2.
const V2_SINCE: i16 = 5;

/// What the agent did, and the producer id and epoch that the client uses next.
enum Ended {
    Decided((i64, i16)),
    Already((i64, i16)),
}

pub(super) async fn handle(context: &Context, version: i16, request: EndTxnRequest) -> EndTxnResponse {
    let rules = context.config.transactions.version.of_request(version, V2_SINCE);
    let ended = match end(context, rules, &request).await {
        Err(ResponseError::InvalidTxnState | ResponseError::ConcurrentTransactions)
            if context.config.defects.lenient_end && rules == TransactionVersion::V1 =>
        {
            Ok(Ended::Already(NOBODY))
        }
        ended => ended.map_err(|error| fenced_since(error, version, FENCED_SINCE)),
    };
    let (code, what) = match &ended {
        Ok(Ended::Decided(_)) => (0, "decided"),
        Ok(Ended::Already(_)) => (0, "already"),
        Err(error) => (error.code(), "refused"),
    };
    rt::event!(
        "end_txn.answered",
        transactional_id = request.transactional_id.as_str(),
        producer_id = request.producer_id.0,
        epoch = request.producer_epoch,
        committed = request.committed,
        code = code,
        what = what,
    );
    match ended {
        Ok(Ended::Decided(held) | Ended::Already(held)) => {
            let (producer_id, epoch) = if rules == TransactionVersion::V2 { held } else { NOBODY };
            EndTxnResponse::default().with_producer_id(ProducerId(producer_id)).with_producer_epoch(epoch)
        }
        Err(error) => refuse::ended(error),
    }
}

/// No producer id and no epoch: what versions below 5 are told.
const NOBODY: (i64, i16) = (-1, -1);

async fn end(
    context: &Context,
    rules: TransactionVersion,
    request: &EndTxnRequest,
) -> Result<Ended, ResponseError> {
    if request.transactional_id.is_empty() {
        return Err(ResponseError::InvalidRequest);
    }
    let mut patience = context.patience_for(context.config.end_txn_limit_ms);
    let stamp = Stamp::take(context, &request.transactional_id, &mut patience).await;
    let stamp = stamp.map_err(|fault| fault.coordinator_error())?;
    let mut changed = false;
    loop {
        match attempt(context, rules, request, stamp).await {
            Ok(Attempt::Answer(answer)) => {
                rt::mark!(sometimes, "an end was decided after a failed compare", changed && answer.is_ok());
                return answer;
            }
            Ok(Attempt::Changed) if patience.is_over() => return Err(ResponseError::ConcurrentTransactions),
            Ok(Attempt::Changed) => changed = true,
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return Err(fault.coordinator_error()),
        }
    }
}

enum Attempt {
    Answer(Result<Ended, ResponseError>),
    /// The transaction changed between the read and the commit.
    Changed,
}

async fn attempt(
    context: &Context,
    rules: TransactionVersion,
    request: &EndTxnRequest,
    stamp: Stamp,
) -> Result<Attempt, Fault> {
    let id = request.transactional_id.as_str();
    let key = layout::txn(id);
    let [parts, groups] = finish::lists(id);
    let mut now = context.gate.read(vec![Range::key(key.clone()), parts, groups]).await?;
    let (stored, contents) = (now.one::<TxnState>()?, Contents::take(&mut now));
    let producer_id = request.producer_id.0;
    let current = stored.value().map(|state| state.epoch).filter(|_| context.config.defects.unfenced_end);
    let epoch = current.map_or(request.producer_epoch, |current| current.max(request.producer_epoch));
    let number = age::number(&request.unknown_tagged_fields);
    if let Some(Err(error)) = stored.value().map(|state| age::may_end(state, number)) {
        return Ok(Attempt::Answer(Err(error)));
    }
    let mut prepared = match transaction::end(rules, stored.value(), producer_id, epoch, request.committed) {
        End::Decide(_) if stamp.is_before(stored.revision()) => {
            return Ok(Attempt::Answer(Err(ResponseError::ConcurrentTransactions)));
        }
        End::Decide(prepared) => prepared,
        End::Already => {
            let held = stored.value().map_or(NOBODY, TxnState::held);
            return Ok(Attempt::Answer(Ok(Ended::Already(held))));
        }
        End::Refuse(error) => {
            if stored.value().is_some_and(|state| state.phase.prepared().is_some()) {
                context.steward.finish(Prepared { transactional_id: id.to_string(), known: None });
            }
            return Ok(Attempt::Answer(Err(error)));
        }
    };
    if prepared.wants_producer_id() {
        prepared.next_producer_id = context.gate.take_number(layout::producer_id_counter()).await?;
    }
    rt::preempt("end-txn.before-commit").await;
    let defects = &context.config.defects;
    let mut guards = vec![transaction::prepare_guard(defects, key, stored.revision(), stored.bytes())];
    let mut beside = Vec::new();
    if defects.number_without_epoch {
        let numbered = ends::number(context, id, producer_id, epoch).await?;
        guards.push(numbered.guard);
        beside.push(numbered.write);
        if numbered.is_repeat {
            let held = stored.value().map_or(NOBODY, TxnState::held);
            let answer = context.gate.commit(guards, beside).await?;
            return Ok(answer.map_or(Attempt::Changed, |_| Attempt::Answer(Ok(Ended::Already(held)))));
        }
    }
    let held = prepared.held();
    let decided = finish::prepare(context, id, prepared, "client", guards, beside, contents).await?;
    Ok(decided.map_or(Attempt::Changed, |_| Attempt::Answer(Ok(Ended::Decided(held)))))
}
