//! Scripted programs against the kernels, one behaviour a test. `World` advances time; a test makes the system calls.

mod cutting;
mod frames;
mod handshake;
mod lifecycle;
mod limits;
mod stream;

use super::*;
use crate::trace::{Entry, Keep};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Poll, Wake};
use tokio::io::ReadBuf;

/// The nodes of the tests.
const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const C: NodeId = NodeId(3);

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// A port with frames, and one without.
const FRAMED: &str = "b:9092";
const PLAIN: &str = "b:80";

thread_local! {
    /// The event during which things happen.
    static CAUSE: Cell<EventId> = const { Cell::new(EventId::NONE) };
}

/// Counts its calls, and notes the event during which the last was.
#[derive(Default)]
struct Bell {
    rings: AtomicU32,
    cause: AtomicU64,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rings.fetch_add(1, Ordering::Relaxed);
        self.cause.store(CAUSE.get().0, Ordering::Relaxed);
    }
}

/// One frame as the tap saw it: its label, from, to.
type Seen = (String, NodeId, NodeId);
type Answer = Box<dyn FnMut(&str) -> Verdict>;

struct World {
    kernel: Kernel,
    now: u64,
    choices: Choices,
    trace: Trace,
    seen: Vec<Seen>,
    answer: Answer,
    bell: Arc<Bell>,
}

impl World {
    /// Three machines a, b, c, 100 us apart, without jitter; ports 9092 framed.
    fn new() -> Self {
        World::with(NetConfig { latency_base_us: 100, latency_jitter_us: 0, ..NetConfig::default() })
    }

    fn with(config: NetConfig) -> Self {
        CAUSE.set(EventId::NONE);
        let mut kernel = Kernel::new(config);
        for (node, name) in [(A, "a"), (B, "b"), (C, "c")] {
            kernel.add_machine(node, name);
        }
        kernel.frame_port(9092);
        World {
            kernel,
            now: 0,
            choices: Choices::new(1, &[]),
            trace: Trace::new(Keep::Everything),
            seen: Vec::new(),
            answer: Box::new(|_| Verdict::Pass),
            bell: Arc::default(),
        }
    }

    fn call<R>(&mut self, call: impl FnOnce(&mut Kernel, &mut Cx<'_>) -> R) -> R {
        let World { kernel, now, choices, trace, seen, answer, .. } = self;
        let mut tap = |frame: &FrameSeen<'_>| {
            seen.push((frame.label.to_string(), frame.from, frame.to));
            answer(frame.label)
        };
        CAUSE.with(|cause| call(kernel, &mut Cx { now: *now, choices, trace, cause, tap: &mut tap }))
    }

    /// Lets `ns` pass.
    fn pass(&mut self, ns: u64) {
        let until = self.now + ns;
        while let Some(at) = self.kernel.next_at()
            && at <= until
        {
            self.now = at;
            self.call(|kernel, cx| kernel.run_next(cx));
        }
        self.now = until;
    }

    /// Lets time pass until nothing is left to happen.
    fn settle(&mut self) {
        while let Some(at) = self.kernel.next_at() {
            self.pass(at - self.now);
        }
    }

    fn waker(&self) -> Waker {
        Waker::from(self.bell.clone())
    }

    /// How often a waker was called since the last look.
    fn rings(&self) -> u32 {
        self.bell.rings.swap(0, Ordering::Relaxed)
    }

    fn bind(&mut self, node: NodeId, address: &str) -> ListenerId {
        self.call(|kernel, cx| kernel.bind(cx, node, address)).unwrap()
    }

    fn connect(&mut self, node: NodeId, address: &str) -> SocketId {
        self.call(|kernel, cx| kernel.connect(cx, node, address)).unwrap()
    }

    fn connected(&mut self, socket: SocketId) -> Poll<Result<(), io::ErrorKind>> {
        let waker = self.waker();
        self.call(|kernel, cx| kernel.poll_connect(cx, socket, &waker)).map_err(|error| error.kind())
    }

    fn accept(&mut self, listener: ListenerId) -> Option<SocketId> {
        let waker = self.waker();
        match self.call(|kernel, cx| kernel.poll_accept(cx, listener, &waker)) {
            Poll::Ready(accepted) => Some(accepted.unwrap()),
            Poll::Pending => None,
        }
    }

    /// An established connection from a to b: the listener, a's end, b's end.
    fn pair(&mut self, address: &str) -> (ListenerId, SocketId, SocketId) {
        let listener = self.bind(B, address);
        let a = self.connect(A, address);
        self.pass(10 * MS);
        assert_eq!(self.connected(a), Poll::Ready(Ok(())));
        let b = self.accept(listener).expect("the kernel has accepted");
        (listener, a, b)
    }

    fn write(&mut self, socket: SocketId, bytes: &[u8]) -> Poll<Result<usize, io::ErrorKind>> {
        let waker = self.waker();
        self.call(|kernel, cx| kernel.poll_write(cx, socket, bytes, &waker)).map_err(|error| error.kind())
    }

    fn write_all(&mut self, socket: SocketId, bytes: &[u8]) {
        assert_eq!(self.write(socket, bytes), Poll::Ready(Ok(bytes.len())));
    }

    /// Writes a frame under a label.
    fn write_frame(&mut self, socket: SocketId, label: &str, body: &[u8]) {
        self.kernel.label(socket, label.into());
        self.write_all(socket, &frame(body));
    }

    fn read(&mut self, socket: SocketId) -> Poll<Result<Vec<u8>, io::ErrorKind>> {
        self.read_up_to(socket, 1 << 20)
    }

    fn read_up_to(&mut self, socket: SocketId, bytes: usize) -> Poll<Result<Vec<u8>, io::ErrorKind>> {
        let waker = self.waker();
        let mut space = vec![0; bytes];
        let mut buf = ReadBuf::new(&mut space);
        let read = self.call(|kernel, cx| kernel.poll_read(cx, socket, &mut buf, &waker));
        read.map_ok(|()| buf.filled().to_vec()).map_err(|error| error.kind())
    }

    fn shutdown(&mut self, socket: SocketId) -> Result<(), io::ErrorKind> {
        self.call(|kernel, cx| kernel.shutdown(cx, socket)).map_err(|error| error.kind())
    }

    fn close(&mut self, socket: SocketId) {
        self.call(|kernel, cx| kernel.close(cx, socket));
    }

    fn cut(&mut self, from: NodeId, to: NodeId) {
        self.call(|kernel, cx| kernel.cut(cx, from, to));
    }

    fn cut_both(&mut self) {
        self.cut(A, B);
        self.cut(B, A);
    }

    fn heal_both(&mut self) {
        self.kernel.heal(A, B);
        self.kernel.heal(B, A);
    }

    fn release(&mut self, hold: u64) {
        self.call(|kernel, cx| kernel.release(cx, HoldId(hold)));
    }

    /// The events of the trace with this name.
    fn events(self, name: &str) -> Vec<Entry> {
        self.trace.finish().1.into_iter().filter(|entry| entry.name == name).collect()
    }
}

fn frame(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes(), body].concat()
}

fn ready(bytes: &[u8]) -> Poll<Result<Vec<u8>, io::ErrorKind>> {
    Poll::Ready(Ok(bytes.to_vec()))
}

const EOF: &[u8] = b"";

fn failed<T>(error: io::ErrorKind) -> Poll<Result<T, io::ErrorKind>> {
    Poll::Ready(Err(error))
}
