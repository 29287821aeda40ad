//! Machines: names, addresses, ports, and whether the kernel runs.

use super::slab::Key;
use crate::choice::node_key;
use crate::trace::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// Linux's `ip_local_port_range`.
const EPHEMERAL_PORTS: std::ops::RangeInclusive<u16> = 32_768..=60_999;

/// One machine.
pub(super) struct Machine {
    pub(super) name: Box<str>,
    /// The name as a choice's key.
    pub(super) key: u64,
    pub(super) ip: Ipv4Addr,
    /// False from a crash of the machine to its next start: nobody answers.
    pub(super) up: bool,
    pub(super) listeners: BTreeMap<u16, Key>,
    ports_in_use: BTreeSet<u16>,
    next_port: u16,
}

impl Machine {
    /// Takes a free ephemeral port.
    pub(super) fn take_port(&mut self) -> io::Result<u16> {
        for _ in EPHEMERAL_PORTS {
            let port = self.next_port;
            self.next_port = if port == *EPHEMERAL_PORTS.end() { *EPHEMERAL_PORTS.start() } else { port + 1 };
            if !self.listeners.contains_key(&port) && self.ports_in_use.insert(port) {
                return Ok(port);
            }
        }
        Err(io::ErrorKind::AddrNotAvailable.into())
    }

    pub(super) fn free_port(&mut self, port: u16) {
        self.ports_in_use.remove(&port);
    }
}

/// All machines, by node.
#[derive(Default)]
pub(super) struct Machines {
    by_node: Vec<Option<Machine>>,
}

impl Machines {
    pub(super) fn add(&mut self, node: NodeId, name: &str) -> Ipv4Addr {
        let index = node.0 as usize;
        assert!((1..=0xffff).contains(&node.0), "node {} is no machine", node.0);
        if self.by_node.len() <= index {
            self.by_node.resize_with(index + 1, || None);
        }
        let ip = Ipv4Addr::new(10, 0, (index >> 8) as u8, index as u8);
        self.by_node[index] = Some(Machine {
            name: name.into(),
            key: node_key(name),
            ip,
            up: true,
            listeners: BTreeMap::new(),
            ports_in_use: BTreeSet::new(),
            next_port: *EPHEMERAL_PORTS.start(),
        });
        ip
    }

    /// The machine of `node`, which must have been added.
    pub(super) fn get(&self, node: NodeId) -> &Machine {
        self.by_node[node.0 as usize].as_ref().expect("a node with sockets has a machine")
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> &mut Machine {
        self.by_node[node.0 as usize].as_mut().expect("a node with sockets has a machine")
    }

    /// The machine that `address` (`host:port`) means on `node`, and the port.
    pub(super) fn resolve(&self, node: NodeId, address: &str) -> io::Result<(NodeId, u16)> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, format!("invalid address {address:?}"));
        if let Ok(SocketAddr::V4(address)) = address.parse() {
            let (ip, port) = (*address.ip(), address.port());
            if ip.is_loopback() || ip.is_unspecified() {
                return Ok((node, port));
            }
            let found = self.find(|machine| machine.ip == ip);
            return found.map(|node| (node, port)).ok_or(io::ErrorKind::HostUnreachable.into());
        }
        let (host, port) = address.rsplit_once(':').ok_or_else(invalid)?;
        let port = port.parse().map_err(|_| invalid())?;
        if host == "localhost" {
            return Ok((node, port));
        }
        let unknown = || io::Error::other(format!("failed to lookup address information of {host:?}"));
        self.find(|machine| *machine.name == *host).map(|node| (node, port)).ok_or_else(unknown)
    }

    fn find(&self, wanted: impl Fn(&Machine) -> bool) -> Option<NodeId> {
        let found = self.by_node.iter().position(|machine| machine.as_ref().is_some_and(&wanted));
        found.map(|index| NodeId(index as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_resolve() {
        let mut machines = Machines::default();
        machines.add(NodeId(1), "agent-1");
        assert_eq!(machines.add(NodeId(300), "etcd"), Ipv4Addr::new(10, 0, 1, 44));
        let resolve = |address| machines.resolve(NodeId(1), address).map_err(|error| error.kind());
        assert_eq!(resolve("etcd:2379"), Ok((NodeId(300), 2379)));
        assert_eq!(resolve("10.0.1.44:80"), Ok((NodeId(300), 80)));
        for own in ["agent-1:80", "10.0.0.1:80", "127.0.0.1:80", "localhost:80", "0.0.0.0:80"] {
            assert_eq!(resolve(own), Ok((NodeId(1), 80)));
        }
        assert_eq!(resolve("10.0.0.9:80"), Err(io::ErrorKind::HostUnreachable));
        assert_eq!(resolve("nobody:80"), Err(io::ErrorKind::Other));
        assert_eq!(resolve("etcd"), Err(io::ErrorKind::InvalidInput));
        assert_eq!(resolve("etcd:http"), Err(io::ErrorKind::InvalidInput));
    }

    #[test]
    fn ports_go_round_and_skip_those_in_use() {
        let mut machines = Machines::default();
        machines.add(NodeId(1), "n");
        let machine = machines.get_mut(NodeId(1));
        assert_eq!(machine.take_port().unwrap(), 32_768);
        let rest: Vec<u16> = (0..28_231).map(|_| machine.take_port().unwrap()).collect();
        assert_eq!(rest.last(), Some(&60_999));
        assert_eq!(machine.take_port().unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
        machine.free_port(40_000);
        assert_eq!(machine.take_port().unwrap(), 40_000);
    }
}
