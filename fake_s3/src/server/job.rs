//! One request, from when it was read to its reply.

use super::lag::Lag;
use super::{Disk, Latency, ServerConfig};
use crate::api::{Request, Response};
use crate::error::S3Error;
use crate::wire::{self, Answer, Call};
use rt::net::FrameWriter;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Job {
    call: Call,
    replies: Arc<FrameWriter>,
    /// Who asks for what, as a hash.
    pub(super) entity: u64,
    /// How many such requests there were.
    pub(super) ordinal: u64,
}

/// What befalls a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    Refused(S3Error),
    DoneButFailed,
}

impl Job {
    pub(super) fn new(peer: &str, call: Call, replies: Arc<FrameWriter>) -> Self {
        let (kind, key) = wire::kind_and_key(&call.request);
        let entity = rt::choice::stable_hash(format!("{peer} {kind} {key}").as_bytes());
        Job { call, replies, entity, ordinal: 0 }
    }

    pub(super) async fn run(self, disk: Disk, config: Arc<ServerConfig>, lag: Arc<Option<Lag>>) {
        let whole = self.latency(&config);
        let before = rt::choice("s3.done-at", self.entity, self.ordinal).duration(Duration::ZERO, whole);
        pass(before).await;
        rt::preempt("s3.before-apply").await;
        let result = match self.fate(&config) {
            Fate::Refused(error) => Err(error),
            Fate::Done => self.apply(&disk, lag.as_ref().as_ref()),
            Fate::DoneButFailed => self.apply(&disk, lag.as_ref().as_ref()).and(Err(S3Error::InternalError)),
        };
        pass(whole - before).await;
        rt::preempt("s3.before-reply").await;
        self.reply(result);
    }

    fn apply(&self, disk: &Disk, lag: Option<&Lag>) -> Result<Response, S3Error> {
        let mut store = disk.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let (Some(lag), Request::List(list)) = (lag, &self.call.request) {
            return lag.list(&store, list, rt::choice("s3.list-lag", self.entity, self.ordinal));
        }
        let before = store.changes();
        let result = store.apply(rt::time::wall(), &self.call.request);
        if let Some(lag) = lag {
            lag.note(store.changes() - before);
        }
        result
    }

    fn latency(&self, config: &ServerConfig) -> Duration {
        let Latency { base_us, jitter_us } = match &self.call.request {
            Request::Get { head: false, .. } => config.read,
            Request::Get { head: true, .. } => config.head,
            Request::List(_) | Request::ListParts { .. } | Request::ListUploads(_) => config.list,
            Request::Delete { .. }
            | Request::DeleteMany { .. }
            | Request::CreateUpload { .. }
            | Request::AbortUpload { .. } => config.delete,
            Request::Put { .. }
            | Request::Copy { .. }
            | Request::UploadPart { .. }
            | Request::CompleteUpload { .. } => config.write,
        };
        let (low, high) = (Duration::from_micros(base_us), Duration::from_micros(base_us + jitter_us));
        rt::choice("s3.latency", self.entity, self.ordinal).duration(low, high)
    }

    fn fate(&self, config: &ServerConfig) -> Fate {
        let quirks = &config.quirks;
        let fates = [
            (quirks.slow_down_per_mille, Fate::Refused(S3Error::SlowDown)),
            (quirks.failed_per_mille, Fate::Refused(S3Error::InternalError)),
            (quirks.applied_but_failed_per_mille, Fate::DoneButFailed),
        ];
        if fates.iter().all(|(rate, _)| *rate == 0) {
            return Fate::Done;
        }
        let mut drawn = rt::choice("s3.fate", self.entity, self.ordinal).below(1000);
        for (rate, fate) in fates {
            if drawn < rate {
                return fate;
            }
            drawn -= rate;
        }
        Fate::Done
    }

    fn reply(self, result: Result<Response, S3Error>) {
        let label = if rt::observe::listens() {
            wire::reply_label(&self.call.request, &result)
        } else {
            String::new()
        };
        let answer = Answer { id: self.call.id, result };
        // An object was read from a frame, so it fits into one; the connection may be gone.
        if let Some(bytes) = wire::encode(&answer) {
            self.replies.push(&bytes, || label);
        }
    }
}

async fn pass(time: Duration) {
    if !time.is_zero() {
        rt::time::sleep(time).await;
    }
}
