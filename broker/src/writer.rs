//! Chunks out of batches of many requests.
//!
//! One task per agent takes what requests hand in, in the order they did, and puts it as one object: all that waits, up to
//! `chunk_max_bytes`. With `chunk_linger_ms` it waits that long for more; without, whatever came in while the last chunk was
//! on its way goes into the next one, so the chunks grow with the load. Each request learns where its own batches are
//! and commits them by itself: a neighbour that is refused or fenced concerns nobody else.
//!
//! Limit: one chunk is on its way at a time, for at most `store_timeout_ms`. A chunk that may not have arrived is reported
//! lost to all who are in it; they hand in again and get another name.

use crate::agent::Context;
use crate::chunks::StoreAway;
use crate::gate::Fault;
use crate::records::ChunkId;
use bytes::{Bytes, BytesMut};
use rt::time::{Instant, timeout_at};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Why there is no chunk.
#[derive(Clone, Debug)]
pub(crate) enum Lost {
    Coordinator(Fault),
    Store,
}

/// Where batches handed in together are: each after the other, from `position` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) chunk: ChunkId,
    pub(crate) position: u32,
}

/// Batches of one request.
struct Handed {
    batches: Vec<Bytes>,
    answer: oneshot::Sender<Result<Written, Lost>>,
}

impl Handed {
    fn size_bytes(&self) -> usize {
        self.batches.iter().map(Bytes::len).sum()
    }
}

/// The requests' end.
pub(crate) struct Writer(mpsc::UnboundedSender<Handed>);

/// The task's end.
pub(crate) struct Inbox {
    handed: mpsc::UnboundedReceiver<Handed>,
    /// Taken out, but too large for the chunk before.
    next: Option<Handed>,
}

impl Writer {
    pub(crate) fn new() -> (Self, Inbox) {
        let (send, handed) = mpsc::unbounded_channel();
        (Writer(send), Inbox { handed, next: None })
    }

    /// Writes `batches` into a chunk, with others'.
    pub(crate) async fn write(&self, batches: Vec<Bytes>) -> Result<Written, Lost> {
        let (answer, written) = oneshot::channel();
        // The task lives as long as the agent serves; a request that outlives it is answered by nobody.
        let _ = self.0.send(Handed { batches, answer });
        written.await.unwrap_or(Err(Lost::Store))
    }
}

/// Writes chunks for as long as the agent serves.
pub(crate) async fn run(context: Arc<Context>, mut inbox: Inbox) {
    let (max_bytes, linger_ms) = (context.config.chunk_max_bytes, context.config.chunk_linger_ms);
    while let Some(gathered) = inbox.gather(max_bytes, Duration::from_millis(linger_ms)).await {
        let (bytes, positions) = assemble(&gathered);
        let outcome = put(&context, bytes).await;
        for (handed, position) in gathered.into_iter().zip(positions) {
            // A request whose agent is going away does not listen any more.
            let _ = handed.answer.send(outcome.clone().map(|chunk| Written { chunk, position }));
        }
    }
}

async fn put(context: &Context, bytes: Bytes) -> Result<ChunkId, Lost> {
    let chunk = context.chunks.name(&context.gate).await.map_err(Lost::Coordinator)?;
    rt::preempt("produce.before-put").await;
    context.chunks.put(chunk, bytes).await.map_err(|StoreAway| Lost::Store)?;
    Ok(chunk)
}

impl Inbox {
    /// The next chunk's batches: at least one request's, and no more than `max_bytes` unless the first alone is larger.
    async fn gather(&mut self, max_bytes: usize, linger: Duration) -> Option<Vec<Handed>> {
        let first = match self.next.take() {
            Some(first) => first,
            None => self.handed.recv().await?,
        };
        let deadline = Instant::now() + linger;
        let mut size = first.size_bytes();
        let mut gathered = vec![first];
        while size < max_bytes {
            let more = match self.handed.try_recv() {
                Ok(more) => more,
                Err(_) if linger.is_zero() => break,
                Err(_) => match timeout_at(deadline, self.handed.recv()).await {
                    Ok(Some(more)) => more,
                    _ => break,
                },
            };
            if size + more.size_bytes() > max_bytes {
                self.next = Some(more);
                break;
            }
            size += more.size_bytes();
            gathered.push(more);
        }
        Some(gathered)
    }
}

