//! What faults do when they strike, and what ends them.

use crate::clock::Strobe;
use crate::fault::{Action, Fault, Scheduled};
use crate::net::Impairment;
use crate::node::{self, End};
use crate::trace::{NodeId, Weight};
use crate::world::World;
use rt::observe::Value;
use std::rc::Rc;

/// One end of a link fault, by node.
fn links(world: &World, from: &[String], to: &[String]) -> Option<Vec<(NodeId, NodeId)>> {
    let nodes = world.nodes.borrow();
    let find = |names: &[String]| names.iter().map(|name| nodes.find(name)).collect::<Option<Vec<_>>>();
    let (from, to) = (find(from)?, find(to)?);
    Some(from.iter().flat_map(|a| to.iter().map(|b| (*a, *b))).filter(|(a, b)| a != b).collect())
}

impl World {
    /// Does what is due, between two polls.
    pub(crate) fn act(self: &Rc<Self>, action: Action) {
        self.as_world(|| match action {
            Action::Strike(index) => self.strike(index),
            Action::Resume(id, process) => node::resume(self, id, process),
            Action::Start(id) => node::start(self, id),
            Action::Exit(id) => node::stop(self, id, End::Exit),
            Action::Crash(id) => node::stop(self, id, End::Crash),
            Action::Heal { from, to } => {
                self.on_links("fault.heal", &from, &to, |kernel, _, a, b| kernel.heal(a, b))
            }
            Action::Mend { from, to, impairment } => {
                self.on_links("fault.mend", &from, &to, |kernel, _, a, b| kernel.mend(a, b, impairment));
            }
            Action::SetDrift { node, ppm } => {
                self.nodes.borrow_mut().get_mut(node).clock.set_drift(self.now.get(), ppm)
            }
            Action::Strobe(strobe) => self.strobe(strobe),
            Action::Release(hold) => self.kernel(|kernel, cx| kernel.release(cx, hold)),
        });
    }

