//! Judges what producers were told of newer producers (KIP-588), by what agents handed out.

use check::false_fence::{self, Fence};
use check::zombie::Grant;
use sim::trace::{Entry, NodeId};
use std::collections::BTreeMap;

/// Every end of a transaction that was refused because of a newer producer which never was.
pub(crate) fn judge(trace: &[Entry]) -> Vec<Fence> {
    false_fence::find(&fences(trace), &initialised(trace))
}

/// What every `InitProducerId` handed out, as its agent told; one that aborts a transaction first fences as it begins with
/// that, before it hands anything out, if it ever does.
fn initialised(trace: &[Entry]) -> Vec<Grant> {
    let fences = |entry: &&Entry| entry.name == "txn.prepared" && entry.text("by") == "fencing";
    let told = trace.iter().filter(|entry| entry.name == "init_producer_id" || fences(entry));
    let grant = told.map(|entry| {
        let (producer_id, epoch) = (entry.number("producer_id")?, entry.number("epoch")?);
        Some(Grant { producer_id, epoch: i16::try_from(epoch).ok()?, at_ns: entry.at_ns })
    });
    grant.flatten().collect()
}

fn fences(trace: &[Entry]) -> Vec<Fence> {
    // By machine and client id: the producer id and epoch last told.
    let mut epochs: BTreeMap<(NodeId, String), (i64, i16)> = BTreeMap::new();
    let mut fences = Vec::new();
    for entry in trace {
        let producer = || (entry.node, entry.text("id"));
        match entry.name {
            "producer.epoch" => {
                if let (Some(producer_id), Some(epoch)) = (entry.number("producer_id"), entry.number("epoch"))
                {
                    epochs.insert(producer(), (producer_id, epoch as i16));
                }
            }
            "producer.end" if entry.text("outcome") == "fenced" => {
                let told = epochs.get(&producer()).map(|(producer_id, epoch)| Fence {
                    producer: entry.text("id"),
                    producer_id: *producer_id,
                    epoch: *epoch,
                    told_ns: entry.at_ns,
                });
                fences.extend(told);
            }
            _ => {}
        }
    }
    fences
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::trace::{EventId, Field};

    fn told(name: &'static str, id: &str, epoch: i64, outcome: &str) -> Entry {
        let fields = vec![
            ("id", Field::Str(id.into())),
            ("producer_id", Field::I64(7)),
            ("epoch", Field::I64(epoch)),
            ("outcome", Field::Str(outcome.into())),
        ];
        Entry { id: EventId(1), at_ns: 50, node: NodeId(1), parent: EventId::NONE, name, fields }
    }

    #[test]
    fn an_end_is_held_against_the_epoch_its_producer_had_last() {
        let fenced = [
            told("init_producer_id", "", 0, ""),
            told("producer.epoch", "p", 0, ""),
            told("producer.end", "p", 0, "fenced"),
        ];
        assert_eq!(judge(&fenced).len(), 1);
        let by_another = [fenced.to_vec(), vec![told("init_producer_id", "", 1, "")]].concat();
        assert_eq!(judge(&by_another), []);
        let mut begins = told("txn.prepared", "", 1, "");
        begins.fields.push(("by", Field::Str("fencing".into())));
        assert_eq!(
            judge(&[fenced.to_vec(), vec![begins.clone()]].concat()),
            [],
            "it aborts, and was not answered yet"
        );
        begins.fields.pop();
        begins.fields.push(("by", Field::Str("timeout".into())));
        assert_eq!(judge(&[fenced.to_vec(), vec![begins]].concat()).len(), 1);
        let again = [by_another, vec![told("producer.epoch", "p", 1, "")], fenced[2..].to_vec()].concat();
        assert_eq!(judge(&again).len(), 1, "the epoch that it took since is the newest");
        assert_eq!(judge(&[fenced[1].clone(), told("producer.end", "p", 0, "ok")]), []);
    }
}
