//! Reading, writing, ending: what each side observes, and in which order.

use super::*;

#[test]
fn bytes_and_fin_outlive_the_close_of_the_socket() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.write_all(a, b"last words");
    w.close(a);
    assert_eq!(w.read(b), Poll::Pending);
    w.pass(100_000);
    assert_eq!((w.rings(), w.read(b), w.read(b)), (1, ready(b"last words"), ready(EOF)));
    w.close(b);
    w.settle();
    assert_eq!(w.kernel.connections(), 0);
}

#[test]
fn a_half_closed_connection_carries_bytes_the_other_way() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.write_all(a, b"question");
    w.shutdown(a).unwrap();
    assert_eq!(w.write(a, b"more"), failed(io::ErrorKind::BrokenPipe));
    w.pass(MS);
    assert_eq!((w.read(b), w.read(b)), (ready(b"question"), ready(EOF)));
    w.write_all(b, b"answer");
    w.close(b);
    w.pass(MS);
    assert_eq!((w.read(a), w.read(a), w.read(a)), (ready(b"answer"), ready(EOF), ready(EOF)));
}

#[test]
fn closing_with_unread_bytes_resets() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.write_all(b, b"answer to nothing");
    w.write_all(a, b"unread");
    w.pass(MS);
    w.close(b);
    w.pass(MS);
    // What was received stays readable; then the error, once; then the end.
    assert_eq!(w.read(a), ready(b"answer to nothing"));
    assert_eq!(w.read(a), failed(io::ErrorKind::ConnectionReset));
    assert_eq!(w.read(a), ready(EOF));
    assert_eq!(w.write(a, b"x"), failed(io::ErrorKind::BrokenPipe));
    assert_eq!(w.shutdown(a), Err(io::ErrorKind::NotConnected));
    w.close(a);
    assert_eq!(w.kernel.connections(), 0);
}

#[test]
fn a_reset_does_not_overtake_bytes_that_left_before_it() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.write_all(a, b"unread");
    w.pass(MS);
    w.write_all(b, b"one ");
    w.pass(50_000);
    w.write_all(b, b"two ");
    w.kernel.worsen(B, A, Impairment::Latency(MS));
    w.write_all(b, b"three");
    w.kernel.mend(B, A, Impairment::Latency(MS));
    w.close(b);
    w.pass(10 * MS);
    assert_eq!((w.read(a), w.read(a)), (ready(b"one two three"), failed(io::ErrorKind::ConnectionReset)));

    // The last bytes and the RST arrive in one moment, and the RST was planned first.
    let (_, a, b) = w.pair("b:81");
    w.write_all(a, b"unread");
    w.pass(MS);
    w.write_all(b, b"one ");
    w.pass(50_000);
    w.write_all(b, b"two");
    w.close(b);
    w.pass(MS);
    assert_eq!((w.read(a), w.read(a)), (ready(b"one two"), failed(io::ErrorKind::ConnectionReset)));
}

#[test]
fn bytes_for_a_closed_socket_reset_the_sender() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.close(b);
    w.pass(MS);
    // The peer's FIN says only that it will not write: writing succeeds once.
    w.write_all(a, b"x");
    w.pass(MS);
    // In CLOSE_WAIT a RST is a broken pipe, and reading still sees the end of the file.
    assert_eq!(w.write(a, b"y"), failed(io::ErrorKind::BrokenPipe));
    assert_eq!(w.read(a), ready(EOF));
    w.close(a);
    w.settle();
    assert_eq!(w.kernel.connections(), 0);
}

#[test]
fn a_write_after_a_reset_reports_it_once_and_then_a_broken_pipe() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.write_all(a, b"unread");
    w.pass(MS);
    w.close(b);
    w.pass(MS);
    assert_eq!(w.write(a, b"x"), failed(io::ErrorKind::ConnectionReset));
    assert_eq!(w.write(a, b"x"), failed(io::ErrorKind::BrokenPipe));
    assert_eq!(w.read(a), ready(EOF));
}

