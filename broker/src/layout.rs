//! The key layout.
//!
//! Every value is `codec`-encoded. Numbers in keys are decimal and zero-padded, so that keys sort as numbers do.
//! Transactional ids and group ids are arbitrary text: `%` and `/` in them are written `%25` and `%2F`.
//!
//! | key | value | written by |
//! |---|---|---|
//! | `agents/<node>` | [`AgentEntry`](crate::records::AgentEntry), under the agent's lease | registration |
//! | `counters/registration` | `i64`: the lease of whoever registered last | registration |
//! | `counters/incarnation` | `i64`: last agent incarnation given out | the first chunk an agent writes |
//! | `counters/producer_id` | `i64`: next producer id | InitProducerId |
//! | `writers/<incarnation>` | that incarnation's [`floor`](crate::floor) | the first chunk an agent writes, collector |
//! | `topics/<topic>` | [`TopicEntry`](crate::records::TopicEntry) | CreateTopics |
//! | `deleting/<topic>` | `i64`: create revision of the deleted topic | DeleteTopics; deleted when nothing of it is left |
//! | `heads/<topic>/<partition>` | [`Head`](crate::records::Head): **the partition's one head key** | appends, markers, trim |
//! | `index/<topic>/<partition>/<last offset>` | [`IndexEntry`](crate::records::IndexEntry), one per batch | appends, markers, trim, compaction |
//! | `aborted/<topic>/<partition>/<marker offset>` | [`AbortedRange`](crate::records::AbortedRange) | abort markers, trim |
//! | `producers/<topic>/<partition>/<producer id>` | [`ProducerEntry`](crate::producer::ProducerEntry) | appends, markers |
//! | `txns/<transactional id>` | [`TxnState`](crate::transaction::TxnState) | InitProducerId, begin, Prepare, Complete |
//! | `txn_idle/<transactional id>` | `i64`: when it last became Empty or Complete, in ms of wall time | InitProducerId, Complete |
//! | `txn_last_ends/<transactional id>` | only with a planted defect, see [`ends`](crate::ends) | EndTxn |
//! | `txn_parts/<transactional id>/<topic>/<partition>` | [`TxnPart`](crate::records::TxnPart) | joins; deleted by markers |
//! | `txn_groups/<transactional id>/<group>` | [`TxnGroup`](crate::group::TxnGroup) | AddOffsetsToTxn; deleted when its offsets are settled |
//! | `groups/<group>` | [`GroupHead`](crate::group::GroupHead): **the group's one head key** | every write to the group's offsets |
//! | `group_state/<group>` | [`GroupState`](crate::group::GroupState): **the group's members** | every change of the members, by the group's owner |
//! | `group_offsets/<group>/<topic>/<partition>` | [`CommittedOffset`](crate::group::CommittedOffset) | OffsetCommit, settling |
//! | `group_pending/<group>/<producer id>/<epoch>/<topic>/<partition>` | [`CommittedOffset`](crate::group::CommittedOffset) | TxnOffsetCommit; deleted by settling |
//!
//! Guards. Whatever changes a partition (index, producers, aborted ranges) also writes its head, and compares the
//! head's mod revision, so one compare fences all four. Exceptions: compaction, which moves bytes and no offset, compares the
//! index entries it rewrites; expiry and the purge of a deleted topic delete producers without it. A head that was never written is an empty log. Whatever
//! joins a transaction or appends to it compares the mod revision of `txns/<id>`, which changes at begin, Prepare,
//! Complete and InitProducerId, and goes when the id expires; so the partitions of a prepared transaction cannot grow.
//! A transaction opens, goes on and closes on a partition by writing its producer's key too, so that key's mod revision
//! says by itself whether it may expire. When a transactional id became idle is kept beside its state, not in it: two
//! transactions of one epoch must look alike to the defect `state_compare`.
//! Appends and markers also compare the mod revision of `topics/<topic>`, and all others a key that goes with the topic, so
//! nothing comes to a topic that is gone; and a topic is created only while no `deleting/<topic>` stands.
//! A marker deletes the partition's `txn_parts` key in the coordinator transaction that writes it, so it is written
//! once, by whichever agent.
//!
//! Whatever puts a chunk into an index compares the floor of the chunk's incarnation: see `floor`.
//!
//! Whatever changes a group's offsets (pending ones too) also writes its head and compares the head's mod revision. A commit
//! compares the mod revision of `group_state` beside it and does not write it: so it is of the generation it claims, and
//! disturbs no rebalance. A change of the members compares and writes `group_state` alone; one that a timer of the
//! owner makes also compares the owner's registration and `counters/registration`: nobody else has been the owner since.
//! Pending offsets are settled (made committed ones, or dropped) between Prepare and Complete, by coordinator
//! transactions that also compare the mod revision that Prepare gave `txns/<id>`; the last of them deletes `txn_groups`.
//!
//! The index is keyed by *last* offset: the first key at or after an offset is the batch that contains it.
//!
//! Chunks in the object store are `chunks/<incarnation>/<number>` (hexadecimal): unique because an incarnation is given
//! to one agent process only.

