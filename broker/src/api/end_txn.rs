//! EndTxn (26), versions 0 to 4: kafka.md 3.4, decided by `transaction::end`.
//!
//! The request says no more than (transactional id, producer id, epoch, commit or abort), so the agent cannot know which
//! transaction of that epoch is meant. It loops: read the state, decide, send one coordinator transaction guarded by
//! the revision read; on a time-out or a failed guard read again and end *what is current then*. That is Kafka's old
//! protocol, and with it comes KAFKA-17754 (findings.md, finding 9).

use super::fenced_since;
use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Op, Range};
use crate::finish::Prepared;
use crate::gate::Fault;
use crate::layout;
use crate::transaction::{self, End, TxnState};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{EndTxnRequest, EndTxnResponse, ProducerId};

/// First version with PRODUCER_FENCED.
const FENCED_SINCE: i16 = 2;

/// What the agent did.
enum Ended {
    Decided,
    Already,
}

pub(super) async fn handle(context: &Context, version: i16, request: EndTxnRequest) -> EndTxnResponse {
    let (code, what) = match end(context, &request).await {
        Ok(Ended::Decided) => (0, "decided"),
        Ok(Ended::Already) => (0, "already"),
        Err(ResponseError::InvalidTxnState | ResponseError::ConcurrentTransactions)
            if context.config.defects.lenient_end =>
        {
            (0, "already")
        }
        Err(error) => (fenced_since(error, version, FENCED_SINCE).code(), "refused"),
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
    answer(code)
}

/// No producer id or epoch is handed out before version 5.
fn answer(code: i16) -> EndTxnResponse {
    EndTxnResponse::default().with_error_code(code).with_producer_id(ProducerId(-1)).with_producer_epoch(-1)
}

async fn end(context: &Context, request: &EndTxnRequest) -> Result<Ended, ResponseError> {
    if request.transactional_id.is_empty() {
        return Err(ResponseError::InvalidRequest);
    }
    let mut patience = context.patience_for(context.config.end_txn_limit_ms);
    let mut changed = false;
    loop {
        match attempt(context, request).await {
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

async fn attempt(context: &Context, request: &EndTxnRequest) -> Result<Attempt, Fault> {
    let id = request.transactional_id.as_str();
    let key = layout::txn(id);
    let stored = context.gate.read(vec![Range::key(key.clone())]).await?.one::<TxnState>()?;
    let decision =
        transaction::end(stored.value(), request.producer_id.0, request.producer_epoch, request.committed);
    let prepared = match decision {
        End::Decide(prepared) => prepared,
        End::Already => return Ok(Attempt::Answer(Ok(Ended::Already))),
        End::Refuse(error) => {
            if stored.value().is_some_and(|state| state.phase.prepared().is_some()) {
                context.steward.finish(Prepared { transactional_id: id.to_string(), found: true });
            }
            return Ok(Attempt::Answer(Err(error)));
        }
    };
    rt::preempt("end-txn.before-commit").await;
    let defects = &context.config.defects;
    let guard = transaction::prepare_guard(defects, key.clone(), stored.revision(), stored.bytes());
    let prepare = vec![Op::put(key, codec::encode(&prepared))];
    let Some(answer) = context.gate.commit(vec![guard], prepare).await? else {
        return Ok(Attempt::Changed);
    };
    rt::event!(
        "txn.prepared",
        transactional_id = id,
        producer_id = prepared.producer_id,
        epoch = prepared.epoch,
        committed = request.committed,
        by = "client",
        revision = answer.revision,
    );
    context.steward.finish(Prepared { transactional_id: id.to_string(), found: false });
    Ok(Attempt::Answer(Ok(Ended::Decided)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_answer_hands_out_a_producer_id() {
        for code in [0, 48, 51, 90] {
            let answer = answer(code);
            assert_eq!(
                (answer.error_code, answer.producer_id, answer.producer_epoch),
                (code, ProducerId(-1), -1)
            );
        }
    }
}
