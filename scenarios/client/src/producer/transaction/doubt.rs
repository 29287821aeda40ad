//! Copies of a transaction's requests that may still be under way, and what a client does that cares about them
//! (findings.md, "strict client").

use super::request::{Call, TxnRequest};
use super::{State, TransactionManager};
use crate::codes;
use crate::producer::classify::Rpc;

impl TransactionManager {
    /// The request will be sent again. Only an answer that it was refused unseen
    /// (`CONCURRENT_TRANSACTIONS`) says that no copy of it is under way inside the cluster.
    pub(super) fn suspect_copies_of(&mut self, request: &TxnRequest, code: i16) {
        let harmless = matches!(request.call.rpc(), Rpc::FindCoordinator | Rpc::InitProducerId);
        self.suspicious |= !harmless && code != codes::CONCURRENT_TRANSACTIONS;
    }

    /// The outcome of a batch of this transaction is unknown: a copy may still be under way.
    pub(crate) fn suspect_batch(&mut self) {
        self.suspicious = true;
    }

    /// A copy of something of this transaction may be under way, and this client cares.
    pub(super) fn distrusts(&self) -> bool {
        let doubts = self.suspicious || self.epoch_bump_required;
        doubts && self.bumps_epochs() && !self.model.flaws.reuse_epoch_after_resend
    }

    /// A new epoch in place of `end`, an abort: it aborts as well, and its markers tell the partitions of the new epoch, so that
    /// they refuse what is late. After an EndTxn they would still take a batch of the old one (findings.md, "strict client").
    pub(super) fn abort_by_new_epoch(&mut self, end: TxnRequest) -> TxnRequest {
        self.forget_transaction();
        self.state = State::Initializing;
        let bump = |(key, queued): (&(u8, u64), &TxnRequest)| {
            (queued.call.rpc() == Rpc::InitProducerId).then_some(*key)
        };
        let queued = self.queue.iter().find_map(bump);
        match queued.and_then(|key| self.queue.remove(&key)) {
            // The application waits for this one.
            Some(bump) => bump,
            None => {
                let call = Call::InitProducerId { producer_id: self.producer_id, epoch: self.epoch };
                TxnRequest { call, ..end }
            }
        }
    }
}
