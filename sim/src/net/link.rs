//! Links between machines: latency, loss, bandwidth, cuts.
//!
//! A link is directed. Impairments nest: each is laid on and taken off again by its own value, in any order, and what is
//! in force is their combination.

use super::Cx;
use super::config::NetConfig;
use crate::trace::NodeId;

/// Not at any time: the arrival of what is lost, the alarm of a timer that is off.
pub(super) const NEVER: u64 = u64::MAX;

/// What a link can suffer besides a cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Impairment {
    /// Each segment is lost with this probability (0 to 1), on top of what is lost anyway.
    Loss(f64),
    /// Everything takes this much longer, in nanoseconds.
    Latency(u64),
    /// No more than so many bytes of payload a second; the least limit counts.
    Bandwidth(u64),
}

/// The way of one direction of one connection, and the key by which its chance is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    /// The sending node's name as a choice's key.
    pub(super) node_key: u64,
    /// The connection and the direction as a choice's entity.
    pub(super) entity: u64,
}

/// Which draw of a route: the frame (or segment), the part of it, the attempt to send it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ordinal {
    pub(super) number: u64,
    pub(super) part: u32,
    pub(super) attempt: u32,
}

impl Ordinal {
    /// Loss is drawn anew for each part and attempt. The number stays on top, so that a frame that grows shifts nothing.
    fn of_loss(self) -> u64 {
        (self.number << 20) | (u64::from(self.part.min(0xfff)) << 8) | u64::from(self.attempt.min(0xff))
    }
}

#[derive(Clone, Debug)]
struct Link {
    cuts: u32,
    jitter_ns: u64,
    /// Base and extra latency together.
    latency_ns: u64,
    loss: f64,
    bandwidth: u64,
    /// When the last byte given to the link will have left.
    busy_until: u64,
    own_loss: f64,
    own_bandwidth: u64,
    losses: Vec<f64>,
    bandwidths: Vec<u64>,
    dialled: u64,
}

impl Link {
    fn new(config: &NetConfig, loopback: bool) -> Self {
        let base_us = if loopback { config.loopback_latency_us } else { config.latency_base_us };
        let (loss, bandwidth) =
            if loopback { (0.0, 0) } else { (config.loss_probability, config.bandwidth_bytes_per_s) };
        let mut link = Link {
            cuts: 0,
            jitter_ns: if loopback { 0 } else { config.latency_jitter_us * 1_000 },
            latency_ns: base_us * 1_000,
            loss: 0.0,
            bandwidth: 0,
            busy_until: 0,
            own_loss: loss,
            own_bandwidth: bandwidth,
            losses: Vec::new(),
            bandwidths: Vec::new(),
            dialled: 0,
        };
        link.combine();
        link
    }

    fn combine(&mut self) {
        self.loss = 1.0 - self.losses.iter().fold(1.0 - self.own_loss, |kept, loss| kept * (1.0 - loss));
        let limits = self.bandwidths.iter().copied().chain([self.own_bandwidth]);
        self.bandwidth = limits.filter(|limit| *limit > 0).min().unwrap_or(0);
    }

    /// What an acknowledgement takes: the mean, as nothing is drawn for it.
    fn mean_ns(&self) -> u64 {
        self.latency_ns + self.jitter_ns / 2
    }

    /// When `bytes` given to the link now have left it.
    fn departure(&mut self, now: u64, bytes: u32) -> u64 {
        if self.bandwidth == 0 || bytes == 0 {
            return now;
        }
        let takes = u128::from(bytes) * 1_000_000_000 / u128::from(self.bandwidth);
        self.busy_until = self.busy_until.max(now).saturating_add(takes as u64);
        self.busy_until
    }
}

/// All links, by the nodes they join.
pub(super) struct Links {
    by_from: Vec<Vec<Link>>,
}

impl Links {
    pub(super) fn new() -> Self {
        Links { by_from: Vec::new() }
    }

    /// Makes room for nodes below `count`.
    pub(super) fn grow(&mut self, count: usize, config: &NetConfig) {
        self.by_from.resize(count.max(self.by_from.len()), Vec::new());
        for (from, links) in self.by_from.iter_mut().enumerate() {
            for to in links.len()..count {
                links.push(Link::new(config, from == to));
            }
        }
    }

    fn between(&mut self, from: NodeId, to: NodeId) -> &mut Link {
        &mut self.by_from[from.0 as usize][to.0 as usize]
    }

    fn look(&self, from: NodeId, to: NodeId) -> &Link {
        &self.by_from[from.0 as usize][to.0 as usize]
    }

    pub(super) fn cut(&mut self, from: NodeId, to: NodeId) {
        self.between(from, to).cuts += 1;
    }

    pub(super) fn heal(&mut self, from: NodeId, to: NodeId) {
        let link = self.between(from, to);
        link.cuts = link.cuts.saturating_sub(1);
    }

