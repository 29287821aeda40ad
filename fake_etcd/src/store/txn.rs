//! Transactions, nested ones included: `etcdserver/txn/txn.go` is the model.
//!
//! In three steps, each of them over the whole tree: every condition is looked at, then everything that may refuse is
//! checked, then the chosen operations are done in order. So no condition sees what its own transaction writes, and
//! nothing ever has to be taken back.

use super::index::{Index, Writer};
use super::lease::Leases;
use super::{Store, delete_range, put, read};
use crate::api::{Op, OpResponse, TxnRequest, TxnResponse};
use crate::error::EtcdError;

/// A transaction whose conditions were looked at.
struct Decided<'r> {
    succeeded: bool,
    ops: &'r [Op],
    /// The same of each nested transaction among `ops`, in order.
    nested: Vec<Decided<'r>>,
}

fn decide<'r>(index: &Index, request: &'r TxnRequest) -> Decided<'r> {
    let succeeded = request.compare.iter().all(|compare| read::holds(index, compare));
    let ops = if succeeded { &request.success } else { &request.failure };
    let nested = ops.iter().filter_map(|op| match op {
        Op::Txn(nested) => Some(decide(index, nested)),
        _ => None,
    });
    Decided { succeeded, ops, nested: nested.collect() }
}

impl Store {
    pub(super) fn txn(
        &mut self,
        request: &TxnRequest,
        made: &mut Option<i64>,
    ) -> Result<TxnResponse, EtcdError> {
        let decided = decide(&self.index, request);
        self.check_decided(&decided)?;
        let mut writer = self.index.write();
        let mut response = execute(&mut writer, &mut self.leases, decided)?;
        *made = writer.commit();
        response.revision = self.revision();
        Ok(response)
    }

    fn check_decided(&self, decided: &Decided<'_>) -> Result<(), EtcdError> {
        let mut nested = decided.nested.iter();
        for op in decided.ops {
            match op {
                Op::Range(range) => read::check_in_txn(&self.index, range.revision)?,
                // In the other order than a put by itself.
                Op::Put(put) => {
                    self.check_kept(put)?;
                    self.check_lease(put)?;
                }
                Op::DeleteRange(_) => {}
                Op::Txn(_) => self.check_decided(nested.next().expect("one for each nested transaction"))?,
            }
        }
        Ok(())
    }
}

fn execute(
    writer: &mut Writer<'_>,
    leases: &mut Leases,
    decided: Decided<'_>,
) -> Result<TxnResponse, EtcdError> {
    let mut nested = decided.nested.into_iter();
    let mut responses = Vec::with_capacity(decided.ops.len());
    for op in decided.ops {
        responses.push(match op {
            Op::Range(request) => OpResponse::Range(read::range(writer.index(), request, writer.revision())?),
            Op::Put(request) => OpResponse::Put(put(writer, leases, request)),
            Op::DeleteRange(request) => OpResponse::DeleteRange(delete_range(writer, leases, request)),
            Op::Txn(_) => {
                let nested = nested.next().expect("one for each nested transaction");
                OpResponse::Txn(execute(writer, leases, nested)?)
            }
        });
    }
    Ok(TxnResponse { revision: 0, succeeded: decided.succeeded, responses })
}