#[test]
fn a_writer_waits_for_a_reader_that_does_not_read() {
    let config = NetConfig { send_buffer_bytes: 3_000, receive_window_bytes: 1_600, ..NetConfig::default() };
    let mut w = World::with(config);
    let (_, a, b) = w.pair(PLAIN);
    let bytes: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
    assert_eq!(w.write(a, &bytes), Poll::Ready(Ok(3_000)));
    assert_eq!(w.write(a, &bytes[3_000..]), Poll::Pending);
    // 1600 bytes reach the receive buffer and are acknowledged; as many may be written.
    w.pass(10 * MS);
    assert_eq!(w.rings(), 1);
    assert_eq!(w.write(a, &bytes[3_000..]), Poll::Ready(Ok(1_600)));
    assert_eq!(w.write(a, &bytes[4_600..]), Poll::Pending);
    w.pass(60 * SECOND);
    assert_eq!(w.rings(), 0);

    // Too few bytes read to be worth telling; then enough.
    assert_eq!(w.read_up_to(b, 99), ready(&bytes[..99]));
    w.pass(10 * MS);
    assert_eq!((w.rings(), w.read_up_to(b, 0)), (0, ready(EOF)));
    assert_eq!(w.read_up_to(b, 5_000), ready(&bytes[99..1_600]));
    w.pass(10 * MS);
    assert_eq!((w.rings(), w.read(b)), (1, ready(&bytes[1_600..3_200])));
}

#[test]
fn a_writer_is_woken_when_a_third_of_its_buffer_is_free() {
    let mut w = World::with(NetConfig {
        send_buffer_bytes: 3_000,
        latency_jitter_us: 0,
        bandwidth_bytes_per_s: 100_000,
        ..NetConfig::default()
    });
    let (_, a, _) = w.pair(PLAIN);
    for _ in 0..30 {
        w.write_all(a, &[7; 100]);
    }
    assert_eq!(w.write(a, b"x"), Poll::Pending);
    // A hundred bytes leave each millisecond, and are acknowledged 400 us later.
    w.pass(10 * MS);
    assert_eq!(w.rings(), 0);
    w.pass(MS);
    assert_eq!(w.rings(), 1);
}

#[test]
fn a_reader_of_few_bytes_does_not_make_segments_of_few_bytes() {
    let mut w = World::with(NetConfig { receive_window_bytes: 1_600, ..NetConfig::default() });
    let (_, a, b) = w.pair(PLAIN);
    w.write_all(a, &[7; 16_000]);
    w.pass(10 * MS);
    for _ in 0..1_500 {
        assert_eq!(w.read_up_to(b, 10), ready(&[7; 10]));
        w.pass(MS);
    }
    let delivered = w.events("net.deliver");
    assert!(delivered.iter().all(|entry| entry.number("bytes").is_some_and(|bytes| bytes >= 100)));
}

#[test]
fn everything_written_is_read_however_slow_the_reader() {
    let config = NetConfig { send_buffer_bytes: 5_000, receive_window_bytes: 2_000, ..NetConfig::default() };
    let mut w = World::with(config);
    let (_, a, b) = w.pair(PLAIN);
    let bytes: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
    let (mut written, mut read) = (0, Vec::new());
    while read.len() < bytes.len() {
        if let Poll::Ready(taken) = w.write(a, &bytes[written..]) {
            written += taken.unwrap();
        }
        w.pass(MS);
        if let Poll::Ready(more) = w.read_up_to(b, 300) {
            read.extend(more.unwrap());
        }
    }
    assert_eq!(read, bytes);
}

