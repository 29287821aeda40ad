//! The tap and its verdicts.

use super::*;

/// Answers frames labelled "caught" with `verdict`.
fn catching(verdict: Verdict) -> World {
    let mut w = World::new();
    w.answer = Box::new(move |label| if label == "caught" { verdict } else { Verdict::Pass });
    w
}

const HOLD: Verdict = Verdict::Hold(HoldId(7));

#[test]
fn the_tap_is_asked_once_per_frame_however_the_writes_are_split() {
    let frames = [frame(b"abc"), frame(b""), frame(&[9; 50])];
    let labels = ["one", "two", "three"];
    for piece in [1, 2, 3, 4, 5, 6, 7, 8, 9, 30, 100] {
        let mut w = World::new();
        let (_, a, b) = w.pair(FRAMED);
        for (frame, label) in frames.iter().zip(labels) {
            w.kernel.label(a, label.into());
            for bytes in frame.chunks(piece) {
                w.write_all(a, bytes);
                w.pass(MS);
            }
        }
        for bytes in frames.concat().chunks(piece) {
            w.write_all(a, bytes);
            w.pass(MS);
        }
        let seen: Vec<_> = labels.into_iter().chain([""; 3]).map(|label| (label.to_string(), A, B)).collect();
        assert_eq!(w.seen, seen, "pieces of {piece} bytes");
        assert_eq!(w.read(b), ready(&[frames.concat(), frames.concat()].concat()));
        let sizes: Vec<_> = w.events("net.frame").iter().map(|entry| entry.number("size")).collect();
        assert_eq!(sizes, [Some(7), Some(4), Some(54)]);
    }
}

#[test]
fn a_frame_never_written_does_not_leave_its_name_to_the_next() {
    let mut w =
        World::with(NetConfig { send_buffer_bytes: 100, receive_window_bytes: 100, ..NetConfig::default() });
    let (_, a, b) = w.pair(FRAMED);
    w.write_frame(a, "fills", &[1; 96]);
    w.pass(SECOND);
    w.write_frame(a, "fills", &[1; 96]);
    // As a write_frame does whose future is dropped while it waits for room.
    w.kernel.label(a, "dropped".into());
    assert_eq!(w.write(a, &frame(b"never")), Poll::Pending);
    assert_eq!(w.read(b).map_ok(|bytes| bytes.len()), Poll::Ready(Ok(100)));
    w.pass(SECOND);
    w.write_frame(a, "written", b"next");
    let seen: Vec<_> = w.seen.iter().map(|(label, ..)| label.as_str()).collect();
    assert_eq!(seen, ["fills", "fills", "written"]);
}

#[test]
fn answers_are_frames_of_their_own_direction() {
    let mut w = World::new();
    let (_, a, b) = w.pair(FRAMED);
    w.write_frame(a, "question", b"?");
    w.write_all(b, &frame(b"!"));
    assert_eq!(w.seen, [("question".to_string(), A, B), (String::new(), B, A)]);
    w.pass(MS);
    let (sent, delivered) = {
        let entries = w.trace.finish().1;
        let find = |name| entries.iter().find(|entry| entry.name == name).unwrap().clone();
        (find("net.frame"), find("net.frame.delivered"))
    };
    assert_eq!((delivered.parent, delivered.node), (sent.id, B));
    assert_eq!((sent.text("label"), sent.text("to")), ("question".into(), "b".into()));
    assert_eq!((delivered.text("label"), delivered.text("from")), ("question".into(), "a".into()));
}

#[test]
fn one_frame_is_held_while_other_connections_pass() {
    let mut w = catching(HOLD);
    let (listener, a, b) = w.pair(FRAMED);
    let other = w.connect(A, FRAMED);
    w.pass(MS);
    let far = w.accept(listener).unwrap();
    w.write_frame(a, "before", b"1");
    w.write_frame(a, "caught", b"2");
    w.write_frame(a, "after", b"3");
    w.write_frame(other, "elsewhere", b"4");
    w.write_frame(b, "back", b"5");
    w.pass(300 * SECOND);
    assert_eq!((w.read(b), w.read(b)), (ready(&frame(b"1")), Poll::Pending));
    assert_eq!((w.read(far), w.read(a)), (ready(&frame(b"4")), ready(&frame(b"5"))));

    w.release(7);
    w.pass(100_000 - 1);
    assert_eq!(w.read(b), Poll::Pending);
    w.pass(1);
    assert_eq!(w.read(b), ready(&[frame(b"2"), frame(b"3")].concat()));
    assert_eq!(w.events("net.released").len(), 1);
}

