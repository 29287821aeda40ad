//! AddOffsetsToTxn (25), versions 0 to 4: kafka.md 1.8. It lists a group in the transaction, as AddPartitionsToTxn lists
//! partitions; `pending` does the work.

use super::{fenced_since, refuse};
use crate::age;
use crate::agent::Context;
use crate::layout;
use crate::offsets::Attempt;
use crate::pending::{self, Committer};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

/// First version with PRODUCER_FENCED.
const FENCED_SINCE: i16 = 2;

pub(super) async fn handle(
    context: &Context,
    version: i16,
    request: AddOffsetsToTxnRequest,
) -> AddOffsetsToTxnResponse {
    match add(context, &request).await {
        Ok(()) => AddOffsetsToTxnResponse::default(),
        Err(error) => refuse::added_offsets(fenced_since(error, version, FENCED_SINCE)),
    }
}

async fn add(context: &Context, request: &AddOffsetsToTxnRequest) -> Result<(), ResponseError> {
    if !layout::is_id(&request.transactional_id) {
        return Err(ResponseError::InvalidRequest);
    }
    if !layout::is_id(&request.group_id) {
        return Err(ResponseError::InvalidGroupId);
    }
    let committer = Committer {
        transactional_id: &request.transactional_id,
        producer_id: request.producer_id.0,
        epoch: request.producer_epoch,
        group: &request.group_id,
        number: age::number(&request.unknown_tagged_fields),
    };
    let mut patience = context.patience();
    loop {
        match pending::list(context, &committer).await {
            Ok(Attempt::Done) => return Ok(()),
            Ok(Attempt::Refused(error)) => return Err(error),
            Ok(Attempt::Changed) if patience.is_over() => return Err(ResponseError::ConcurrentTransactions),
            Ok(Attempt::Changed) => {}
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return Err(fault.coordinator_error()),
        }
    }
}
