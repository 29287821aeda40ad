//! When a heartbeat is due, and what has been silent for too long: Java's `Heartbeat`.

use crate::config::ConsumerConfig;
use rt::time::Instant;
use std::time::Duration;

/// The timers of a member that is in the group.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    interval: Duration,
    session_timeout: Duration,
    max_poll_interval: Duration,
    retry_backoff: Duration,
    in_flight: bool,
    due_at: Instant,
    session_until: Instant,
    poll_until: Instant,
}

impl Heartbeat {
    pub(crate) fn new(config: &ConsumerConfig, now: Instant) -> Self {
        let mut heartbeat = Heartbeat {
            interval: Duration::from_millis(config.heartbeat_interval_ms),
            session_timeout: Duration::from_millis(config.session_timeout_ms),
            max_poll_interval: Duration::from_millis(config.max_poll_interval_ms),
            retry_backoff: Duration::from_millis(config.retry_backoff_ms),
            in_flight: false,
            due_at: now,
            session_until: now,
            poll_until: now,
        };
        heartbeat.joined(now);
        heartbeat
    }

    /// The member is in the group from now on: all timers begin anew.
    pub(crate) fn joined(&mut self, now: Instant) {
        self.due_at = now + self.interval;
        self.session_until = now + self.session_timeout;
        self.poll_until = now + self.max_poll_interval;
    }

    /// The application polls.
    pub(crate) fn polled(&mut self, now: Instant) {
        self.poll_until = now + self.max_poll_interval;
    }

    pub(crate) fn sent(&mut self, now: Instant) {
        self.in_flight = true;
        self.due_at = now + self.interval;
    }

    /// It was answered by a coordinator that knows the member.
    pub(crate) fn received(&mut self, now: Instant) {
        self.in_flight = false;
        self.session_until = now + self.session_timeout;
    }

    pub(crate) fn failed(&mut self, now: Instant) {
        self.in_flight = false;
        self.due_at = now + self.retry_backoff;
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.due_at <= now
    }

    /// No coordinator has answered for `session.timeout.ms`.
    pub(crate) fn session_expired(&self, now: Instant) -> bool {
        self.session_until <= now
    }

    /// A new coordinator is asked from now on.
    pub(crate) fn session_restarts(&mut self, now: Instant) {
        self.session_until = now + self.session_timeout;
    }

    /// The application has not polled for `max.poll.interval.ms`.
    pub(crate) fn poll_expired(&self, now: Instant) -> bool {
        self.poll_until <= now
    }

    /// When something of this happens next.
    pub(crate) fn next_due(&self) -> Instant {
        self.due_at.min(self.session_until).min(self.poll_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(0) + Duration::from_millis(ms)
    }

    fn heartbeat() -> Heartbeat {
        Heartbeat::new(&ConsumerConfig::jepsen(), at(0))
    }

    #[test]
    fn one_is_due_every_interval_and_sooner_after_a_failure() {
        let mut heartbeat = heartbeat();
        assert!(!heartbeat.is_due(at(299)) && heartbeat.is_due(at(300)));
        heartbeat.sent(at(300));
        assert!(!heartbeat.is_due(at(599)) && heartbeat.is_due(at(600)));
        heartbeat.failed(at(350));
        assert!(!heartbeat.is_due(at(449)) && heartbeat.is_due(at(450)));
    }

    #[test]
    fn a_session_lasts_from_answer_to_answer_and_not_from_failures() {
        let mut heartbeat = heartbeat();
        heartbeat.received(at(1_000));
        heartbeat.failed(at(5_000));
        assert!(!heartbeat.session_expired(at(6_999)) && heartbeat.session_expired(at(7_000)));
        heartbeat.session_restarts(at(7_000));
        assert!(!heartbeat.session_expired(at(12_999)));
    }

    #[test]
    fn only_the_application_keeps_its_own_interval() {
        let mut heartbeat = heartbeat();
        heartbeat.received(at(299_000));
        assert!(heartbeat.poll_expired(at(300_000)));
        heartbeat.polled(at(299_000));
        assert!(!heartbeat.poll_expired(at(300_000)) && heartbeat.poll_expired(at(599_000)));
    }
}
