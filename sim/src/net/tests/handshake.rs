//! Connecting: established, refused, timed out, late.

use super::*;

#[test]
fn a_connection_takes_one_round_trip_and_the_kernel_accepts_it_by_itself() {
    let mut w = World::new();
    let listener = w.bind(B, PLAIN);
    let a = w.connect(A, PLAIN);
    w.pass(200_000 - 1);
    assert_eq!(w.connected(a), Poll::Pending);
    w.pass(1);
    assert_eq!((w.connected(a), w.rings()), (Poll::Ready(Ok(())), 1));

    // The listening process sleeps: bytes are taken for it all the same.
    w.write_all(a, b"hello");
    w.pass(SECOND);
    let b = w.accept(listener).unwrap();
    assert_eq!(w.read(b), ready(b"hello"));
    let (a_addr, b_addr) = (w.kernel.local_addr(a).unwrap(), w.kernel.peer_addr(a).unwrap());
    assert_eq!((a_addr.to_string().as_str(), b_addr.to_string().as_str()), ("10.0.0.1:32768", "10.0.0.2:80"));
    assert_eq!((w.kernel.local_addr(b).unwrap(), w.kernel.peer_addr(b).unwrap()), (b_addr, a_addr));
}

#[test]
fn a_port_nobody_listens_on_refuses_at_once() {
    let mut w = World::new();
    let a = w.connect(A, PLAIN);
    assert_eq!(w.connected(a), Poll::Pending);
    w.pass(200_000);
    assert_eq!(w.rings(), 1);
    assert_eq!(w.connected(a), failed(io::ErrorKind::ConnectionRefused));
    w.close(a);
    w.settle();
    assert_eq!((w.now, w.kernel.connections()), (200_000, 0));
}

#[test]
fn a_dead_machine_is_silent_and_connect_times_out_after_127_s() {
    let mut w = World::new();
    w.call(|kernel, cx| kernel.machine_crashed(cx, B));
    let a = w.connect(A, PLAIN);
    w.pass(127 * SECOND - 1);
    assert_eq!(w.connected(a), Poll::Pending);
    w.pass(1);
    assert_eq!((w.connected(a), w.rings()), (failed(io::ErrorKind::TimedOut), 1));
    w.close(a);
    assert_eq!(w.kernel.connections(), 0);
    assert_eq!(w.events("net.retransmit.syn").len(), 6);
}

#[test]
fn a_connect_hangs_through_a_partition_and_completes_with_the_first_syn_after_it() {
    let mut w = World::new();
    let listener = w.bind(B, PLAIN);
    w.cut_both();
    let a = w.connect(A, PLAIN);
    // SYNs leave at 0, 1, 3, 7, 15 s.
    w.pass(8 * SECOND);
    w.heal_both();
    w.pass(7 * SECOND + 200_000 - 1);
    assert_eq!(w.connected(a), Poll::Pending);
    w.pass(1);
    assert_eq!(w.connected(a), Poll::Ready(Ok(())));
    w.pass(MS);
    assert!(w.accept(listener).is_some());
}

#[test]
fn the_answer_to_a_syn_can_be_lost_too() {
    let mut w = World::new();
    let listener = w.bind(B, PLAIN);
    w.cut(B, A);
    let a = w.connect(A, PLAIN);
    w.pass(500 * MS);
    w.kernel.heal(B, A);
    assert_eq!((w.connected(a), w.accept(listener)), (Poll::Pending, None));
    w.pass(600 * MS);
    assert_eq!(w.connected(a), Poll::Ready(Ok(())));
    assert!(w.accept(listener).is_some());
}