    fn on_links(
        &self,
        what: &'static str,
        from: &[String],
        to: &[String],
        mut change: impl FnMut(&mut crate::net::Kernel, &mut crate::net::Cx<'_>, NodeId, NodeId),
    ) {
        let (from_names, to_names) = (from.join(","), to.join(","));
        let event = self.record(
            Weight::Event,
            what,
            &[("from", Value::Str(&from_names)), ("to", Value::Str(&to_names))],
        );
        let before = self.cause.replace(event);
        for (a, b) in links(self, from, to).unwrap_or_default() {
            self.kernel(|kernel, cx| change(kernel, cx, a, b));
        }
        self.cause.set(before);
    }

    /// The fault at `index` strikes.
    fn strike(self: &Rc<Self>, index: usize) {
        let Scheduled { id, fault, .. } = self.trouble.borrow().scheduled(index);
        // A frame's ends may yet be added, and are only compared with.
        let named = if fault.is_on_frames() { Vec::new() } else { fault.nodes() };
        if let Some(unknown) = named.into_iter().find(|name| self.nodes.borrow().find(name).is_none()) {
            self.fail(format!("fault {id} names the node {unknown}, which does not exist"));
            return;
        }
        let words = fault.describe();
        self.cause.set(self.record(
            Weight::Event,
            "fault",
            &[("id", Value::from(id)), ("what", Value::Str(&words))],
        ));
        if self.apply(id, fault) {
            self.trouble.borrow_mut().land(id);
        }
    }

    /// Does what the fault says; whether that had an effect at once.
    fn apply(self: &Rc<Self>, id: u32, fault: Fault) -> bool {
        match fault {
            Fault::Pause { node, for_ms } => node::pause(self, self.id(&node), for_ms),
            Fault::Crash { node, restart_after_ms } => self.crash(&node, End::Kill, restart_after_ms),
            Fault::Stop { node, restart_after_ms } => {
                node::ask_to_stop(self, self.id(&node), id, restart_after_ms);
                false
            }
            Fault::Start { node } => {
                let was_down = !node::is_up(&node);
                node::start(self, self.id(&node));
                was_down
            }
            Fault::MachineCrash { node, restart_after_ms } => {
                self.crash(&node, End::MachineCrash, restart_after_ms)
            }
            Fault::Cut { from, to, both_ways, for_ms } => {
                self.cut(&from, &to, for_ms);
                if both_ways {
                    self.cut(&to, &from, for_ms);
                }
                true
            }
            Fault::Loss { from, to, probability, for_ms } => {
                self.worsen("fault.loss", from, to, Impairment::Loss(probability), for_ms)
            }
            Fault::Slow { from, to, by_ms, for_ms } => {
                self.worsen("fault.slow", from, to, Impairment::Latency(by_ms * 1_000_000), for_ms)
            }
            Fault::Narrow { from, to, bytes_per_s, for_ms } => {
                self.worsen("fault.narrow", from, to, Impairment::Bandwidth(bytes_per_s), for_ms)
            }
            Fault::ClockJump { node, by_ms } => {
                let node = self.id(&node);
                self.nodes.borrow_mut().get_mut(node).clock.jump(by_ms);
                true
            }
            Fault::ClockDrift { node, ppm, for_ms } => {
                let node = self.id(&node);
                self.nodes.borrow_mut().get_mut(node).clock.set_drift(self.now.get(), ppm);
                node::later(self, for_ms, Action::SetDrift { node, ppm: 0 });
                true
            }
            Fault::ClockReset { node } => {
                let node = self.id(&node);
                self.nodes.borrow_mut().get_mut(node).clock.reset(self.now.get())
            }
            Fault::ClockStrobe { node, delta_ms, period_ms, for_ms } => {
                let until_ns = self.now.get() + for_ms * 1_000_000;
                let (node, period_ns) = (self.id(&node), period_ms.max(1) * 1_000_000);
                self.strobe(Strobe { node, delta_ms, period_ns, until_ns, away: true });
                true
            }
            Fault::Hold { frame, until } => {
                self.hold_frame(id, frame, until);
                false
            }
            Fault::Delay { frame, by_ms } => {
                self.delay_frame(id, frame, by_ms);
                false
            }
            Fault::Reset { frame } => {
                self.reset_frame(id, frame);
                false
            }
        }
    }

    /// One jump of a strobe, and the moment of the next. The last one is the one back.
    fn strobe(&self, strobe: Strobe) {
        let Strobe { node, delta_ms, period_ns, until_ns, away } = strobe;
        self.nodes.borrow_mut().get_mut(node).clock.strobe(if away { delta_ms } else { -delta_ms });
        let next_ns = self.now.get() + period_ns;
        if away || next_ns < until_ns {
            node::at(self, next_ns.min(until_ns), Action::Strobe(Strobe { away: !away, ..strobe }));
        }
    }

    fn worsen(
        &self,
        what: &'static str,
        from: Vec<String>,
        to: Vec<String>,
        impairment: Impairment,
        for_ms: u64,
    ) -> bool {
        self.on_links(what, &from, &to, |kernel, _, a, b| kernel.worsen(a, b, impairment));
        node::later(self, for_ms, Action::Mend { from, to, impairment });
        true
    }

    /// The id of a node that is known to exist.
    fn id(&self, name: &str) -> NodeId {
        self.nodes.borrow().find(name).expect("checked when the fault struck")
    }

    fn crash(self: &Rc<Self>, name: &str, end: End, restart_after_ms: Option<u64>) -> bool {
        let was_up = node::is_up(name);
        let id = self.id(name);
        if was_up {
            node::stop(self, id, end);
        }
        if let Some(after_ms) = restart_after_ms {
            node::later(self, after_ms, Action::Start(id));
        }
        was_up
    }

    fn cut(&self, from: &[String], to: &[String], for_ms: u64) {
        self.on_links("fault.cut", from, to, |kernel, cx, a, b| kernel.cut(cx, a, b));
        node::later(self, for_ms, Action::Heal { from: from.to_vec(), to: to.to_vec() });
    }
}
