//! `agent-down`: an agent that ended by itself, and that nobody has started again by the end of a run (finding 15). One that
//! was killed, or asked to stop, is where it should be.

use sim::run::Run;
use sim::trace::Entry;

/// What is held against the agents called `names`, in words.
pub(crate) fn find(run: &Run<()>, names: &[String]) -> Vec<String> {
    let down = names.iter().filter_map(|name| {
        let exit = last_exit(run.trace.iter().filter(|entry| run.node(entry.node) == *name))?;
        Some(format!("{name} ended by itself at {} and is down", crate::explain::seconds(exit)))
    });
    down.collect()
}

/// When the process ended by itself, if it did and is still down.
fn last_exit<'a>(of_node: impl Iterator<Item = &'a Entry>) -> Option<u64> {
    let (mut asked, mut ended_ns) = (false, None);
    for entry in of_node {
        match entry.name {
            "node.start" | "node.crash" => (asked, ended_ns) = (false, None),
            "node.stop" => asked = true,
            "node.exit" => ended_ns = (!asked).then_some(entry.at_ns),
            _ => {}
        }
    }
    ended_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::trace::{EventId, NodeId};

    fn exit_of(life: &[&'static str]) -> Option<u64> {
        let entry = |(at_ns, name): (u64, &&'static str)| Entry {
            id: EventId(at_ns),
            at_ns,
            node: NodeId(1),
            parent: EventId::NONE,
            name,
            fields: Vec::new(),
        };
        let life: Vec<Entry> = (1..).zip(life).map(entry).collect();
        last_exit(life.iter())
    }

    #[test]
    fn only_who_ended_by_itself_and_stayed_down_is_named() {
        assert_eq!(exit_of(&["node.start"]), None);
        assert_eq!(exit_of(&["node.start", "lease.registered", "node.exit"]), Some(3));
        assert_eq!(exit_of(&["node.start", "node.exit", "node.start"]), None);
        assert_eq!(exit_of(&["node.start", "node.stop", "node.exit"]), None);
        assert_eq!(exit_of(&["node.start", "node.stop", "node.exit", "node.start", "node.exit"]), Some(5));
        assert_eq!(exit_of(&["node.start", "node.crash"]), None);
    }
}