#[test]
fn a_full_backlog_drops_the_handshake_and_the_dialler_tries_again() {
    let mut w = World::with(NetConfig { backlog: 1, latency_jitter_us: 0, ..NetConfig::default() });
    let listener = w.bind(B, PLAIN);
    // As in Linux, the queue holds one more than the backlog.
    let [first, second] = [w.connect(A, PLAIN), w.connect(A, PLAIN)];
    w.pass(10 * MS);
    let third = w.connect(A, PLAIN);
    w.pass(500 * MS);
    assert_eq!([first, second].map(|socket| w.connected(socket)), [Poll::Ready(Ok(())); 2]);
    assert_eq!(w.connected(third), Poll::Pending);
    assert!(w.accept(listener).is_some());
    w.pass(SECOND);
    assert_eq!(w.connected(third), Poll::Ready(Ok(())));
}

#[test]
fn a_connection_the_queue_has_no_room_for_in_the_end_is_established_for_its_dialler_only() {
    let mut w = World::with(NetConfig { backlog: 0, latency_jitter_us: 0, ..NetConfig::default() });
    let listener = w.bind(B, PLAIN);
    // Both SYNs find the queue empty; the second one's acknowledgement finds it full.
    let [_first, second] = [w.connect(A, PLAIN), w.connect(A, PLAIN)];
    w.pass(10 * MS);
    assert_eq!(w.connected(second), Poll::Ready(Ok(())));
    w.write_all(second, b"x");
    assert!(w.accept(listener).is_some() && w.accept(listener).is_none());
    // Its bytes come again by its own timer, and now there is room.
    w.pass(250 * MS);
    let b = w.accept(listener).unwrap();
    assert_eq!(w.read(b), ready(b"x"));

    // One that writes nothing is established when the kernel sends its SYN-ACK again, after a second.
    let _quiet = [w.connect(A, PLAIN), w.connect(A, PLAIN)];
    w.pass(10 * MS);
    assert!(w.accept(listener).is_some() && w.accept(listener).is_none());
    w.pass(SECOND);
    assert!(w.accept(listener).is_some());
}

#[test]
fn a_connect_given_up_leaves_nothing_behind() {
    let mut w = World::new();
    let listener = w.bind(B, PLAIN);
    let a = w.connect(A, PLAIN);
    w.close(a);
    w.settle();
    assert_eq!((w.accept(listener), w.kernel.connections()), (None, 0));
}

#[test]
fn a_listener_closed_resets_what_nobody_accepted() {
    let mut w = World::new();
    let listener = w.bind(B, PLAIN);
    let a = w.connect(A, PLAIN);
    w.pass(MS);
    w.call(|kernel, cx| kernel.unbind(cx, listener));
    assert_eq!(w.read(a), Poll::Pending);
    w.pass(MS);
    assert_eq!(w.read(a), failed(io::ErrorKind::ConnectionReset));
    w.close(a);
    assert_eq!(w.kernel.connections(), 0);
    let again = w.bind(B, PLAIN);
    assert_eq!(w.accept(again), None);
}

#[test]
fn a_machine_dials_itself() {
    let mut w = World::new();
    let listener = w.bind(B, "localhost:80");
    let near = w.connect(B, "127.0.0.1:80");
    w.pass(100_000);
    let far = w.accept(listener).unwrap();
    w.write_all(near, b"me");
    w.pass(20_000);
    assert_eq!(w.read(far), ready(b"me"));
}

#[test]
fn binding_reports_what_is_wrong() {
    let mut w = World::new();
    let mut bind = |node, address: &str| {
        w.call(|kernel, cx| kernel.bind(cx, node, address)).map(|_| ()).map_err(|error| error.kind())
    };
    assert_eq!(bind(B, "0.0.0.0:80"), Ok(()));
    assert_eq!(bind(B, "b:80"), Err(io::ErrorKind::AddrInUse));
    assert_eq!(bind(A, "b:81"), Err(io::ErrorKind::AddrNotAvailable));
    assert_eq!(bind(A, "a"), Err(io::ErrorKind::InvalidInput));
    let any = w.bind(B, "b:0");
    assert_eq!(w.kernel.listener_addr(any).unwrap().to_string(), "10.0.0.2:32768");
}
