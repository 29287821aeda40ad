//! Cuts and loss: a partition delays, it does not erase.

use super::*;
use proptest::prelude::*;

#[test]
fn after_a_long_partition_bytes_arrive_with_the_next_retransmission() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    let start = w.now;
    w.cut_both();
    w.write_all(a, b"through");
    // The timeout is 200 ms and a round trip of 200 us. A tail loss probe comes after one, retransmissions after 2, 4,
    // 8, 16, ...
    let timeout = 200 * MS + 200_000;
    w.pass(20 * SECOND);
    w.heal_both();
    let arrival = start + 128 * timeout + 100_000;
    w.pass(arrival - 1 - w.now);
    assert_eq!(w.read(b), Poll::Pending);
    w.pass(1);
    assert_eq!((w.rings(), w.read(b)), (1, ready(b"through")));
    // Everything is as before: the next loss begins with a short timeout again.
    w.write_all(b, b"answer");
    w.pass(100_000);
    assert_eq!(w.read(a), ready(b"answer"));
    w.cut_both();
    w.write_all(a, b"again");
    w.pass(MS);
    w.heal_both();
    w.pass(timeout);
    assert_eq!(w.read(b), ready(b"again"));
}

#[test]
fn what_is_on_a_link_when_it_is_cut_is_lost_and_comes_again() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.write_all(a, b"caught");
    w.pass(50_000);
    w.cut(A, B);
    w.kernel.heal(A, B);
    w.pass(10 * MS);
    assert_eq!(w.read(b), Poll::Pending);
    w.pass(200 * MS);
    assert_eq!(w.read(b), ready(b"caught"));
}

#[test]
fn a_fin_lost_in_a_partition_comes_after_it_though_the_process_has_closed() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.cut_both();
    w.write_all(a, b"bye");
    w.close(a);
    w.pass(5 * SECOND);
    w.heal_both();
    w.pass(5 * SECOND);
    assert_eq!((w.read(b), w.read(b)), (ready(b"bye"), ready(EOF)));
}

#[test]
fn in_a_one_way_cut_bytes_pass_once_and_the_sender_times_out_because_no_answer_does() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.cut(B, A);
    w.write_all(a, b"one way");
    w.pass(MS);
    assert_eq!((w.read(b), w.read(b)), (ready(b"one way"), Poll::Pending));
    assert_eq!(w.read(a), Poll::Pending);
    // The 16th timeout is the first at least 924.6 s after the first: 0.2 s (2^10 - 1) + 6 * 120 s, and round trips.
    w.pass(924 * SECOND);
    assert_eq!((w.rings(), w.read(a)), (0, Poll::Pending));
    w.pass(3 * SECOND);
    assert_eq!((w.rings(), w.read(a)), (1, failed(io::ErrorKind::TimedOut)));
    assert_eq!(w.read(b), Poll::Pending, "b got the bytes once, and hears nothing of a's despair");
    assert_eq!(w.write(a, b"x"), failed(io::ErrorKind::BrokenPipe));
}

#[test]
fn in_a_one_way_cut_the_send_buffer_does_not_drain() {
    let mut w =
        World::with(NetConfig { send_buffer_bytes: 1_000, latency_jitter_us: 0, ..NetConfig::default() });
    let (_, a, b) = w.pair(PLAIN);
    w.cut(B, A);
    w.write_all(a, &[7; 1_000]);
    w.pass(SECOND);
    assert_eq!(w.read(b), ready(&[7; 1_000]));
    assert_eq!(w.write(a, b"x"), Poll::Pending);
    w.kernel.heal(B, A);
    w.pass(SECOND);
    assert_eq!((w.rings(), w.write(a, b"x")), (1, Poll::Ready(Ok(1))));
}

#[test]
fn a_window_that_opens_behind_a_cut_is_found_by_a_probe() {
    let mut w = World::with(NetConfig {
        send_buffer_bytes: 4_000,
        receive_window_bytes: 1_000,
        latency_jitter_us: 0,
        ..NetConfig::default()
    });
    let (_, a, b) = w.pair(PLAIN);
    w.write_all(a, &[7; 2_000]);
    w.pass(10 * MS);
    w.cut(B, A);
    assert_eq!(w.read(b), ready(&[7; 1_000]));
    w.pass(100 * MS);
    w.kernel.heal(B, A);
    assert_eq!(w.read(b), Poll::Pending);
    w.pass(150 * MS);
    assert_eq!(w.read(b), ready(&[7; 1_000]));
}

#[test]
fn a_peer_that_vanished_with_its_window_closed_is_given_up() {
    let mut w = World::with(NetConfig { receive_window_bytes: 1_000, ..NetConfig::default() });
    let (_, a, _) = w.pair(PLAIN);
    w.write_all(a, &[7; 2_000]);
    w.pass(10 * MS);
    assert_eq!(w.read(a), Poll::Pending);
    w.call(|kernel, cx| kernel.machine_crashed(cx, B));
    w.pass(928 * SECOND);
    assert_eq!((w.rings(), w.read(a)), (1, failed(io::ErrorKind::TimedOut)));
}

