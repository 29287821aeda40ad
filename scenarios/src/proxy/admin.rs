//! The way to a running proxy, over HTTP.
//!
//! | request | answer |
//! |---|---|
//! | `GET /brokers` | name, address here and address behind of every broker |
//! | `POST /faults` | arms a fault or an array of them; times count from now |
//! | `GET /faults` | how every fault stands: `waiting`, `holding` or `struck` |
//! | `GET /held` | ids of the faults that hold a frame |
//! | `POST /release/ID` | lets go what fault ID holds |
//! | `POST /rewrites` | asks for an answer to Produce to be rewritten, see `rewrite` |
//! | `GET /log`, `GET /log?from=N` | what was seen and done, a JSON object a line, from line N on |

use super::Shared;
use super::alphabet;
use super::faults::Standing;
use crate::http::{Answers, Ask, Reply};
use hyper::{Method, StatusCode};
use rt::time::Instant;
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(super) struct Admin(pub(super) Arc<Shared>);

const USAGE: &str = "GET /brokers, POST /faults, GET /faults, GET /held, POST /release/ID, POST /rewrites, GET /log, GET /log?from=N";

impl Answers for Admin {
    async fn answer(&self, ask: Ask) -> Reply {
        let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
        match (&ask.method, &path[..]) {
            (&Method::GET, ["brokers"]) => self.brokers().await,
            (&Method::POST, ["faults"]) => self.arm(&ask.body).await,
            (&Method::GET, ["faults"]) => self.standings(),
            (&Method::GET, ["held"]) => self.held(),
            (&Method::POST, ["release", id]) => self.release(id),
            (&Method::POST, ["rewrites"]) => self.rewrite(&ask.body),
            (&Method::GET, ["log"]) => self.log(&ask.query),
            _ => Reply::text(StatusCode::NOT_FOUND, USAGE),
        }
    }
}

impl Admin {
    async fn brokers(&self) -> Reply {
        let brokers = self.0.brokers.list().await;
        let brokers = brokers.iter().map(|(name, upstream, local)| {
            json!({ "name": name, "address": local.to_string(), "upstream": upstream.to_string() })
        });
        Reply::json(StatusCode::OK, &brokers.collect())
    }

    async fn arm(&self, body: &[u8]) -> Reply {
        let brokers = self.0.brokers.list().await.len();
        let armed = std::str::from_utf8(body)
            .map_err(|_| "not text".to_string())
            .and_then(|text| alphabet::parse(text, brokers))
            .and_then(|schedule| self.0.faults().arm(Instant::now(), schedule));
        self.0.changed.notify_waiters();
        match armed {
            Ok(()) => self.standings(),
            Err(problem) => Reply::text(StatusCode::BAD_REQUEST, problem),
        }
    }

    fn rewrite(&self, body: &[u8]) -> Reply {
        let asked = std::str::from_utf8(body)
            .map_err(|_| "not text".to_string())
            .and_then(|text| self.0.rewrites().ask(text));
        match asked {
            Ok(()) => Reply::text(StatusCode::OK, "the answer that is meant will be rewritten"),
            Err(problem) => Reply::text(StatusCode::BAD_REQUEST, problem),
        }
    }

    fn standings(&self) -> Reply {
        let faults = self.0.faults();
        let standing = |standing| match standing {
            Standing::Waiting => "waiting",
            Standing::Holding => "holding",
            Standing::Struck => "struck",
        };
        let all: Map<String, Value> =
            faults.standings().iter().map(|(id, at)| (id.to_string(), standing(*at).into())).collect();
        Reply::json(StatusCode::OK, &Value::Object(all))
    }

    fn held(&self) -> Reply {
        let faults = self.0.faults();
        let holding = faults.standings().iter().filter(|(_, at)| **at == Standing::Holding);
        Reply::json(StatusCode::OK, &holding.map(|(id, _)| *id).collect())
    }

    fn release(&self, id: &str) -> Reply {
        let released = id.parse().is_ok_and(|id| self.0.faults().release(id));
        self.0.changed.notify_waiters();
        match released {
            true => Reply::text(StatusCode::OK, format_args!("what fault {id} held goes on")),
            false => {
                Reply::text(StatusCode::CONFLICT, format_args!("fault {id} holds nothing: see GET /faults"))
            }
        }
    }

    fn log(&self, query: &str) -> Reply {
        let first = match query.strip_prefix("from=") {
            Some(number) => number.parse().ok(),
            None => query.is_empty().then_some(0),
        };
        match first {
            Some(first) => Reply {
                status: StatusCode::OK,
                content_type: "application/jsonl",
                body: self.0.log.from(first),
            },
            None => Reply::text(StatusCode::BAD_REQUEST, "write /log?from=N, N being the number of a line"),
        }
    }
}