#[test]
fn the_parent_of_a_delivery_is_its_write_and_it_is_the_cause_of_the_wake() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    let written = w.call(|_, cx| cx.detail(A, EventId::NONE, "test.write", &[]));
    CAUSE.set(written);
    w.write_all(a, b"x");
    CAUSE.set(EventId::NONE);
    assert_eq!(w.read(b), Poll::Pending);
    w.pass(MS);
    let (rings, cause) = (w.rings(), w.bell.cause.load(Ordering::Relaxed));
    assert_eq!(CAUSE.get(), EventId::NONE);
    let delivered = w.events("net.deliver");
    assert_eq!((delivered.len(), delivered[0].parent, delivered[0].node), (1, written, B));
    assert_eq!((rings, EventId(cause)), (1, delivered[0].id));
}

#[test]
fn a_writer_blocked_by_window_and_buffer_is_woken_once_there_is_room() {
    let config = NetConfig { send_buffer_bytes: 1_000, receive_window_bytes: 1_000, ..NetConfig::default() };
    let mut w = World::with(config);
    let (_, a, b) = w.pair(PLAIN);
    w.write_all(a, &[1; 1_000]);
    w.pass(10 * MS);
    w.write_all(a, &[2; 1_000]);
    assert_eq!(w.write(a, b"x"), Poll::Pending);
    w.pass(10 * MS);
    assert_eq!(w.rings(), 0);
    assert_eq!(w.read(b), ready(&[1; 1_000]));
    // The window's news reaches the sender, the waiting bytes the receiver, and their acknowledgement the sender.
    w.pass(10 * MS);
    assert_eq!(w.rings(), 1);
    assert_eq!(w.write(a, b"x"), Poll::Ready(Ok(1)));
}

// The next four were observed on Linux 6.18, on loopback.

#[test]
fn reading_after_a_shutdown_of_the_own_side_still_reports_a_reset() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.write_all(a, b"unread");
    w.shutdown(a).unwrap();
    w.pass(MS);
    w.close(b);
    w.pass(MS);
    assert_eq!((w.read(a), w.read(a)), (failed(io::ErrorKind::ConnectionReset), ready(EOF)));
    assert_eq!(w.write(a, b"x"), failed(io::ErrorKind::BrokenPipe));
}

#[test]
fn a_connection_reset_in_the_accept_queue_is_accepted_and_reports_it() {
    let mut w = World::new();
    let listener = w.bind(B, PLAIN);
    let a = w.connect(A, PLAIN);
    w.pass(MS);
    w.write_all(a, b"hey");
    w.pass(MS);
    // Linger 0, or bytes unread, on the dialler's side.
    w.call(|kernel, cx| kernel.abort(cx, a.key, usize::from(a.side)));
    w.pass(MS);
    let b = w.accept(listener).unwrap();
    assert_eq!(
        (w.read(b), w.read(b), w.read(b)),
        (ready(b"hey"), failed(io::ErrorKind::ConnectionReset), ready(EOF))
    );
    w.close(b);
    assert_eq!(w.kernel.connections(), 0);
}

#[test]
fn a_connection_closed_in_the_accept_queue_can_be_read_and_written_once() {
    let mut w = World::new();
    let listener = w.bind(B, PLAIN);
    let a = w.connect(A, PLAIN);
    w.pass(MS);
    w.write_all(a, b"hey");
    w.close(a);
    w.pass(MS);
    let b = w.accept(listener).unwrap();
    assert_eq!((w.read(b), w.read(b)), (ready(b"hey"), ready(EOF)));
    w.write_all(b, b"x");
    w.pass(MS);
    assert_eq!([w.write(b, b"x"), w.write(b, b"x")], [failed(io::ErrorKind::BrokenPipe); 2]);
}

#[test]
fn a_connection_that_both_sides_have_ended_is_not_connected() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.shutdown(b).unwrap();
    assert_eq!(w.shutdown(b), Ok(()));
    w.pass(MS);
    assert_eq!((w.read(a), w.shutdown(a)), (ready(EOF), Ok(())));
    w.pass(MS);
    assert_eq!(w.read(b), ready(EOF));
    for socket in [a, b] {
        assert_eq!(w.shutdown(socket), Err(io::ErrorKind::NotConnected));
        assert_eq!(w.write(socket, b"x"), failed(io::ErrorKind::BrokenPipe));
    }
}
