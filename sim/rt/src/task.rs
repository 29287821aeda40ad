//! Tasks. A task belongs to the process that spawned it and ends with it.

use crate::host;
use futures_util::future::{AbortHandle, Abortable};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// Starts a task. `name` is its kind and appears in traces. Dropping the handle lets the task run on.
pub fn spawn<T, F>(name: &'static str, future: F) -> JoinHandle<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let (send, result) = oneshot::channel();
    let (abort, registration) = AbortHandle::new_pair();
    let body = async move {
        let output = future.await;
        // The caller may have dropped its handle.
        let _ = send.send(output);
    };
    host::current().spawn(
        name,
        Box::pin(async move {
            // Aborted or finished, the task is over; the handle learns which from the channel.
            let _ = Abortable::new(body, registration).await;
        }),
    );
    JoinHandle { result, abort }
}

/// Waits for a task's result.
#[derive(Debug)]
pub struct JoinHandle<T> {
    result: oneshot::Receiver<T>,
    abort: AbortHandle,
}

impl<T> JoinHandle<T> {
    /// Ends the task at its next poll.
    pub fn abort(&self) {
        self.abort.abort();
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.result).poll(cx).map_err(|_| JoinError)
    }
}

/// The task ended without a result: it was aborted, or it panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinError;

impl std::fmt::Display for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the task was aborted or panicked")
    }
}

impl std::error::Error for JoinError {}

/// Tasks that end when the set is dropped.
#[derive(Debug)]
pub struct JoinSet<T> {
    tasks: FuturesUnordered<JoinHandle<T>>,
}

impl<T: Send + 'static> JoinSet<T> {
    /// An empty set.
    pub fn new() -> Self {
        JoinSet { tasks: FuturesUnordered::new() }
    }

    /// Starts a task in the set.
    pub fn spawn<F>(&mut self, name: &'static str, future: F)
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.tasks.push(spawn(name, future));
    }

    /// Waits for the next task to end; `None` when the set is empty.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.tasks.next().await
    }

    /// Number of tasks not yet joined.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether every task was joined.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}

impl<T: Send + 'static> Default for JoinSet<T> {
    fn default() -> Self {
        JoinSet::new()
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
