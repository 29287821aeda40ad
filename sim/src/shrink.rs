//! Shrinking: the shortest plan that still shows what the whole one showed.
//!
//! Faults and operations are removed, in halves and then one by one, as long as the plan still fails the same way; then
//! again, until nothing more can go. Limits: it does not yet shorten pauses, thin out values, or move faults.

use crate::plan::Plan;

/// Shrinks `plan`. `still` runs a candidate and says whether it shows the same signature; it is called once a candidate.
pub fn shrink<C: Clone, O: Clone>(
    plan: &Plan<C, O>,
    mut still: impl FnMut(&Plan<C, O>) -> bool,
) -> Plan<C, O> {
    let mut best = plan.clone();
    loop {
        let before = size(&best);
        shrink_list(&mut best, |plan| &mut plan.faults, &mut still);
        for worker in plan.operations.keys() {
            shrink_list(&mut best, |plan| plan.operations.entry(worker.clone()).or_default(), &mut still);
        }
        shrink_list(&mut best, |plan| &mut plan.overrides, &mut still);
        if size(&best) == before {
            best.operations.retain(|_, operations| !operations.is_empty());
            return best;
        }
    }
}

/// Number of items that can be removed.
pub fn size<C, O>(plan: &Plan<C, O>) -> usize {
    plan.faults.len() + plan.overrides.len() + plan.operations.values().map(Vec::len).sum::<usize>()
}

fn shrink_list<C: Clone, O: Clone, T>(
    best: &mut Plan<C, O>,
    list: impl Fn(&mut Plan<C, O>) -> &mut Vec<T>,
    still: &mut impl FnMut(&Plan<C, O>) -> bool,
) {
    let mut chunk = list(best).len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        while at < list(best).len() {
            let mut candidate = best.clone();
            let items = list(&mut candidate);
            items.drain(at..(at + chunk).min(items.len()));
            if still(&candidate) {
                *best = candidate;
            } else {
                at += chunk;
            }
        }
        chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Fault, Scheduled, When};
    use crate::plan::Operation;

    #[test]
    fn what_is_not_needed_goes_and_what_is_needed_stays() {
        let fault =
            |id| Scheduled { id, when: When::default(), fault: Fault::Pause { node: "a".into(), for_ms: 1 } };
        let operations =
            |ids: std::ops::Range<u32>| ids.map(|id| Operation { id, think_ms: 0, what: () }).collect();
        let plan = Plan {
            scenario: "s".into(),
            seed: 1,
            config: (),
            operations: [("w1".to_string(), operations(0..50)), ("w2".to_string(), operations(50..60))]
                .into(),
            faults: (0..20).map(fault).collect(),
            overrides: vec![],
        };
        let mut runs = 0;
        let small = shrink(&plan, |plan| {
            runs += 1;
            let has = |worker: &str, id| {
                plan.operations.get(worker).is_some_and(|ops| ops.iter().any(|op| op.id == id))
            };
            plan.faults.iter().any(|f| f.id == 13) && has("w1", 7) && has("w1", 41)
        });
        assert_eq!(small.faults.iter().map(|f| f.id).collect::<Vec<_>>(), [13]);
        assert_eq!(small.operations["w1"].iter().map(|op| op.id).collect::<Vec<_>>(), [7, 41]);
        assert!(!small.operations.contains_key("w2"));
        assert!(runs < 200, "{runs} runs for 80 items");
    }
}