use bytes::Bytes;

pub(crate) const AGENTS: &str = "agents/";
pub(crate) const TOPICS: &str = "topics/";
pub(crate) const DELETING: &str = "deleting/";
pub(crate) const HEADS: &str = "heads/";
pub(crate) const INDEX: &str = "index/";
pub(crate) const TXNS: &str = "txns/";
pub(crate) const WRITERS: &str = "writers/";
pub(crate) const TXN_IDLE: &str = "txn_idle/";
pub(crate) const PRODUCERS: &str = "producers/";
pub(crate) const GROUPS: &str = "groups/";
pub(crate) const GROUP_STATES: &str = "group_state/";

/// Longest transactional id or group id taken, in bytes, so that no bounded step over keys that hold one exceeds what the
/// coordinator takes in a transaction (etcd's `--max-request-bytes`, 1.5 MiB).
const ID_MAX_BYTES: usize = 1024;

/// Whether a transactional id or a group id is one that keys may hold.
pub(crate) fn is_id(id: &str) -> bool {
    (1..=ID_MAX_BYTES).contains(&id.len())
}

pub(crate) fn agent(node_id: i32) -> Bytes {
    format!("{AGENTS}{node_id:010}").into()
}

/// Written by every registration, so its mod revision says whether anybody has registered since.
pub(crate) fn registrations() -> Bytes {
    Bytes::from_static(b"counters/registration")
}

pub(crate) fn incarnation_counter() -> Bytes {
    Bytes::from_static(b"counters/incarnation")
}

pub(crate) fn producer_id_counter() -> Bytes {
    Bytes::from_static(b"counters/producer_id")
}

pub(crate) fn writer(incarnation: i64) -> Bytes {
    format!("{WRITERS}{incarnation:020}").into()
}

/// The incarnation in a `writers/` key.
pub(crate) fn writer_of(key: &[u8]) -> Option<i64> {
    std::str::from_utf8(key).ok()?.strip_prefix(WRITERS)?.parse().ok()
}

pub(crate) fn topic(topic: &str) -> Bytes {
    format!("{TOPICS}{topic}").into()
}

pub(crate) fn deleting(topic: &str) -> Bytes {
    format!("{DELETING}{topic}").into()
}

/// The topic in a `deleting/` key.
pub(crate) fn deleting_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key).ok()?.strip_prefix(DELETING)
}

/// Before all heads of a topic.
pub(crate) fn topic_heads(topic: &str) -> Bytes {
    format!("{HEADS}{topic}/").into()
}

/// Before all that a topic has beside its own key and its heads, one kind after the other.
pub(crate) fn topic_remains(topic: &str) -> [Bytes; 3] {
    ["index", "aborted", "producers"].map(|kind| format!("{kind}/{topic}/").into())
}

pub(crate) fn head(topic: &str, partition: i32) -> Bytes {
    format!("{HEADS}{topic}/{partition:010}").into()
}

pub(crate) fn index(topic: &str, partition: i32, last_offset: i64) -> Bytes {
    format!("{INDEX}{topic}/{partition:010}/{last_offset:020}").into()
}

pub(crate) fn aborted(topic: &str, partition: i32, marker_offset: i64) -> Bytes {
    format!("aborted/{topic}/{partition:010}/{marker_offset:020}").into()
}

pub(crate) fn producer(topic: &str, partition: i32, producer_id: i64) -> Bytes {
    format!("{PRODUCERS}{topic}/{partition:010}/{producer_id:020}").into()
}

/// Before all producers of a partition.
pub(crate) fn producers(topic: &str, partition: i32) -> Bytes {
    format!("{PRODUCERS}{topic}/{partition:010}/").into()
}

