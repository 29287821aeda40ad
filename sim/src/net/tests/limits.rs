//! Bandwidth, latency, and what a long run leaves behind.

use super::*;

#[test]
fn connections_share_the_bandwidth_of_a_link() {
    let mut w = World::with(NetConfig {
        latency_base_us: 100,
        latency_jitter_us: 0,
        bandwidth_bytes_per_s: 1_000_000,
        ..NetConfig::default()
    });
    let (listener, a, b) = w.pair(PLAIN);
    let other = w.connect(A, PLAIN);
    w.pass(MS);
    let far = w.accept(listener).unwrap();
    // 10,000 bytes take 10 ms; 5,000 bytes of another connection wait for them.
    w.write_all(a, &[1; 10_000]);
    w.write_all(other, &[2; 5_000]);
    w.pass(10 * MS + 100_000 - 1);
    assert_eq!(w.read(b), Poll::Pending);
    w.pass(1);
    assert_eq!(w.read(b), ready(&[1; 10_000]));
    w.pass(5 * MS - 1);
    assert_eq!(w.read(far), Poll::Pending);
    w.pass(1);
    assert_eq!(w.read(far), ready(&[2; 5_000]));
    // The other direction has its own.
    w.write_all(b, &[3; 1_000]);
    w.pass(MS + 100_000);
    assert_eq!(w.read(a), ready(&[3; 1_000]));
}

#[test]
fn latency_is_drawn_within_its_bounds_and_repeats() {
    let arrivals = |seed: u64| {
        let mut w = World::with(NetConfig::default());
        w.choices = Choices::new(seed, &[]);
        let (_, a, _) = w.pair(FRAMED);
        let mut sent = Vec::new();
        for _ in 0..100 {
            sent.push(w.now);
            w.write_frame(a, "f", b"x");
            w.pass(MS);
        }
        let delivered = w.events("net.frame.delivered");
        let took: Vec<u64> = delivered.iter().zip(sent).map(|(entry, sent)| entry.at_ns - sent).collect();
        assert!(took.iter().all(|ns| (200_000..=800_000).contains(ns)));
        took
    };
    assert_eq!(arrivals(1), arrivals(1));
    assert_ne!(arrivals(1), arrivals(2));
    let spread = arrivals(3);
    assert!(spread.iter().any(|ns| *ns < 300_000) && spread.iter().any(|ns| *ns > 700_000));
}

#[test]
fn a_connection_more_elsewhere_changes_no_latency() {
    let arrivals = |extra: bool| {
        let mut w = World::with(NetConfig::default());
        if extra {
            w.bind(C, "c:9092");
            w.connect(A, "c:9092");
            w.connect(B, "c:9092");
        }
        let (_, a, _) = w.pair(FRAMED);
        w.write_frame(a, "f", b"x");
        w.pass(MS);
        w.events("net.frame.delivered").iter().map(|entry| entry.at_ns).collect::<Vec<_>>()
    };
    assert_eq!(arrivals(false), arrivals(true));
}

#[test]
fn a_slow_link_slows_both_bytes_and_acknowledgements() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.kernel.worsen(A, B, Impairment::Latency(SECOND));
    w.write_all(a, b"slow");
    w.pass(SECOND + 100_000 - 1);
    assert_eq!(w.read(b), Poll::Pending);
    w.pass(1);
    assert_eq!(w.read(b), ready(b"slow"));
    w.kernel.mend(A, B, Impairment::Latency(SECOND));
    w.write_all(a, b"fast");
    w.pass(100_000);
    assert_eq!(w.read(b), ready(b"fast"));
    assert_eq!(w.events("net.retransmit").len(), 0);
}

#[test]
fn a_hundred_thousand_connections_leave_nothing_behind() {
    let mut w = World::new();
    w.trace = Trace::new(Keep::Nothing);
    let listener = w.bind(B, FRAMED);
    for n in 0..100_000u32 {
        let a = w.connect(A, FRAMED);
        w.pass(MS);
        let b = w.accept(listener).unwrap();
        w.write_frame(a, "request", b"?");
        w.pass(MS);
        // Now and then one side closes with bytes unread.
        if n % 3 > 0 {
            assert_eq!(w.read(b), ready(&frame(b"?")));
        }
        w.close(b);
        w.close(a);
        w.pass(MS);
        w.seen.clear();
    }
    assert_eq!((w.kernel.connections(), w.kernel.next_at()), (0, None));
    assert!(w.kernel.conns.slots() <= 2, "{} slots for one connection at a time", w.kernel.conns.slots());
}

#[test]
fn two_runs_of_one_program_have_one_fingerprint() {
    let run = || {
        let mut w = World::with(NetConfig { loss_probability: 0.2, ..NetConfig::default() });
        let listener = w.bind(B, FRAMED);
        let a = w.connect(A, FRAMED);
        w.pass(300 * SECOND);
        let b = w.accept(listener).unwrap();
        for _ in 0..100 {
            w.write_frame(a, "f", b"x");
            w.pass(MS);
            let _ = w.read(b);
        }
        w.call(|kernel, cx| kernel.machine_crashed(cx, B));
        w.pass(60 * SECOND);
        w.trace.finish().0
    };
    assert_eq!(run(), run());
}
