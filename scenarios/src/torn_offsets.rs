//! Judges offsets that a producer committed with its transactions: in the end the group has that of its last transaction of
//! which everything is visible. It is for plans in which one worker commits offsets, one transaction after the other.

use crate::log::Facts;
use crate::plan::{Op, Plan};
use std::collections::BTreeSet;

/// What the group has in place of what the log shows.
pub(crate) fn judge(plan: &Plan, facts: &Facts) -> Option<String> {
    let seen: BTreeSet<(u32, u64)> = facts.final_records().collect();
    // Offset, and how many of its records are visible, of how many.
    let transactions: Vec<(i64, usize, usize)> = plan
        .operations
        .values()
        .flatten()
        .filter_map(|operation| match &operation.what {
            Op::Txn { sends, offset: Some(offset), .. } => {
                let visible = sends.iter().filter(|send| seen.contains(&(send.key, send.value))).count();
                Some((*offset, visible, sends.len()))
            }
            _ => None,
        })
        .collect();
    if transactions.is_empty() {
        return None;
    }
    let Some(last) = facts.last_offset else {
        return Some("the group's offset is undecided at the end".into());
    };
    let whole =
        transactions.iter().rfind(|(_, visible, all)| visible == all).map_or(-1, |(offset, ..)| *offset);
    // A torn transaction is an anomaly of its own; which part of it the offset goes with says nothing.
    let torn =
        transactions.iter().any(|(offset, visible, all)| *offset == last && (1..*all).contains(visible));
    (last != whole && !torn).then(|| {
        format!("the group's offset is {last}, and {whole} is that of the last transaction whose records are visible")
    })
}