#[test]
fn a_held_frame_outlives_its_socket_and_the_fin_waits_behind_it() {
    let mut w = catching(HOLD);
    let (_, a, b) = w.pair(FRAMED);
    w.write_frame(a, "caught", b"EndTxn");
    w.close(a);
    w.pass(600 * SECOND);
    assert_eq!(w.read(b), Poll::Pending);
    w.release(7);
    w.pass(MS);
    assert_eq!((w.read(b), w.read(b)), (ready(&frame(b"EndTxn")), ready(EOF)));
    w.close(b);
    w.settle();
    assert_eq!(w.kernel.connections(), 0);
}

#[test]
fn a_held_frame_outlives_the_crash_of_its_process_and_of_its_machine() {
    for machine in [false, true] {
        let mut w = catching(HOLD);
        let (_, a, b) = w.pair(FRAMED);
        // An answer the process never reads: its kernel would reset the connection.
        w.write_frame(b, "unread", b"!");
        w.write_frame(a, "caught", b"EndTxn");
        w.pass(MS);
        w.call(|kernel, cx| match machine {
            false => kernel.process_crashed(cx, A),
            true => kernel.machine_crashed(cx, A),
        });
        w.pass(10 * SECOND);
        assert_eq!(w.read(b), Poll::Pending);
        w.release(7);
        w.pass(MS);
        assert_eq!(w.read(b), ready(&frame(b"EndTxn")));
        // The process's kernel reset the connection behind it; the machine is silent.
        let then = if machine { Poll::Pending } else { failed(io::ErrorKind::ConnectionReset) };
        assert_eq!(w.read(b), then);
    }
}

#[test]
fn bytes_for_a_closed_socket_do_not_overtake_what_that_socket_has_held() {
    let mut w = catching(HOLD);
    let (_, a, b) = w.pair(FRAMED);
    w.write_frame(a, "caught", b"EndTxn");
    w.close(a);
    w.write_frame(b, "late answer", b"!");
    w.pass(SECOND);
    assert_eq!(w.read(b), Poll::Pending);
    w.release(7);
    w.pass(MS);
    assert_eq!(w.read(b), ready(&frame(b"EndTxn")));
}

#[test]
fn a_held_frame_larger_than_window_and_send_buffer() {
    let mut w = World::with(NetConfig {
        send_buffer_bytes: 10_000,
        receive_window_bytes: 2_000,
        latency_jitter_us: 0,
        ..NetConfig::default()
    });
    w.answer = Box::new(|label| if label == "caught" { HOLD } else { Verdict::Pass });
    let (_, a, b) = w.pair(FRAMED);
    let whole = frame(&[5; 50_000]);
    w.kernel.label(a, "caught".into());
    assert_eq!(w.write(a, &whole), Poll::Ready(Ok(10_000)));
    assert_eq!(w.write(a, &whole[10_000..]), Poll::Pending);
    w.pass(60 * SECOND);
    assert_eq!((w.read(b), w.rings()), (Poll::Pending, 0));
    w.release(7);
    let (mut written, mut read) = (10_000, Vec::new());
    while read.len() < whole.len() {
        w.pass(MS);
        if let Poll::Ready(more) = w.read(b) {
            read.extend(more.unwrap());
        }
        if let Poll::Ready(taken) = w.write(a, &whole[written..]) {
            written += taken.unwrap();
        }
    }
    assert_eq!((read, w.seen.len()), (whole, 1));
}

