//! What the network is like: one plain struct, part of a recording.
//!
//! Defaults are Linux's own where Linux has one (Documentation/networking/ip-sysctl.rst), and a data centre's
//! elsewhere.

use serde::{Deserialize, Serialize};

/// The network of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetConfig {
    /// Least one-way latency of a link, in microseconds.
    pub latency_base_us: u64,
    /// What a draw may add to it: each frame's latency is uniform in `base..=base + jitter`, in microseconds.
    pub latency_jitter_us: u64,
    /// One-way latency between two sockets of one machine, in microseconds; it has no jitter.
    pub loopback_latency_us: u64,
    /// Probability (0 to 1) that a segment is lost on a link. Lost segments come again by retransmission. Nothing is
    /// lost within a machine.
    pub loss_probability: f64,
    /// What one direction of a link carries, in bytes of payload a second; 0 is no limit. Connections share it in the
    /// order in which they send.
    pub bandwidth_bytes_per_s: u64,
    /// How many bytes a socket takes that its peer has not acknowledged (`SO_SNDBUF`).
    pub send_buffer_bytes: u32,
    /// How many unread bytes a socket keeps (`SO_RCVBUF`); the sender waits beyond that.
    pub receive_window_bytes: u32,
    /// Least retransmission timeout, in milliseconds; it doubles with each retransmission. The round trip is added, as
    /// in RFC 6298.
    pub rto_min_ms: u64,
    /// Greatest retransmission timeout, in milliseconds.
    pub rto_max_ms: u64,
    /// Timeout of the first SYN and SYN-ACK, in milliseconds.
    pub syn_rto_ms: u64,
    /// How often an unanswered SYN is sent again (`tcp_syn_retries`); 6 makes a connect fail after 127 s.
    pub syn_retries: u32,
    /// How many SYNs go out one first timeout apart before the interval doubles (`tcp_syn_linear_timeouts`). They come
    /// on top of `syn_retries`. None before Linux 6.5; 4 since.
    pub syn_linear_timeouts: u32,
    /// How often an unanswered SYN-ACK is sent again (`tcp_synack_retries`); 5 forgets the request after 63 s.
    pub synack_retries: u32,
    /// How long data may stay unacknowledged before the socket fails with `TimedOut`, in milliseconds, counted from the
    /// first retransmission and looked at when the timer fires. 924.6 s is what `tcp_retries2` = 15 amounts to.
    pub user_timeout_ms: u64,
    /// The same bound for a socket whose process has closed it, in milliseconds. 102.2 s is what `tcp_orphan_retries` =
    /// 8 amounts to.
    pub orphan_timeout_ms: u64,
    /// The backlog of a listener. As in Linux the accept queue holds one more than this.
    pub backlog: u32,
}

impl Default for NetConfig {
    fn default() -> Self {
        NetConfig {
            latency_base_us: 200,
            latency_jitter_us: 600,
            loopback_latency_us: 20,
            loss_probability: 0.0,
            bandwidth_bytes_per_s: 0,
            send_buffer_bytes: 256 * 1024,
            receive_window_bytes: 64 * 1024,
            rto_min_ms: 200,
            rto_max_ms: 120_000,
            syn_rto_ms: 1_000,
            syn_retries: 6,
            syn_linear_timeouts: 0,
            synack_retries: 5,
            user_timeout_ms: 924_600,
            orphan_timeout_ms: 102_200,
            backlog: 128,
        }
    }
}

impl NetConfig {
    /// Whether a network can be like this.
    ///
    /// # Errors
    /// Says which field cannot.
    pub fn check(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.loss_probability) {
            return Err(format!("loss_probability is {}, not in 0..=1", self.loss_probability));
        }
        if self.send_buffer_bytes == 0 || self.receive_window_bytes == 0 {
            return Err(
                "send_buffer_bytes and receive_window_bytes must not be 0: nothing would ever move".into()
            );
        }
        if self.rto_min_ms == 0 || self.syn_rto_ms == 0 || self.rto_min_ms > self.rto_max_ms {
            return Err("rto_min_ms and syn_rto_ms must not be 0, nor rto_min_ms above rto_max_ms".into());
        }
        Ok(())
    }

    /// How long the `attempt`-th SYN (from 0) waits for an answer, in nanoseconds.
    pub(super) fn syn_wait_ns(&self, attempt: u32) -> u64 {
        self.backoff_ns(ms(self.syn_rto_ms), attempt.saturating_sub(self.syn_linear_timeouts))
    }

    /// How long the `attempt`-th SYN-ACK (from 0) waits for an answer, in nanoseconds.
    pub(super) fn synack_wait_ns(&self, attempt: u32) -> u64 {
        self.backoff_ns(ms(self.syn_rto_ms), attempt)
    }

    /// `first_ns` doubled `times` times, at most the greatest retransmission timeout.
    pub(super) fn backoff_ns(&self, first_ns: u64, times: u32) -> u64 {
        first_ns.saturating_mul(1 << times.min(32)).min(ms(self.rto_max_ms))
    }
}

/// Milliseconds as nanoseconds.
pub(super) fn ms(ms: u64) -> u64 {
    ms.saturating_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syns_wait_as_ip_sysctl_says() {
        let total = |config: &NetConfig, attempts: u32| -> u64 {
            (0..attempts).map(|attempt| config.syn_wait_ns(attempt) / 1_000_000_000).sum()
        };
        let old = NetConfig::default();
        assert_eq!((total(&old, 6), total(&old, 7)), (63, 127));
        // "corresponds to 67 seconds till the last retransmission ... final timeout after 131 seconds"
        let new = NetConfig { syn_linear_timeouts: 4, ..NetConfig::default() };
        assert_eq!((total(&new, 10), total(&new, 11)), (67, 131));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let default = NetConfig::default;
        assert_eq!(default().check(), Ok(()));
        for (bad, field) in [
            (NetConfig { loss_probability: 1.1, ..default() }, "loss_probability"),
            (NetConfig { loss_probability: f64::NAN, ..default() }, "loss_probability"),
            (NetConfig { receive_window_bytes: 0, ..default() }, "receive_window_bytes"),
            (NetConfig { rto_max_ms: 100, ..default() }, "rto_min_ms"),
        ] {
            assert!(bad.check().unwrap_err().contains(field));
        }
    }

    #[test]
    fn an_unknown_field_is_refused_and_a_missing_one_is_the_default() {
        assert!(serde_json::from_str::<NetConfig>(r#"{"latency": 3}"#).is_err());
        let config: NetConfig = serde_json::from_str(r#"{"backlog": 3}"#).unwrap();
        assert_eq!(config, NetConfig { backlog: 3, ..NetConfig::default() });
    }
}