    pub(super) fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.look(from, to).cuts > 0
    }

    pub(super) fn worsen(&mut self, from: NodeId, to: NodeId, impairment: Impairment) {
        let link = self.between(from, to);
        match impairment {
            Impairment::Loss(probability) => link.losses.push(probability),
            Impairment::Latency(extra_ns) => link.latency_ns += extra_ns,
            Impairment::Bandwidth(limit) => link.bandwidths.push(limit),
        }
        link.combine();
    }

    pub(super) fn mend(&mut self, from: NodeId, to: NodeId, impairment: Impairment) {
        let link = self.between(from, to);
        match impairment {
            Impairment::Loss(probability) => take_off(&mut link.losses, probability),
            Impairment::Latency(extra_ns) => link.latency_ns = link.latency_ns.saturating_sub(extra_ns),
            Impairment::Bandwidth(limit) => take_off(&mut link.bandwidths, limit),
        }
        link.combine();
    }

    /// The number of the next connection that `from` dials to `to`.
    pub(super) fn dial(&mut self, from: NodeId, to: NodeId) -> u64 {
        let link = self.between(from, to);
        link.dialled += 1;
        link.dialled - 1
    }

    /// When a segment of `bytes` that leaves now arrives; [`NEVER`] if it is lost.
    pub(super) fn fly(&mut self, cx: &Cx<'_>, route: Route, ordinal: Ordinal, bytes: u32) -> u64 {
        let link = self.between(route.from, route.to);
        if link.cuts > 0 {
            return NEVER;
        }
        let departure = link.departure(cx.now, bytes);
        if link.loss > 0.0 {
            let lost = cx.choices.draw("net.loss", route.node_key, route.entity, ordinal.of_loss());
            if lost.chance(link.loss) {
                return NEVER;
            }
        }
        let jitter = if link.jitter_ns == 0 {
            0
        } else {
            cx.choices
                .draw("net.latency", route.node_key, route.entity, ordinal.number)
                .below(link.jitter_ns + 1)
        };
        departure + link.latency_ns + jitter
    }

    /// When an acknowledgement that leaves now arrives; [`NEVER`] if it is lost. `number` tells a route's
    /// acknowledgements apart.
    pub(super) fn fly_ack(&self, cx: &Cx<'_>, route: Route, number: u64) -> u64 {
        let link = self.look(route.from, route.to);
        if link.cuts > 0 {
            return NEVER;
        }
        if link.loss > 0.0
            && cx.choices.draw("net.loss.ack", route.node_key, route.entity, number).chance(link.loss)
        {
            return NEVER;
        }
        cx.now + link.mean_ns()
    }

    /// What a round trip from `from` takes, by the mean.
    pub(super) fn round_trip_ns(&self, from: NodeId, to: NodeId) -> u64 {
        self.look(from, to).mean_ns() + self.look(to, from).mean_ns()
    }

    /// What the way from `from` takes, by the mean.
    pub(super) fn one_way_ns(&self, from: NodeId, to: NodeId) -> u64 {
        self.look(from, to).mean_ns()
    }
}

fn take_off<T: PartialEq>(laid_on: &mut Vec<T>, value: T) {
    if let Some(place) = laid_on.iter().position(|laid| *laid == value) {
        laid_on.swap_remove(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impairments_nest_and_come_off_in_any_order() {
        let (a, b) = (NodeId(1), NodeId(2));
        let mut links = Links::new();
        links.grow(3, &NetConfig { bandwidth_bytes_per_s: 900, ..NetConfig::default() });
        for bandwidth in [500, 700] {
            links.worsen(a, b, Impairment::Bandwidth(bandwidth));
        }
        links.worsen(a, b, Impairment::Loss(0.5));
        links.worsen(a, b, Impairment::Loss(0.5));
        links.worsen(a, b, Impairment::Latency(1_000));
        assert_eq!((links.look(a, b).bandwidth, links.look(a, b).loss), (500, 0.75));
        assert_eq!(links.one_way_ns(a, b), 501_000);

        links.mend(a, b, Impairment::Bandwidth(500));
        links.mend(a, b, Impairment::Loss(0.5));
        assert_eq!((links.look(a, b).bandwidth, links.look(a, b).loss), (700, 0.5));
        links.mend(a, b, Impairment::Bandwidth(700));
        links.mend(a, b, Impairment::Loss(0.5));
        links.mend(a, b, Impairment::Latency(1_000));
        assert_eq!((links.look(a, b).bandwidth, links.look(a, b).loss), (900, 0.0));
        assert_eq!((links.one_way_ns(a, b), links.one_way_ns(b, a)), (500_000, 500_000));
    }

    #[test]
    fn a_link_cut_twice_is_healed_twice() {
        let mut links = Links::new();
        links.grow(3, &NetConfig::default());
        let (a, b) = (NodeId(1), NodeId(2));
        links.cut(a, b);
        links.cut(a, b);
        links.heal(a, b);
        assert!(links.is_cut(a, b) && !links.is_cut(b, a));
        links.heal(a, b);
        assert!(!links.is_cut(a, b));
    }
}
