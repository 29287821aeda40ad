//! One client connection: requests are read, executed and answered one at a time, in order.
//!
//! A request that was read whole is executed even if the peer has gone meanwhile; only its answer is lost (kafka.md
//! 1.9). Nothing is allocated for what a peer only announces, and nothing is kept for a peer that falls silent: one that
//! sends no request or takes no answer for `connections_max_idle_ms`, or takes longer than [`READ_LIMIT`] over sending
//! one, is closed.

use crate::agent::Context;
use crate::api::{self, Answer};
use crate::memory::Held;
use bytes::Bytes;
use rt::net::{Body, TcpStream, read_length};
use rt::time::timeout;
use std::sync::Arc;
use std::time::Duration;

/// The longest a request may take from its length to its last byte. Kafka has no such limit; here the memory of requests
/// is shared, and nobody may hold it by sending slowly.
const READ_LIMIT: Duration = Duration::from_secs(30);

/// Serves the connection until either side closes it, or the agent drains and no request is in flight.
pub(crate) async fn serve(context: Arc<Context>, mut stream: TcpStream) {
    let _open = context.counters.connection();
    let idle = Duration::from_millis(context.config.connections_max_idle_ms);
    let peer = stream.peer_addr().map(|address| address.ip().to_string()).unwrap_or_default();
    loop {
        let mut held = context.memory.request();
        let length = tokio::select! {
            biased;
            length = next_length(&context, &mut stream, idle) => length,
            () = context.health.drains() => None,
        };
        let Some(length) = length else { return };
        // A torn frame, a socket error and a slow peer all mean the same: nothing more can be understood.
        let Ok(Ok(frame)) = timeout(READ_LIMIT, read(&mut stream, length, &mut held)).await else { return };
        let answer = api::handle(&context, frame, &peer, &mut held).await;
        drop(held);
        match answer {
            Answer::Reply { frame, label } => {
                rt::preempt("connection.before-reply").await;
                let written = stream.write_frame(&frame, || label.to_string());
                if !matches!(timeout(idle, written).await, Ok(Ok(()))) {
                    return;
                }
            }
            Answer::Nothing => {}
            Answer::Close => return,
        }
    }
}

/// Reads a request, as far as there is room for it.
async fn read(stream: &mut TcpStream, length: usize, held: &mut Held<'_>) -> std::io::Result<Bytes> {
    let mut body = Body::new(length);
    while body.next_bytes() > 0 {
        held.grow(body.next_bytes()).await;
        body.read(stream).await?;
    }
    Ok(body.freeze())
}

/// The length of the next request; `None` when there will be none, or one above the limit.
async fn next_length(context: &Context, stream: &mut TcpStream, idle: Duration) -> Option<usize> {
    let length = read_length(stream, context.config.request_max_bytes);
    match timeout(idle, length).await {
        Ok(length) => length.ok().flatten(),
        Err(_) => {
            rt::mark!(reachable, "an idle connection was closed");
            None
        }
    }
}
