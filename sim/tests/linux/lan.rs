//! Two machines and the network between them, made of network namespaces: `a` and `b`, each on a wire of its own to a
//! router that drops what is cut, lost, or meant for a machine that is off.
//!
//! Packets are dropped on the router, where neither kernel can know. Neighbours are given, so that nobody finds out by
//! ARP that a machine is off. A machine that comes back is a namespace that never was there before.

use crate::script::Side;
use crate::stage::{ORPHAN_RETRIES, RETRIES, net_config};
use std::io::Write;
use std::process::{Command, Stdio};

/// The namespaces of one case. They are deleted with it.
pub(crate) struct Lan {
    name: String,
    /// How often each machine was started.
    starts: [u32; 2],
}

impl Lan {
    /// Needs root. `name` must be free.
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        let mut lan = Lan { name: name.into(), starts: [0; 2] };
        let router = lan.router();
        feed(&["ip", "-batch", "-"], &format!("netns add {router}"))?;
        in_namespace(&router, &["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"], "")?;
        let table = "table ip tank {
            set cut { type ifname; }
            set told { type ifname; }
            chain loss { }
            chain arrives {
                type filter hook prerouting priority raw;
                iifname @cut drop
                iifname @told reject with icmp type host-unreachable
                jump loss
            }
        }";
        in_namespace(&router, &["nft", "-f", "-"], table)?;
        for side in Side::BOTH {
            lan.start(side)?;
        }
        Ok(lan)
    }

    fn router(&self) -> String {
        format!("{}-r", self.name)
    }

    pub(crate) fn namespace(&self, side: Side) -> String {
        format!("{}-{}{}", self.name, side.name(), self.starts[side as usize])
    }

    /// The address of the machine of `side`.
    pub(crate) fn ip(side: Side) -> String {
        format!("10.77.{}.1", side as u8)
    }

    /// Makes the machine of `side`, and its wire.
    pub(crate) fn start(&mut self, side: Side) -> Result<(), String> {
        self.starts[side as usize] += 1;
        let (own, router, number) = (self.namespace(side), self.router(), side as u8);
        let (near, far) = (format!("02:00:00:00:00:0{number}"), format!("02:00:00:00:01:0{number}"));
        let (wire, net) = (side.name(), format!("10.77.{number}"));
        let made = format!(
            "netns add {own}
             link add name eth netns {own} address {near} type veth peer name {wire} netns {router} address {far}"
        );
        feed(&["ip", "-batch", "-"], &made)?;
        let machine = format!(
            "link set dev lo up
             address add {net}.1/24 dev eth
             link set dev eth up
             neighbour add {net}.254 lladdr {far} dev eth nud permanent
             route add 10.77.0.0/16 via {net}.254 dev eth rto_min {}ms",
            net_config().rto_min_ms
        );
        feed(&["ip", "-n", &own, "-batch", "-"], &machine)?;
        let wired = format!(
            "address add {net}.254/24 dev {wire}
             link set dev {wire} up
             neighbour add {net}.1 lladdr {near} dev {wire} nud permanent"
        );
        feed(&["ip", "-n", &router, "-batch", "-"], &wired)?;
        in_namespace(&own, &["sh"], &settings())
    }

    /// The machine of `side` is gone with its wire; its processes must be dead.
    pub(crate) fn remove(&self, side: Side) -> Result<(), String> {
        let router = self.router();
        feed(&["ip", "-n", &router, "-batch", "-"], &format!("link delete dev {}", side.name()))?;
        feed(&["ip", "-batch", "-"], &format!("netns delete {}", self.namespace(side)))
    }

    /// From now on the router drops what comes from `side`.
    pub(crate) fn cut(&self, side: Side) -> Result<(), String> {
        self.nft(&format!("add element ip tank cut {{ {} }}", side.name()))
    }

    /// From now on the router answers what comes from `side`: there is no such machine.
    pub(crate) fn tell(&self, side: Side) -> Result<(), String> {
        self.nft(&format!("add element ip tank told {{ {} }}", side.name()))
    }

    pub(crate) fn heal(&self, side: Side) -> Result<(), String> {
        self.nft(&format!("delete element ip tank cut {{ {} }}", side.name()))
    }

    /// From now on the router drops so many of a hundred packets from `side`, by chance.
    pub(crate) fn lose(&self, side: Side, percent: u32) -> Result<(), String> {
        let chance = if percent < 100 { format!("numgen random mod 100 < {percent}") } else { String::new() };
        self.nft(&format!("add rule ip tank loss iifname {} {chance} drop", side.name()))
    }

    pub(crate) fn lose_no_more(&self) -> Result<(), String> {
        self.nft("flush chain ip tank loss")
    }

    fn nft(&self, command: &str) -> Result<(), String> {
        in_namespace(&self.router(), &["nft", "-f", "-"], command)
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        for name in [self.router(), self.namespace(Side::A), self.namespace(Side::B)] {
            // One that is off is gone already.
            let _ = feed(&["ip", "-batch", "-"], &format!("netns delete {name}"));
        }
    }
}

/// Has a shell give the machine the kernel settings of [`net_config`].
fn settings() -> String {
    let config = net_config();
    let set = |key: &str, value: String| format!("echo {value} >/proc/sys/net/{key}\n");
    let buffer = |bytes: u32| format!("4096 {bytes} {bytes}");
    let settings = [
        set("ipv4/tcp_syn_retries", config.syn_retries.to_string()),
        set("ipv4/tcp_synack_retries", config.synack_retries.to_string()),
        set("ipv4/tcp_retries2", RETRIES.to_string()),
        set("ipv4/tcp_orphan_retries", ORPHAN_RETRIES.to_string()),
        set("ipv4/tcp_wmem", buffer(config.send_buffer_bytes)),
        set("ipv4/tcp_rmem", buffer(config.receive_window_bytes)),
        set("ipv4/tcp_no_metrics_save", "1".into()),
        set("core/somaxconn", config.backlog.to_string()),
        // Not before Linux 6.5.
        "[ ! -e /proc/sys/net/ipv4/tcp_syn_linear_timeouts ] || echo 0 >/proc/sys/net/ipv4/tcp_syn_linear_timeouts\n"
            .into(),
    ];
    format!("set -e\n{}", settings.concat())
}

fn in_namespace(namespace: &str, command: &[&str], input: &str) -> Result<(), String> {
    feed(&[&["ip", "netns", "exec", namespace], command].concat(), input)
}

/// Runs a command with `input`, and takes an error for one.
fn feed(command: &[&str], input: &str) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error} (input: {input})", command.join(" "));
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).map_err(|error| failed(&error))?;
    }
    let output = child.wait_with_output().map_err(|error| failed(&error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(&String::from_utf8_lossy(&output.stderr).trim()))
}
