//! Frames a second through the kernel network alone: write, event, delivery, read, with the trace's hash on.
//!
//! Ten connections, 100-byte frames, one core, no executor. The modules are private to `sim`, so they are compiled into
//! this program by path. Run: `cargo bench -p sim --bench net_kernel`.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the modules are used here in part, and outside their crate"
)]

#[path = "../src/choice.rs"]
mod choice;
#[path = "../src/net/mod.rs"]
mod net;
#[path = "../src/tap.rs"]
mod tap;
#[path = "../src/trace.rs"]
mod trace;

use net::{Cx, Kernel, NetConfig, SocketId};
use std::cell::Cell;
use std::task::{Poll, Waker};
use tokio::io::ReadBuf;
use trace::{EventId, Keep, NodeId, Trace};

const PAIRS: usize = 10;
const FRAMES: usize = 4_000_000;
const FRAME_BYTES: usize = 100;

struct World {
    kernel: Kernel,
    now: u64,
    choices: choice::Choices,
    trace: Trace,
    cause: Cell<EventId>,
}

impl World {
    fn call<R>(&mut self, call: impl FnOnce(&mut Kernel, &mut Cx<'_>) -> R) -> R {
        let World { kernel, now, choices, trace, cause } = self;
        let mut tap = |_: &tap::FrameSeen<'_>| tap::Verdict::Pass;
        call(kernel, &mut Cx { now: *now, choices, trace, cause, tap: &mut tap })
    }

    fn run_next(&mut self) -> bool {
        let Some(at) = self.kernel.next_at() else { return false };
        self.now = at;
        self.call(|kernel, cx| kernel.run_next(cx));
        true
    }
}

/// Ten established connections.
fn pairs(world: &mut World) -> Vec<(SocketId, SocketId)> {
    let listener = world.call(|kernel, cx| kernel.bind(cx, NodeId(2), "b:9092")).expect("the port is free");
    let connect = |world: &mut World| {
        let near = world.call(|kernel, cx| kernel.connect(cx, NodeId(1), "b:9092")).expect("b is known");
        while world.run_next() {}
        match world.call(|kernel, cx| kernel.poll_accept(cx, listener, Waker::noop())) {
            Poll::Ready(Ok(far)) => (near, far),
            other => panic!("not accepted: {other:?}"),
        }
    };
    (0..PAIRS).map(|_| connect(world)).collect()
}

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark reads the machine's clock"
)]
fn main() {
    let mut kernel = Kernel::new(NetConfig::default());
    for (node, name) in [(1, "a"), (2, "b")] {
        kernel.add_machine(NodeId(node), name);
    }
    kernel.frame_port(9092);
    let mut world = World {
        kernel,
        now: 0,
        choices: choice::Choices::new(1, &[]),
        trace: Trace::new(Keep::Nothing),
        cause: Cell::new(EventId::NONE),
    };
    let pairs = pairs(&mut world);
    let mut frame = [7u8; FRAME_BYTES];
    frame[..4].copy_from_slice(&(FRAME_BYTES as u32 - 4).to_be_bytes());
    let mut space = [0u8; FRAME_BYTES];

    let start = std::time::Instant::now();
    for _ in 0..FRAMES / PAIRS {
        for (near, far) in &pairs {
            let mut buf = ReadBuf::new(&mut space);
            let read = world.call(|kernel, cx| kernel.poll_read(cx, *far, &mut buf, Waker::noop()));
            assert!(read.is_pending());
            let written = world.call(|kernel, cx| kernel.poll_write(cx, *near, &frame, Waker::noop()));
            assert!(matches!(written, Poll::Ready(Ok(FRAME_BYTES))));
        }
        while world.run_next() {}
        for (_, far) in &pairs {
            let mut buf = ReadBuf::new(&mut space);
            let read = world.call(|kernel, cx| kernel.poll_read(cx, *far, &mut buf, Waker::noop()));
            assert!(matches!(read, Poll::Ready(Ok(()))) && buf.filled() == frame);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = FRAMES as f64 / seconds / 1e6;
    println!(
        "net_kernel: {rate:.2} M frames/s ({PAIRS} pairs, {FRAME_BYTES}-byte frames, hash on, {} events)",
        world.trace.len()
    );
}
