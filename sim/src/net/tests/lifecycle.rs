//! Crashes: the kernel is not the process, and a machine is not a process either.

use super::*;

#[test]
fn a_process_crash_is_a_fin_or_a_reset_if_bytes_were_unread() {
    for unread in [false, true] {
        let mut w = World::new();
        let (listener, a, _b) = w.pair(PLAIN);
        let waiting = w.connect(C, PLAIN);
        w.pass(MS);
        if unread {
            w.write_all(a, b"never read");
            w.pass(MS);
        }
        w.call(|kernel, cx| kernel.process_crashed(cx, B));
        w.pass(MS);
        assert_eq!(w.read(a), if unread { failed(io::ErrorKind::ConnectionReset) } else { ready(EOF) });
        assert_eq!(w.read(waiting), failed(io::ErrorKind::ConnectionReset), "nobody had accepted it");
        let late = w.connect(A, PLAIN);
        w.pass(MS);
        assert_eq!(w.connected(late), failed(io::ErrorKind::ConnectionRefused));
        let waker = w.waker();
        let gone = w.call(|kernel, cx| kernel.poll_accept(cx, listener, &waker).map_ok(|_| ()));
        assert_eq!(gone.map_err(|error| error.kind()), failed(io::ErrorKind::InvalidInput));
        // A restarted process listens again at once.
        w.bind(B, PLAIN);
    }
}

#[test]
fn bytes_written_before_a_process_crash_arrive() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.write_all(b, b"acknowledged");
    w.call(|kernel, cx| kernel.process_crashed(cx, B));
    w.pass(MS);
    assert_eq!((w.read(a), w.read(a)), (ready(b"acknowledged"), ready(EOF)));
}

#[test]
fn a_machine_crash_leaves_its_peer_half_open_until_the_machine_is_back() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.write_all(b, b"left already");
    w.write_all(a, b"received, never read");
    w.pass(100_000);
    w.call(|kernel, cx| kernel.machine_crashed(cx, B));
    w.pass(60 * SECOND);
    assert_eq!((w.read(a), w.read(a)), (ready(b"left already"), Poll::Pending));
    let kept = w.kernel.conns.get(a.key).map(|conn| conn.flows[0].ring.len());
    assert_eq!(kept, Some(0), "what the machine had received went with it");
    // The process's own handle dies with the machine, without effect.
    w.close(b);
    w.write_all(a, b"are you there");
    w.pass(SECOND);
    assert_eq!(w.read(a), Poll::Pending);
    w.call(|kernel, cx| kernel.machine_started(cx, B));
    w.pass(2 * SECOND);
    assert_eq!((w.rings(), w.read(a)), (1, failed(io::ErrorKind::ConnectionReset)));
    w.close(a);
    w.settle();
    assert_eq!(w.kernel.connections(), 0);
}

#[test]
fn a_machine_crash_sends_nothing_that_was_not_sent() {
    let mut w = World::with(NetConfig { receive_window_bytes: 1_000, ..NetConfig::default() });
    let (_, a, b) = w.pair(PLAIN);
    w.write_all(b, &[7; 3_000]);
    w.pass(10 * MS);
    w.call(|kernel, cx| kernel.machine_crashed(cx, B));
    w.pass(10 * SECOND);
    assert_eq!((w.read(a), w.read(a)), (ready(&[7; 1_000]), Poll::Pending));
    w.pass(10 * SECOND);
    assert_eq!(w.read(a), Poll::Pending);
}

#[test]
fn a_machine_that_crashes_while_dialled_answers_when_it_is_back() {
    let mut w = World::new();
    let a = w.connect(A, PLAIN);
    w.call(|kernel, cx| kernel.machine_crashed(cx, B));
    w.pass(5 * SECOND);
    assert_eq!(w.connected(a), Poll::Pending);
    w.call(|kernel, cx| kernel.machine_started(cx, B));
    w.bind(B, PLAIN);
    // The next SYN leaves at 7 s.
    w.pass(3 * SECOND);
    assert_eq!(w.connected(a), Poll::Ready(Ok(())));
}

#[test]
fn a_request_to_a_listener_that_is_gone_does_not_reach_its_successor() {
    let mut w = World::new();
    let listener = w.bind(B, PLAIN);
    let a = w.connect(A, PLAIN);
    // The SYN has arrived, the handshake's last step has not.
    w.pass(150_000);
    w.call(|kernel, cx| kernel.unbind(cx, listener));
    let successor = w.bind(B, PLAIN);
    w.pass(MS);
    assert_eq!((w.connected(a), w.accept(successor)), (failed(io::ErrorKind::ConnectionReset), None));
}

#[test]
fn both_ends_on_one_machine_vanish_with_it() {
    let mut w = World::new();
    let listener = w.bind(B, PLAIN);
    let near = w.connect(B, PLAIN);
    w.pass(MS);
    let far = w.accept(listener).unwrap();
    w.write_all(near, b"x");
    w.call(|kernel, cx| kernel.machine_crashed(cx, B));
    w.settle();
    w.close(far);
    assert_eq!(w.kernel.connections(), 0);
}
