//! Splits a watch's message that is too large, for a watch that asked for it: `sendFragments` of `v3rpc/watch.go`.

use crate::api::{Event, KeyValue, WatchResponse};

/// From here on a message is split: the default `--max-request-bytes` and gRPC's allowance of 512 KiB.
const MAX_BYTES: usize = 1_572_864 + 512 * 1024;

/// The message in parts of as many events as fit, at least one each; whole if it is small or was not asked to be split.
pub(super) fn split(response: WatchResponse, asked: bool) -> impl Iterator<Item = WatchResponse> {
    let mut parts = Vec::with_capacity(1);
    if !asked
        || response.events.len() < 2
        || response.events.iter().map(event_bytes).sum::<usize>() < MAX_BYTES
    {
        parts.push(response);
        return parts.into_iter();
    }
    let WatchResponse { revision, events, .. } = response;
    let part = || WatchResponse { revision, fragment: true, ..Default::default() };
    let (mut current, mut bytes) = (part(), 0);
    for event in events {
        let more = event_bytes(&event);
        if !current.events.is_empty() && bytes + more >= MAX_BYTES {
            parts.push(std::mem::replace(&mut current, part()));
            bytes = 0;
        }
        bytes += more;
        current.events.push(event);
    }
    parts.push(WatchResponse { fragment: false, ..current });
    parts.into_iter()
}

/// The event's protobuf size, give or take the few bytes that its numbers may take less.
fn event_bytes(event: &Event) -> usize {
    let kv = |kv: &KeyValue| kv.key.len() + kv.value.len() + 32;
    16 + kv(&event.kv) + event.prev_kv.as_deref().map_or(0, kv)
}