#[test]
fn a_held_frame_whose_machine_crashed_arrives_whole_though_no_window_was_told() {
    let mut w = World::with(NetConfig { receive_window_bytes: 2_000, ..NetConfig::default() });
    w.answer = Box::new(|_| HOLD);
    let (_, a, b) = w.pair(FRAMED);
    w.write_frame(a, "big", &[5; 9_000]);
    w.call(|kernel, cx| kernel.machine_crashed(cx, A));
    w.release(7);
    w.pass(MS);
    assert_eq!(w.read_up_to(b, 100), ready(&frame(&[5; 9_000])[..100]));
    assert_eq!(w.read(b), ready(&frame(&[5; 9_000])[100..]));
}

#[test]
fn a_hold_may_hold_several_frames_and_is_released_frame_by_frame_of_no_other() {
    let mut w = World::new();
    w.answer = Box::new(|label| match label {
        "x" => Verdict::Hold(HoldId(1)),
        "y" => Verdict::Hold(HoldId(2)),
        _ => Verdict::Pass,
    });
    let (_, a, b) = w.pair(FRAMED);
    for label in ["x", "y", "x"] {
        w.write_frame(a, label, label.as_bytes());
    }
    w.release(1);
    w.pass(MS);
    assert_eq!((w.read(b), w.read(b)), (ready(&frame(b"x")), Poll::Pending));
    w.release(2);
    w.pass(MS);
    assert_eq!(w.read(b), ready(&[frame(b"y"), frame(b"x")].concat()));
}

#[test]
fn a_hold_released_in_a_partition_arrives_after_it() {
    let mut w = catching(HOLD);
    let (_, a, b) = w.pair(FRAMED);
    w.write_frame(a, "caught", b"x");
    w.cut_both();
    w.release(7);
    w.pass(SECOND);
    w.heal_both();
    w.pass(SECOND);
    assert_eq!(w.read(b), ready(&frame(b"x")));
}

#[test]
fn a_delayed_frame_delays_what_follows_it() {
    let mut w = catching(Verdict::Delay(5 * SECOND));
    let (_, a, b) = w.pair(FRAMED);
    w.write_frame(a, "before", b"1");
    w.write_frame(a, "caught", b"2");
    w.write_frame(a, "after", b"3");
    w.pass(5 * SECOND + 100_000 - 1);
    assert_eq!((w.read(b), w.read(b)), (ready(&frame(b"1")), Poll::Pending));
    w.pass(1);
    assert_eq!(w.read(b), ready(&[frame(b"2"), frame(b"3")].concat()));
}

#[test]
fn a_reset_verdict_resets_both_ends_at_once_and_loses_the_frame() {
    let mut w = catching(Verdict::Reset);
    let (_, a, b) = w.pair(FRAMED);
    assert_eq!((w.read(a), w.read(b)), (Poll::Pending, Poll::Pending));
    w.write_frame(a, "caught", b"x");
    assert_eq!(w.rings(), 2);
    for socket in [a, b] {
        assert_eq!(w.read(socket), failed(io::ErrorKind::ConnectionReset));
        assert_eq!(w.write(socket, b"x"), failed(io::ErrorKind::BrokenPipe));
        w.close(socket);
    }
    assert_eq!(w.kernel.connections(), 0);
}

#[test]
fn half_a_header_is_delivered_when_its_writer_ends() {
    let mut w = World::new();
    let (_, a, b) = w.pair(FRAMED);
    w.write_all(a, &[0, 0]);
    w.pass(SECOND);
    assert_eq!(w.read(b), Poll::Pending);
    w.close(a);
    w.pass(MS);
    assert_eq!((w.read(b), w.read(b), w.seen.len()), (ready(&[0, 0]), ready(EOF), 0));
}

#[test]
fn a_frame_that_grows_shifts_no_later_latency() {
    let arrivals = |first: usize| {
        let mut w = World::with(NetConfig::default());
        let (_, a, _) = w.pair(FRAMED);
        for body in [first, 3, 3] {
            w.write_frame(a, "f", &vec![1; body]);
            w.pass(10 * MS);
        }
        w.events("net.frame.delivered").iter().map(|entry| entry.at_ns).collect::<Vec<_>>()
    };
    assert_eq!(arrivals(3), arrivals(40_000));
}