/// Topic, partition and producer id of a `producers/` key.
pub(crate) fn producer_of(key: &[u8]) -> Option<(&str, i32, i64)> {
    let (rest, producer_id) = std::str::from_utf8(key).ok()?.strip_prefix(PRODUCERS)?.rsplit_once('/')?;
    let (topic, partition) = rest.rsplit_once('/')?;
    Some((topic, partition.parse().ok()?, producer_id.parse().ok()?))
}

pub(crate) fn txn(transactional_id: &str) -> Bytes {
    format!("{TXNS}{}", escape(transactional_id)).into()
}

pub(crate) fn txn_idle(transactional_id: &str) -> Bytes {
    format!("{TXN_IDLE}{}", escape(transactional_id)).into()
}

/// Only with the defect `number_without_epoch`: see [`ends`](crate::ends).
pub(crate) fn txn_last_ends(transactional_id: &str) -> Bytes {
    format!("txn_last_ends/{}", escape(transactional_id)).into()
}

/// The `txns/` key beside a `txn_idle/` key.
pub(crate) fn txn_of_idle(key: &[u8]) -> Option<Bytes> {
    let escaped = std::str::from_utf8(key).ok()?.strip_prefix(TXN_IDLE)?;
    Some(format!("{TXNS}{escaped}").into())
}

pub(crate) fn txn_parts(transactional_id: &str) -> Bytes {
    format!("txn_parts/{}/", escape(transactional_id)).into()
}

pub(crate) fn txn_part(transactional_id: &str, topic: &str, partition: i32) -> Bytes {
    format!("txn_parts/{}/{topic}/{partition:010}", escape(transactional_id)).into()
}

pub(crate) fn txn_groups(transactional_id: &str) -> Bytes {
    format!("txn_groups/{}/", escape(transactional_id)).into()
}

pub(crate) fn txn_group(transactional_id: &str, group: &str) -> Bytes {
    format!("txn_groups/{}/{}", escape(transactional_id), escape(group)).into()
}

pub(crate) fn group(group: &str) -> Bytes {
    format!("{GROUPS}{}", escape(group)).into()
}

pub(crate) fn group_state(group: &str) -> Bytes {
    format!("{GROUP_STATES}{}", escape(group)).into()
}

/// Before all committed offsets of a group.
pub(crate) fn group_offsets(group: &str) -> Bytes {
    format!("group_offsets/{}/", escape(group)).into()
}

/// Before a group's committed offsets of one topic.
pub(crate) fn group_topic_offsets(group: &str, topic: &str) -> Bytes {
    format!("group_offsets/{}/{topic}/", escape(group)).into()
}

pub(crate) fn group_offset(group: &str, topic: &str, partition: i32) -> Bytes {
    format!("group_offsets/{}/{topic}/{partition:010}", escape(group)).into()
}

/// Before all pending offsets of a group.
pub(crate) fn group_pending(group: &str) -> Bytes {
    format!("group_pending/{}/", escape(group)).into()
}

/// Before a group's pending offsets of one producer under `epoch`; those of its older epochs come earlier.
pub(crate) fn pending_epoch(group: &str, producer_id: i64, epoch: i16) -> Bytes {
    format!("group_pending/{}/{producer_id:020}/{epoch:05}/", escape(group)).into()
}

pub(crate) fn pending_offset(
    group: &str,
    producer_id: i64,
    epoch: i16,
    topic: &str,
    partition: i32,
) -> Bytes {
    let group = escape(group);
    format!("group_pending/{group}/{producer_id:020}/{epoch:05}/{topic}/{partition:010}").into()
}

/// The transactional id in a `txns/` key.
pub(crate) fn txn_of(key: &[u8]) -> Option<String> {
    Some(unescape(std::str::from_utf8(key).ok()?.strip_prefix(TXNS)?))
}

/// The group at the end of a `txn_groups/`, `groups/` or `group_state/` key.
pub(crate) fn group_of(key: &[u8]) -> Option<String> {
    Some(unescape(std::str::from_utf8(key).ok()?.rsplit_once('/')?.1))
}

