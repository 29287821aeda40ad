//! ListTransactions (66), versions 0 to 2. Any agent lists them all. The pattern of version 2 has to match the whole id
//! (KIP-1152).
//!
//! The duration filter of version 1 asks for transactions that run longer than it says (KIP-994), so what does not run is
//! left out.

use super::describe_transactions::started_ms;
use super::{refuse, text};
use crate::agent::Context;
use crate::codec;
use crate::coordinator::{Range, TXN_OPS_MAX};
use crate::gate::Fault;
use crate::layout;
use crate::transaction::{Phase, TxnState};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::list_transactions_response::TransactionState;
use kafka_protocol::messages::{
    ListTransactionsRequest, ListTransactionsResponse, ProducerId, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;
use regex::Regex;
use rt::time::wall_ms;

/// Transactional ids read at once.
const PAGE: i64 = 500;
/// Kafka's names of states that are never stored here: no filter for them is unknown.
const NEVER_STORED: [&str; 2] = ["Dead", "PrepareEpochFence"];

pub(super) async fn handle(
    context: &Context,
    _version: i16,
    request: ListTransactionsRequest,
) -> ListTransactionsResponse {
    let pattern = match pattern(request.transactional_id_pattern.as_deref()) {
        Ok(pattern) => pattern,
        Err(error) => return refuse::listed_transactions(error),
    };
    let mut patience = context.patience();
    loop {
        match list(context, &request, pattern.as_ref()).await {
            Ok(states) => {
                return ListTransactionsResponse::default()
                    .with_unknown_state_filters(unknown_states(&request))
                    .with_transaction_states(states);
            }
            Err(fault) if fault.passes() && patience.pause().await => {}
            Err(fault) => return refuse::listed_transactions(fault.coordinator_error()),
        }
    }
}

/// Longest pattern taken: a parsed one is about a hundred times as large.
const PATTERN_MAX_BYTES: usize = 1024;

/// What an id must match as a whole; an empty pattern asks for nothing.
fn pattern(pattern: Option<&str>) -> Result<Option<Regex>, ResponseError> {
    let Some(pattern) = pattern.filter(|pattern| !pattern.is_empty()) else { return Ok(None) };
    if pattern.len() > PATTERN_MAX_BYTES {
        return Err(ResponseError::InvalidRegularExpression);
    }
    // By itself first: what is put around it must not make it whole.
    let whole = Regex::new(pattern).and_then(|_| Regex::new(&format!(r"\A(?:{pattern})\z")));
    whole.map(Some).map_err(|_| ResponseError::InvalidRegularExpression)
}

fn unknown_states(request: &ListTransactionsRequest) -> Vec<StrBytes> {
    let known = |name: &str| Phase::ALL.iter().any(|phase| phase.name() == name);
    let unknown = |name: &&StrBytes| !known(name.as_str()) && !NEVER_STORED.contains(&name.as_str());
    request.state_filters.iter().filter(unknown).cloned().collect()
}

/// Whether the filters that a state alone answers let it pass.
fn passes(request: &ListTransactionsRequest, state: &TxnState) -> bool {
    let (producer_ids, states) = (&request.producer_id_filters, &request.state_filters);
    (producer_ids.is_empty() || producer_ids.contains(&ProducerId(state.producer_id)))
        && (states.is_empty() || states.iter().any(|name| name.as_str() == state.phase.name()))
}

async fn list(
    context: &Context,
    request: &ListTransactionsRequest,
    pattern: Option<&Regex>,
) -> Result<Vec<TransactionState>, Fault> {
    let end = layout::end_of(layout::TXNS.as_bytes());
    let mut from = bytes::Bytes::from_static(layout::TXNS.as_bytes());
    let mut listed = Vec::new();
    loop {
        let page = context.gate.range(Range::span(from, end.clone(), PAGE)).await?;
        let mut found = Vec::new();
        for kv in &page.kvs {
            let state: TxnState = codec::decode(&kv.value)?;
            let matches = |id: &String| pattern.is_none_or(|pattern| pattern.is_match(id));
            let id = layout::txn_of(&kv.key).filter(|_| passes(request, &state));
            found.extend(id.filter(matches).map(|id| (id, state)));
        }
        if request.duration_filter >= 0 {
            found = longer_than(context, request.duration_filter, found).await?;
        }
        listed.extend(found.into_iter().map(|(id, state)| listing(id, &state)));
        match page.kvs.last() {
            Some(last) if page.more => from = [&last.key[..], &[0]].concat().into(),
            _ => return Ok(listed),
        }
    }
}

fn listing(id: String, state: &TxnState) -> TransactionState {
    TransactionState::default()
        .with_transactional_id(TransactionalId(text(id)))
        .with_producer_id(ProducerId(state.producer_id))
        .with_transaction_state(StrBytes::from_static_str(state.phase.name()))
}

/// Those of `found` that began more than `duration_ms` ago.
async fn longer_than(
    context: &Context,
    duration_ms: i64,
    found: Vec<(String, TxnState)>,
) -> Result<Vec<(String, TxnState)>, Fault> {
    let mut longer = Vec::new();
    let mut rest = found.into_iter();
    loop {
        let group: Vec<_> = rest.by_ref().take(TXN_OPS_MAX).collect();
        if group.is_empty() {
            return Ok(longer);
        }
        let parts = |(id, _): &(String, TxnState)| {
            let first = layout::txn_parts(id);
            Range::span(first.clone(), layout::end_of(&first), 0)
        };
        let mut now = context.gate.read(group.iter().map(parts).collect()).await?;
        for found in group {
            let started_ms = started_ms(&now.next().kvs)?;
            if started_ms.is_some_and(|started_ms| wall_ms().saturating_sub(started_ms) > duration_ms) {
                longer.push(found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&'static str]) -> Vec<StrBytes> {
        names.iter().map(|name| StrBytes::from_static_str(name)).collect()
    }

    #[test]
    fn unknown_states_are_told_and_match_nothing() {
        let state = TxnState::first(7, 60_000).begun(None);
        let asked = |filters: &[&'static str]| {
            let request = ListTransactionsRequest::default().with_state_filters(names(filters));
            (passes(&request, &state), unknown_states(&request))
        };
        assert_eq!(asked(&[]), (true, vec![]));
        assert_eq!(asked(&["Ongoing"]), (true, vec![]));
        assert_eq!(asked(&["Empty", "Ongoing"]), (true, vec![]));
        assert_eq!(asked(&["Empty"]), (false, vec![]));
        assert_eq!(asked(&["ongoing"]), (false, names(&["ongoing"])));
        assert_eq!(asked(&["Ongoing", "Nonsense"]), (true, names(&["Nonsense"])));
        assert_eq!(asked(&["Dead", "PrepareEpochFence"]), (false, vec![]));
    }

    #[test]
    fn a_pattern_matches_whole_ids() {
        let matches = |asked, id| pattern(Some(asked)).map(|pattern| pattern.is_none_or(|p| p.is_match(id)));
        assert_eq!(matches("jt.*", "jt1"), Ok(true));
        assert_eq!(matches("jt", "jt1"), Ok(false), "not a part of it");
        assert_eq!(matches("a|jt1", "jt1x"), Ok(false), "nor one end");
        assert_eq!(matches("", "jt1"), Ok(true), "an empty one asks for nothing");
        let invalid = Err(ResponseError::InvalidRegularExpression);
        assert_eq!((matches("(", "jt1"), matches("a)|(b", "b")), (invalid, invalid));
        let long = "a".repeat(PATTERN_MAX_BYTES + 1);
        assert_eq!(matches(&long, "jt1"), invalid);
        assert!(pattern(None).is_ok_and(|pattern| pattern.is_none()));
    }

    #[test]
    fn producer_ids_are_filtered_beside_states() {
        let state = TxnState::first(7, 60_000);
        let asked = |producer_ids: &[i64], states: &[&'static str]| {
            let producer_ids = producer_ids.iter().map(|id| ProducerId(*id)).collect();
            let request = ListTransactionsRequest::default()
                .with_producer_id_filters(producer_ids)
                .with_state_filters(names(states));
            passes(&request, &state)
        };
        assert!(asked(&[7], &[]) && asked(&[8, 7], &["Empty"]));
        assert!(!asked(&[8], &[]) && !asked(&[7], &["Ongoing"]) && !asked(&[8], &["Empty"]));
    }
}
