//! One client connection: requests are read, executed and answered one at a time, in order.
//!
//! A request that was read whole is executed even if the peer has gone meanwhile; only its answer is lost (kafka.md
//! 1.9).

use crate::agent::Context;
use crate::api::{self, Answer};
use rt::net::{TcpStream, read_frame};
use std::sync::Arc;

/// Serves the connection until either side closes it.
pub(crate) async fn serve(context: Arc<Context>, mut stream: TcpStream) {
    // A frame above the limit, a torn frame and a socket error all mean the same: nothing more can be understood.
    while let Ok(Some(frame)) = read_frame(&mut stream, context.config.request_max_bytes).await {
        match api::handle(&context, frame).await {
            Answer::Reply { frame, label } => {
                rt::preempt("connection.before-reply").await;
                if stream.write_frame(&frame, || label.to_string()).await.is_err() {
                    return;
                }
            }
            Answer::Nothing => {}
            Answer::Close => return,
        }
    }
}