#[test]
fn bytes_written_for_a_closed_window_of_a_machine_that_is_gone_time_out() {
    let mut w = World::with(NetConfig { receive_window_bytes: 1_000, ..NetConfig::default() });
    let (_, a, _) = w.pair(PLAIN);
    w.write_all(a, &[7; 1_000]);
    w.pass(10 * MS);
    w.call(|kernel, cx| kernel.machine_crashed(cx, B));
    w.write_all(a, b"more");
    w.pass(928 * SECOND);
    assert_eq!(w.read(a), failed(io::ErrorKind::TimedOut));
}

#[test]
fn a_sender_that_waits_for_a_window_times_out_in_a_partition() {
    let mut w = World::with(NetConfig { receive_window_bytes: 1_000, ..NetConfig::default() });
    let (_, a, _) = w.pair(PLAIN);
    w.write_all(a, &[7; 2_000]);
    // As long as the peer lives it may sleep for ever.
    w.pass(5_000 * SECOND);
    assert_eq!(w.read(a), Poll::Pending);
    w.cut_both();
    w.pass(928 * SECOND);
    assert_eq!(w.read(a), failed(io::ErrorKind::TimedOut));
}

#[test]
fn patience_begins_anew_once_the_peer_was_heard() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    for _ in 0..2 {
        w.cut_both();
        w.write_all(a, b"x");
        w.pass(700 * SECOND);
        w.heal_both();
        w.pass(150 * SECOND);
        assert_eq!((w.read(b), w.read(a)), (ready(b"x"), Poll::Pending));
    }
}

#[test]
fn a_syn_on_a_link_that_is_cut_is_lost() {
    let mut w = World::new();
    w.bind(B, PLAIN);
    let a = w.connect(A, PLAIN);
    w.pass(50_000);
    w.cut(A, B);
    w.kernel.heal(A, B);
    w.pass(SECOND);
    assert_eq!(w.connected(a), Poll::Pending);
    w.pass(MS);
    assert_eq!(w.connected(a), Poll::Ready(Ok(())));
}

#[test]
fn a_lost_segment_with_others_behind_it_is_sent_again_without_a_timeout() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.cut(A, B);
    w.write_all(a, b"first ");
    w.kernel.heal(A, B);
    w.write_all(a, b"second");
    // Second arrives after 100 us, its acknowledgement after 200, first after 300.
    w.pass(300_000 - 1);
    assert_eq!(w.read(b), Poll::Pending);
    w.pass(1);
    assert_eq!((w.read(b), w.read(b)), (ready(b"first second"), Poll::Pending));
    assert_eq!(w.kernel.next_at(), None, "the timeout that was not needed is no event");
}

#[test]
fn the_last_of_several_packets_is_probed_for_after_two_round_trips() {
    for (bytes, arrives_after) in [(1_448, 200 * MS + 200_000), (1_449, 400_000)] {
        let mut w = World::new();
        let (_, a, b) = w.pair(PLAIN);
        w.cut(A, B);
        w.write_all(a, &vec![7; bytes]);
        w.kernel.heal(A, B);
        w.pass(arrives_after + 100_000 - 1);
        assert_eq!(w.read(b), Poll::Pending, "{bytes} bytes");
        w.pass(1);
        assert_eq!(w.read(b), ready(&vec![7; bytes]));
    }
}

#[test]
fn a_second_packet_brings_the_probe_forward() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.cut(A, B);
    w.write_all(a, b"one");
    w.pass(MS);
    w.write_all(a, b"two");
    w.kernel.heal(A, B);
    w.pass(500_000 - 1);
    assert_eq!(w.read(b), Poll::Pending);
    w.pass(1);
    assert_eq!((w.read(b), w.kernel.next_at()), (ready(b"onetwo"), None));
}

#[test]
fn an_orphan_is_freed_when_nobody_answers_it() {
    let mut w = World::new();
    let (_, a, b) = w.pair(PLAIN);
    w.close(b);
    w.pass(MS);
    w.call(|kernel, cx| kernel.machine_crashed(cx, B));
    w.write_all(a, b"to nobody");
    w.close(a);
    w.pass(100 * SECOND);
    assert_eq!(w.kernel.connections(), 1);
    // The 9th timeout is the first at least 102.2 s after the first... 0.2 s (2^10 - 1) = 204.6 s.
    w.pass(105 * SECOND);
    assert_eq!(w.kernel.connections(), 0);
    w.settle();
}