/// The chunk's bytes, and where each request's batches begin in it.
fn assemble(gathered: &[Handed]) -> (Bytes, Vec<u32>) {
    if let [Handed { batches, .. }] = gathered
        && let [only] = &batches[..]
    {
        // A copy: a slice would keep the whole request in memory for as long as the chunk is cached.
        return (Bytes::copy_from_slice(only), vec![0]);
    }
    let mut bytes = BytesMut::with_capacity(gathered.iter().map(Handed::size_bytes).sum());
    let mut positions = Vec::with_capacity(gathered.len());
    for handed in gathered {
        positions.push(bytes.len() as u32);
        handed.batches.iter().for_each(|batch| bytes.extend_from_slice(batch));
    }
    (bytes.freeze(), positions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context as TaskContext, Poll, Waker};

    fn hand_in(writer: &Writer, batches: &[&'static str]) {
        let (answer, _) = oneshot::channel();
        let batches = batches.iter().map(|batch| Bytes::from_static(batch.as_bytes())).collect();
        writer.0.send(Handed { batches, answer }).unwrap_or_else(|_| panic!("the inbox is there"));
    }

    /// Sizes of the requests in the next chunk, which is not waited for; empty if there is none.
    fn gather(inbox: &mut Inbox, max_bytes: usize) -> Vec<usize> {
        let mut future = pin!(inbox.gather(max_bytes, Duration::ZERO));
        match future.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(gathered) => gathered.unwrap().iter().map(Handed::size_bytes).collect(),
            Poll::Pending => Vec::new(),
        }
    }

    #[test]
    fn all_that_waits_is_gathered_in_order_up_to_the_limit() {
        let (writer, mut inbox) = Writer::new();
        assert_eq!(gather(&mut inbox, 10), [0; 0], "nothing waits");
        for batches in [&["aaaa"][..], &["bb", "b"], &["cccc"], &["dddddddddddd"], &["e"], &["f"]] {
            hand_in(&writer, batches);
        }
        assert_eq!(gather(&mut inbox, 10), [4, 3], "4 + 3 + 4 is more than 10");
        assert_eq!(gather(&mut inbox, 10), [4], "the next is too large to join");
        assert_eq!(gather(&mut inbox, 10), [12], "larger than a chunk may be: alone");
        assert_eq!(gather(&mut inbox, 2), [1, 1], "exactly full");
        assert_eq!(gather(&mut inbox, 2), [0; 0]);
    }

    #[test]
    fn every_request_finds_its_batches_where_it_is_told() {
        let (writer, mut inbox) = Writer::new();
        hand_in(&writer, &["aaaa", "bb"]);
        hand_in(&writer, &["c"]);
        hand_in(&writer, &["dd", "e"]);
        let mut gathered = Vec::new();
        while let Ok(handed) = inbox.handed.try_recv() {
            gathered.push(handed);
        }
        assert_eq!(assemble(&gathered), (Bytes::from_static(b"aaaabbcdde"), vec![0, 6, 7]));
        hand_in(&writer, &["alone"]);
        let alone = inbox.handed.try_recv().unwrap();
        let handed = alone.batches[0].clone();
        let (chunk, positions) = assemble(&[alone]);
        assert_eq!((&chunk[..], &positions[..]), (&b"alone"[..], &[0][..]));
        assert_ne!(chunk.as_ptr(), handed.as_ptr(), "a cached chunk keeps no request in memory");
    }
}
