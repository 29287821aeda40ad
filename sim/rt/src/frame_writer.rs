//! One connection's frames, written by many tasks.

use crate::net::WriteHalf;
use crate::observe;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;

/// The writing half of a connection, for tasks that share it: frames go out whole and in the order in which they were
/// pushed. What the socket has room for is written at once, by the task that pushes; the rest by whoever runs
/// [`FrameWriter::run`].
pub struct FrameWriter {
    state: Mutex<State>,
    /// There is something to do for the task that drains.
    wake: Notify,
}

struct State {
    /// None once closed.
    half: Option<WriteHalf>,
    waiting: VecDeque<Rest>,
    /// What the socket said to somebody who could do nothing about it.
    error: Option<io::Error>,
}

/// What the socket had no room for of a frame.
struct Rest {
    bytes: Vec<u8>,
    written: usize,
    /// Of a frame of which nothing is written yet.
    label: Option<String>,
}

impl FrameWriter {
    /// Takes over a writing half.
    pub fn new(half: WriteHalf) -> Self {
        let state = State { half: Some(half), waiting: VecDeque::new(), error: None };
        FrameWriter { state: Mutex::new(state), wake: Notify::new() }
    }

    /// Writes one whole frame (length prefix included) under a label, which runs only if somebody listens. After the end
    /// of the connection it does nothing.
    pub fn push(&self, frame: &[u8], label: impl FnOnce() -> String) {
        let mut state = self.lock();
        let mut label = observe::listens().then(label);
        let mut written = 0;
        // The waker of the socket is that of whoever drains.
        let mut cx = Context::from_waker(Waker::noop());
        while state.waiting.is_empty() && written < frame.len() {
            match state.poll_write(&mut cx, &mut label, &frame[written..]) {
                Poll::Ready(Some(more)) => written += more,
                Poll::Ready(None) => return self.wake(),
                Poll::Pending => break,
            }
        }
        if written < frame.len() {
            state.waiting.push_back(Rest { bytes: frame[written..].to_vec(), written: 0, label });
            self.wake();
        }
    }

    /// Writes what the socket had no room for, for as long as the connection lasts; to be run by one task.
    ///
    /// # Errors
    /// As [`FrameWriter::drain`].
    pub async fn run(&self) -> io::Result<()> {
        loop {
            self.drain().await?;
            self.woken().await;
        }
    }

    /// Waits until every frame pushed so far is written; to be called by one task.
    ///
    /// # Errors
    /// What the socket reported, to this call or to [`FrameWriter::push`]; `BrokenPipe` once it is closed.
    pub async fn drain(&self) -> io::Result<()> {
        match poll_fn(|cx| self.lock().poll_drain(cx)).await {
            true => Ok(()),
            false => Err(self.lock().error.take().unwrap_or(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Waits for [`FrameWriter::wake`], or for a frame that the socket had no room for. Returns at once if there was one of
    /// them since the last wait.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Wakes the task that drains.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// How many frames wait for room.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Ends the connection's write direction; what waits for room is dropped.
    pub fn close(&self) {
        let mut state = self.lock();
        state.waiting.clear();
        state.half = None;
        self.wake();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Offers bytes to the socket: how many it took, or nothing if it takes none any more.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        label: &mut Option<String>,
        bytes: &[u8],
    ) -> Poll<Option<usize>> {
        let Some(WriteHalf(stream)) = &self.half else { return Poll::Ready(None) };
        if let Some(label) = label.take() {
            stream.label(label);
        }
        stream.poll_write(cx, bytes).map(|written| match written {
            Ok(written) => Some(written),
            Err(error) => {
                self.error = Some(error);
                self.half = None;
                self.waiting.clear();
                None
            }
        })
    }

    /// Writes as much as there is room for: true once nothing waits, false when nothing can be written any more.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        while let Some(mut rest) = self.waiting.pop_front() {
            let written = self.poll_write(cx, &mut rest.label, &rest.bytes[rest.written..]);
            rest.written += match written {
                Poll::Ready(Some(written)) => written,
                Poll::Ready(None) => return Poll::Ready(false),
                Poll::Pending => 0,
            };
            if rest.written < rest.bytes.len() {
                self.waiting.push_front(rest);
            }
            if written.is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(self.half.is_some())
    }
}