/// Topic and partition at the end of a `txn_parts/`, `group_offsets/` or `group_pending/` key.
pub(crate) fn partition_of(key: &[u8]) -> Option<(&str, i32)> {
    let (rest, partition) = std::str::from_utf8(key).ok()?.rsplit_once('/')?;
    let (_, topic) = rest.rsplit_once('/')?;
    Some((topic, partition.parse().ok()?))
}

/// The end of the range of all keys that begin with `prefix`, which must not end in 0xff.
pub(crate) fn end_of(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end.into()
}

/// A partition's name in events: `topic-partition`.
pub(crate) fn partition_name(topic: &str, partition: i32) -> String {
    format!("{topic}-{partition}")
}

fn escape(id: &str) -> String {
    id.replace('%', "%25").replace('/', "%2F")
}

fn unescape(escaped: &str) -> String {
    escaped.replace("%2F", "/").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_bounded() {
        assert!(is_id("a") && is_id(&"/".repeat(1024)));
        assert!(!is_id("") && !is_id(&"a".repeat(1025)));
    }

    #[test]
    fn numbers_sort_as_numbers() {
        assert!(index("t", 0, 9) < index("t", 0, 10));
        assert!(index("t", 0, i64::MAX) < index("t", 1, 0));
        assert_eq!(index("t", 0, 42), Bytes::from_static(b"index/t/0000000000/00000000000000000042"));
    }

    #[test]
    fn transactional_ids_cannot_reach_into_each_other() {
        for id in ["a", "a/b", "a%2Fb", "%", "", "ü/%25"] {
            assert_eq!(txn_of(&txn(id)).as_deref(), Some(id));
        }
        let (prefix, other) = (txn_parts("a"), txn_part("a/b", "t", 0));
        assert!(!(prefix.as_ref() <= other.as_ref() && other.as_ref() < end_of(&prefix).as_ref()));
        assert_eq!(partition_of(&txn_part("a/b", "orders.x", 3)), Some(("orders.x", 3)));
        assert_eq!(txn_of_idle(&txn_idle("a/b%")), Some(txn("a/b%")));
    }

    #[test]
    fn a_producers_key_says_whose_it_is() {
        let key = producer("orders.x", 3, 42);
        assert!(key.starts_with(&producers("orders.x", 3)));
        assert_eq!(producer_of(&key), Some(("orders.x", 3, 42)));
        assert_eq!(producer_of(b"producers/t/1"), None);
    }

    #[test]
    fn all_that_a_topic_has_goes_with_it_and_nothing_of_another() {
        let owned = [index("t", 3, 7), aborted("t", 3, 7), producer("t", 3, 7)];
        let foreign = [index("t.x", 3, 7), aborted("tt", 3, 7), producer("t-", 3, 7)];
        for ((prefix, owned), foreign) in topic_remains("t").iter().zip(owned).zip(foreign) {
            assert!(owned.starts_with(prefix) && !foreign.starts_with(prefix), "{owned:?}");
        }
        assert!(
            head("t", 3).starts_with(&topic_heads("t")) && !head("t.x", 3).starts_with(&topic_heads("t"))
        );
        assert_eq!(deleting_of(&deleting("t.x")), Some("t.x"));
    }

    #[test]
    fn groups_cannot_reach_into_each_other() {
        for id in ["g", "a/b", "a%2Fb", "%", "", "ü/%25"] {
            assert_eq!(group_of(&txn_group("x/y", id)).as_deref(), Some(id));
            assert_eq!(group_of(&group_state(id)).as_deref(), Some(id));
        }
        let (prefix, other) = (group_offsets("a"), group_offset("a/b", "t", 0));
        assert!(!(prefix.as_ref() <= other.as_ref() && other.as_ref() < end_of(&prefix).as_ref()));
        assert_eq!(partition_of(&group_offset("a/b", "orders.x", 3)), Some(("orders.x", 3)));
        assert_eq!(partition_of(&pending_offset("a/b", 7, 2, "orders.x", 3)), Some(("orders.x", 3)));
    }

    #[test]
    fn older_epochs_of_a_producer_come_earlier_and_no_other_producer_between() {
        let at = |producer_id, epoch| pending_offset("g", producer_id, epoch, "t", 0);
        let keys = [at(7, 9), at(7, 10), at(7, 32_767), at(8, 0), at(70, 0)];
        assert!(keys.is_sorted());
        assert!(at(7, 9) < pending_epoch("g", 7, 10) && pending_epoch("g", 7, 10) < at(7, 10));
    }
}
