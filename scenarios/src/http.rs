//! A small HTTP server for people, probes and tests: whole requests in, whole answers out.

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rt::JoinSet;
use rt::net::{TcpListener, TcpStream};
use rt::time::sleep;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// The longest body that is read.
const BODY_MAX_BYTES: usize = 1 << 20;
/// Pause after a failed accept (out of descriptors, most likely).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A request.
pub(crate) struct Ask {
    pub(crate) method: Method,
    /// The path's parts, without empty ones.
    pub(crate) path: Vec<String>,
    /// What stands after `?`.
    pub(crate) query: String,
    pub(crate) body: Bytes,
}

/// An answer.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn text(status: StatusCode, text: impl std::fmt::Display) -> Self {
        Reply { status, content_type: "text/plain; charset=utf-8", body: format!("{text}\n") }
    }

    pub(crate) fn json(status: StatusCode, value: &serde_json::Value) -> Self {
        Reply { status, content_type: "application/json", body: format!("{value}\n") }
    }
}

/// What answers requests.
pub(crate) trait Answers: Send + Sync + 'static {
    fn answer(&self, ask: Ask) -> impl Future<Output = Reply> + Send;
}

/// Serves until dropped.
pub(crate) async fn serve(listener: TcpListener, answers: Arc<impl Answers>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok(stream) => connections.spawn("http.connection", connection(stream, answers.clone())),
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
        }
    }
}

async fn connection(stream: TcpStream, answers: Arc<impl Answers>) {
    let service = service_fn(|request| {
        let answers = answers.clone();
        async move { Ok::<_, Infallible>(response(one(&*answers, request).await)) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    // A peer that goes away, or does not speak HTTP, is its own affair.
    let _ = served.await;
}

async fn one(answers: &impl Answers, request: Request<Incoming>) -> Reply {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_MAX_BYTES).collect().await else {
        let refusal = format!("the body is cut short, or longer than {BODY_MAX_BYTES} bytes");
        return Reply::text(StatusCode::PAYLOAD_TOO_LARGE, refusal);
    };
    let path = head.uri.path().split('/').filter(|part| !part.is_empty()).map(str::to_string).collect();
    let query = head.uri.query().unwrap_or_default().to_string();
    answers.answer(Ask { method: head.method, path, query, body: body.to_bytes() }).await
}

fn response(reply: Reply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(reply.body)));
    *response.status_mut() = reply.status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    response
}
