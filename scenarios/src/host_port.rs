//! Addresses to listen on, as options name them, and what is said when that fails.

use rt::net::TcpListener;
use std::io;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name or an address; an IPv6 address in brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl std::str::FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = parts.filter(|(host, _)| !host.is_empty()).ok_or("write HOST:PORT")?;
        Ok(HostPort { host: host.into(), port })
    }
}

impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The host that clients are told.
pub(crate) fn advertised_host(listen: &str, advertise: Option<&str>) -> Result<String, String> {
    match (advertise, listen) {
        (Some(host), _) => Ok(host.to_string()),
        (None, "0.0.0.0" | "[::]") => Err(format!(
            "--listen: {listen} is every address of this machine: name one for clients with --advertise HOST"
        )),
        (None, host) => Ok(host.trim_matches(['[', ']']).to_string()),
    }
}

/// Where a listener is, with its real port.
pub(crate) fn bound(host: &str, listener: &TcpListener) -> io::Result<HostPort> {
    Ok(HostPort { host: host.to_string(), port: listener.local_addr()?.port() })
}

/// What is said of an address that cannot be listened on.
pub(crate) fn taken(option: &str, address: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "{option}: {address} is taken: stop what listens there, or choose another port (0 takes any free one)"
            )
        }
        _ => format!("{option}: {address} cannot be listened on: {error}"),
    }
}
