//! What each client asked and was told, and when.

use fake_etcd::Error;
use fake_etcd::api::{Request, Response};
use rt::time::Instant;
use std::sync::{Arc, Mutex};

/// One call. Without an end its client crashed.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) client: u64,
    pub(crate) begun: Instant,
    pub(crate) request: Request,
    pub(crate) end: Option<(Instant, Result<Response, Error>)>,
}

/// All calls, in the order they began.
#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Vec<Call>>>);

impl Record {
    pub(crate) fn begin(&self, client: u64, begun: Instant, request: Request) -> usize {
        let mut calls = self.0.lock().unwrap();
        calls.push(Call { client, begun, request, end: None });
        calls.len() - 1
    }

    pub(crate) fn end(&self, call: usize, at: Instant, outcome: Result<Response, Error>) {
        self.0.lock().unwrap()[call].end = Some((at, outcome));
    }

    pub(crate) fn begun(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn begun_by(&self, client: u64) -> usize {
        self.0.lock().unwrap().iter().filter(|call| call.client == client).count()
    }

    pub(crate) fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}