#[test]
fn order_holds_under_loss() {
    let mut w = World::with(NetConfig { loss_probability: 0.3, ..NetConfig::default() });
    let listener = w.bind(B, FRAMED);
    let a = w.connect(A, FRAMED);
    w.pass(200 * SECOND);
    let b = w.accept(listener).unwrap();
    let mut expected = Vec::new();
    for n in 0..1_000u32 {
        w.write_frame(a, "n", &n.to_be_bytes());
        expected.extend(frame(&n.to_be_bytes()));
        w.pass(MS);
    }
    w.pass(60 * SECOND);
    assert_eq!(w.read(b), ready(&expected));
    let again = w.events("net.retransmit").len();
    assert!(again > 100, "only {again} retransmissions of 1000 frames, a third of which were lost");
}

/// One step of a random program.
#[derive(Clone, Debug)]
enum Step {
    Write { by_dialler: bool, bytes: usize },
    Read { by_dialler: bool, bytes: usize },
    Pass { us: u64 },
    Cut { forward: bool },
    Heal { forward: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (any::<bool>(), 1..5_000usize).prop_map(|(by_dialler, bytes)| Step::Write { by_dialler, bytes }),
        3 => (any::<bool>(), 1..5_000usize).prop_map(|(by_dialler, bytes)| Step::Read { by_dialler, bytes }),
        4 => prop_oneof![1..2_000u64, 1_000..2_000_000u64].prop_map(|us| Step::Pass { us }),
        1 => any::<bool>().prop_map(|forward| Step::Cut { forward }),
        1 => any::<bool>().prop_map(|forward| Step::Heal { forward }),
    ];
    prop::collection::vec(step, 1..120)
}

/// What one side wrote and the other read.
#[derive(Default)]
struct Stream {
    written: Vec<u8>,
    read: Vec<u8>,
}

impl Stream {
    /// A stream of small frames, so that framed and plain ports take the same bytes.
    fn next(&self, bytes: usize) -> Vec<u8> {
        let byte = |at: usize| if at % 12 < 4 { [0, 0, 0, 8][at % 12] } else { (at / 12 % 251) as u8 };
        (self.written.len()..self.written.len() + bytes).map(byte).collect()
    }
}

fn drain(w: &mut World, socket: SocketId, stream: &mut Stream, bytes: usize) {
    if let Poll::Ready(read) = w.read_up_to(socket, bytes) {
        stream.read.extend(read.unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_is_lost_cut_and_split_the_bytes_read_are_the_bytes_written(
        steps in steps(), loss in 0.0..0.5f64, framed: bool, buffer in 500..9_000u32, window in 500..9_000u32,
    ) {
        let mut w = World::with(NetConfig { send_buffer_bytes: buffer, receive_window_bytes: window, ..NetConfig::default() });
        let (_, a, b) = w.pair(if framed { FRAMED } else { PLAIN });
        for (from, to) in [(A, B), (B, A)] {
            w.kernel.worsen(from, to, Impairment::Loss(loss));
        }
        let mut streams = [Stream::default(), Stream::default()];
        let mut cuts = [0u32; 2];
        let ways = [(A, B), (B, A)];
        for step in steps {
            match step {
                Step::Write { by_dialler, bytes } => {
                    let (socket, stream) = if by_dialler { (a, &mut streams[0]) } else { (b, &mut streams[1]) };
                    let bytes = stream.next(bytes);
                    if let Poll::Ready(taken) = w.write(socket, &bytes) {
                        stream.written.extend(&bytes[..taken.unwrap()]);
                    }
                }
                Step::Read { by_dialler, bytes } => {
                    let (socket, stream) = if by_dialler { (a, &mut streams[1]) } else { (b, &mut streams[0]) };
                    drain(&mut w, socket, stream, bytes);
                }
                Step::Pass { us } => w.pass(us * 1_000),
                Step::Cut { forward } => {
                    let way = usize::from(forward);
                    cuts[way] += 1;
                    w.cut(ways[way].0, ways[way].1);
                }
                Step::Heal { forward } => {
                    let way = usize::from(forward);
                    cuts[way] = cuts[way].saturating_sub(1);
                    w.kernel.heal(ways[way].0, ways[way].1);
                }
            }
        }
        for (way, (from, to)) in ways.into_iter().enumerate() {
            for _ in 0..cuts[way] {
                w.kernel.heal(from, to);
            }
            w.kernel.mend(from, to, Impairment::Loss(loss));
        }
        w.shutdown(a).unwrap();
        w.shutdown(b).unwrap();
        for _ in 0..200 {
            w.pass(2 * SECOND);
            drain(&mut w, b, &mut streams[0], 1 << 20);
            drain(&mut w, a, &mut streams[1], 1 << 20);
        }
        for stream in &streams {
            prop_assert_eq!(stream.read.len(), stream.written.len());
            prop_assert_eq!(&stream.read, &stream.written);
        }
        prop_assert_eq!((w.read(a), w.read(b)), (ready(EOF), ready(EOF)));
        w.close(a);
        w.close(b);
        w.settle();
        prop_assert_eq!(w.kernel.connections(), 0);
    }
}
