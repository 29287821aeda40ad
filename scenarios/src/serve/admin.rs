//! Health over HTTP, and the way to a single agent.
//!
//! | request | answer |
//! |---|---|
//! | `GET /health` | every agent: state, readiness, what is away and since when, lease |
//! | `GET /ready` | 200 if every agent is ready, else 503 |
//! | `GET /metrics` | what every agent counted, in Prometheus' text format |
//! | `POST /agents/N/stop` | ends agent N as a crash does; with `?drain=true` in order |
//! | `POST /agents/N/start` | starts agent N again, on its port |

use super::seats::{Refused, Seat, Stop};
use super::{Cluster, metrics};
use crate::http::{Answers, Ask, Reply};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) struct Admin(pub(super) Arc<Cluster>);

impl Answers for Admin {
    async fn answer(&self, ask: Ask) -> Reply {
        let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
        match (&ask.method, &path[..]) {
            (&Method::GET, ["health"]) => Reply::json(StatusCode::OK, &self.health()),
            (&Method::GET, ["ready"]) => match self.0.is_ready() {
                true => Reply::text(StatusCode::OK, "ready"),
                false => Reply::text(StatusCode::SERVICE_UNAVAILABLE, "not ready: see /health"),
            },
            (&Method::GET, ["metrics"]) => metrics::reply(&self.0),
            (&Method::POST, ["agents", node_id, action]) => self.act(node_id, action, &ask.query).await,
            _ => Reply::text(StatusCode::NOT_FOUND, USAGE),
        }
    }
}

const USAGE: &str = "GET /health, GET /ready, GET /metrics, POST /agents/N/stop, POST /agents/N/stop?drain=true, POST /agents/N/start";

impl Admin {
    fn health(&self) -> Value {
        let agents: Vec<Value> = self.0.seats.iter().map(agent).collect();
        json!({ "version": env!("CARGO_PKG_VERSION"), "ready": self.0.is_ready(), "agents": agents })
    }

    async fn act(&self, node_id: &str, action: &str, query: &str) -> Reply {
        let Some(seat) = self.0.seats.iter().find(|seat| seat.node_id().to_string() == node_id) else {
            return Reply::text(StatusCode::NOT_FOUND, format_args!("there is no agent {node_id}"));
        };
        let result = match (action, query) {
            ("stop", "") => seat.stop(Stop::Crash).await,
            ("stop", "drain=true") => seat.stop(Stop::Drain).await,
            ("start", "") => seat.start(&self.0.listen_host, &self.0.backend).await,
            _ => return Reply::text(StatusCode::NOT_FOUND, USAGE),
        };
        match result {
            Ok(()) => Reply::json(StatusCode::OK, &agent(seat)),
            Err(Refused::Not(state)) => {
                Reply::text(StatusCode::CONFLICT, format_args!("agent {node_id} is not {state}"))
            }
            Err(Refused::Io(error)) => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, error),
        }
    }
}

fn agent(seat: &Seat) -> Value {
    let health = seat.handles().map(|handles| handles.health);
    let away = health.iter().flat_map(|health| health.away());
    let away: Vec<Value> = away
        .map(|(dependency, since)| {
            json!({ "dependency": dependency.to_string(), "for_ms": since.elapsed().as_millis() as u64 })
        })
        .collect();
    json!({
        "node_id": seat.node_id(),
        "address": seat.address(),
        "state": seat.state(),
        "readiness": health.as_ref().map(|health| health.readiness().to_string()),
        "away": away,
        "lease": health.and_then(|health| health.lease()),
    })
}
