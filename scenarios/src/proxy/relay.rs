//! One client connection and the one to its broker, frame by frame.
//!
//! Each direction is a reader, a queue and a writer: order holds, and what follows a held frame waits behind it. A side
//! that closes ends its direction only once everything it wrote has gone on, held frames too: bytes outlive the close
//! of the socket that wrote them. Until then the connection to the other side stays.

use super::Shared;
use super::answer;
use super::faults::{Gate, Side, Ticket, Verdict, Way};
use super::label::Asked;
use super::log::What;
use super::socket::{self, Socket, Stream};
use bytes::Bytes;
use rt::net::read_frame;
use rt::time::{Instant, sleep_until};
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};

/// The longest frame that goes through.
const FRAME_MAX_BYTES: usize = 256 << 20;
/// Frames of one direction that may wait in the proxy; more wait in the sender's socket.
const QUEUE: usize = 64;

/// A frame on its way.
struct Passing {
    /// Without its length.
    body: Bytes,
    way: Way,
    ticket: Ticket,
    came: Instant,
}

/// What both directions of a connection know.
struct Connection {
    shared: Arc<Shared>,
    number: u64,
    broker: String,
    /// Requests that were not answered yet, by correlation id.
    asked: Mutex<BTreeMap<i32, Asked>>,
    reset: Notify,
}

/// Serves a client's connection to a broker, to its end.
pub(super) async fn serve(
    shared: Arc<Shared>,
    number: u64,
    broker: String,
    upstream: String,
    client: Stream,
) {
    let (Ok(mut client), Ok(mut server)) = (Socket::new(client), socket::connect(&upstream).await) else {
        shared.log.connection(number, &broker, What::Refused);
        return;
    };
    shared.log.connection(number, &broker, What::Opened);
    let connection = Connection { shared, number, broker, asked: Mutex::default(), reset: Notify::new() };
    let was_reset = tokio::select! {
        biased;
        () = connection.reset.notified() => true,
        () = connection.both(&mut client, &mut server) => false,
    };
    if was_reset {
        client.reset();
        server.reset();
    }
    connection.shared.log.connection(number, &connection.broker, What::Closed);
}

impl Connection {
    async fn both(&self, client: &mut Socket, server: &mut Socket) {
        let (requests, to_broker) = mpsc::channel(QUEUE);
        let (answers, to_client) = mpsc::channel(QUEUE);
        let (client_open, server_open) = (AtomicBool::new(true), AtomicBool::new(true));
        tokio::join!(
            self.read_requests(&mut client.reader, requests, &client_open),
            self.write(to_broker, &mut server.writer, &client_open),
            self.read_answers(&mut server.reader, answers, &server_open),
            self.write(to_client, &mut client.writer, &server_open),
        );
    }

    async fn read_requests(
        &self,
        reader: &mut (impl AsyncRead + Unpin),
        queue: mpsc::Sender<Passing>,
        is_open: &AtomicBool,
    ) {
        // A torn frame and a socket error end the direction as a close does.
        while let Ok(Some(body)) = read_frame(reader, FRAME_MAX_BYTES).await {
            // What is not Kafka's cannot be relayed by frames.
            let Some(asked) = Asked::read(&body) else { break };
            let way = Way {
                from: Side::Client(asked.client_id.clone()),
                to: Side::Broker(self.broker.clone()),
                label: asked.label(),
            };
            if asked.answered {
                self.asked().insert(asked.correlation_id, asked);
            }
            if !self.pass(body, way, &queue).await {
                break;
            }
        }
        is_open.store(false, Ordering::Relaxed);
    }

    async fn read_answers(
        &self,
        reader: &mut (impl AsyncRead + Unpin),
        queue: mpsc::Sender<Passing>,
        is_open: &AtomicBool,
    ) {
        while let Ok(Some(mut body)) = read_frame(reader, FRAME_MAX_BYTES).await {
            let correlation_id = body.first_chunk().map(|bytes| i32::from_be_bytes(*bytes));
            let asked = correlation_id.and_then(|id| self.asked().remove(&id));
            let from = Side::Broker(self.broker.clone());
            let mut way = Way { from, to: Side::Client(String::new()), label: "unasked.reply".into() };
            if let Some(asked) = asked {
                let answer = answer::read(&asked, body, &self.shared.brokers).await;
                way.label = asked.answer_label(answer.code);
                way.to = Side::Client(asked.client_id.clone());
                body = self.rewritten(&asked, answer.frame, &mut way);
            }
            if !self.pass(body, way, &queue).await {
                break;
            }
        }
        is_open.store(false, Ordering::Relaxed);
    }

    /// An answer as the client gets it.
    fn rewritten(&self, asked: &Asked, frame: Bytes, way: &mut Way) -> Bytes {
        let Some(rewritten) = self.shared.rewrites().apply(way, asked, &frame) else { return frame };
        self.shared.log.frame(self.number, way, What::Rewritten { by: rewritten.by });
        way.label = asked.answer_label(Some(rewritten.code));
        rewritten.frame
    }

    /// Decides what becomes of a frame; false when nothing more goes this way.
    async fn pass(&self, body: Bytes, way: Way, queue: &mpsc::Sender<Passing>) -> bool {
        let came = Instant::now();
        let verdict = self.shared.faults().see(came, &way);
        // A frame may be what others wait for.
        self.shared.changed.notify_waiters();
        match verdict {
            Verdict::Goes(ticket) => {
                if let Some(fault) = ticket.held_by {
                    self.shared.log.frame(self.number, &way, What::Held { fault });
                }
                queue.send(Passing { body, way, ticket, came }).await.is_ok()
            }
            Verdict::Reset(fault) => {
                self.shared.log.frame(self.number, &way, What::Reset { fault });
                self.reset.notify_one();
                pending().await
            }
        }
    }

    /// Writes what comes, each frame when it may go; at the end ends the direction.
    async fn write(
        &self,
        mut queue: mpsc::Receiver<Passing>,
        writer: &mut (impl AsyncWrite + Unpin),
        sender_open: &AtomicBool,
    ) {
        let mut receiver_open = true;
        while let Some(Passing { body, way, ticket, came }) = queue.recv().await {
            self.gate(&way, ticket).await;
            receiver_open = receiver_open && write_frame(writer, &body).await.is_ok();
            let after_ms = came.elapsed().as_millis() as u64;
            let what = match ticket.held_by {
                _ if !receiver_open => What::Lost,
                Some(fault) => {
                    What::Released { fault, after_ms, sender_open: sender_open.load(Ordering::Relaxed) }
                }
                None => What::Passed { after_ms },
            };
            self.shared.log.frame(self.number, &way, what);
        }
        // The peer may be gone.
        let _ = writer.shutdown().await;
    }

    /// Waits until a frame may go on.
    async fn gate(&self, way: &Way, ticket: Ticket) {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Before the look, so that what changes in between wakes it.
            changed.as_mut().enable();
            let gate = self.shared.faults().gate(Instant::now(), way, ticket);
            let again = async {
                match gate {
                    Gate::Shut(Some(at)) => sleep_until(at).await,
                    Gate::Shut(None) | Gate::Open => pending().await,
                }
            };
            if gate == Gate::Open {
                return;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = again => {}
            }
        }
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, BTreeMap<i32, Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write_frame(writer: &mut (impl AsyncWrite + Unpin), body: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(body.len()).map_err(|_| std::io::ErrorKind::InvalidData)?;
    writer.write_all(&length.to_be_bytes()).await?;
    writer.write_all(body).await
}
