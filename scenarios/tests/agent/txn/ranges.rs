//! What Fetch says of aborted transactions and gives of batches: kafka.md 1.5.

use super::*;
use crate::harness::{PLAIN, World};
use std::io::Write;

const INVALID_RECORD: i16 = 87;
const HEADER_BYTES: usize = 61;

/// A log of two interleaved aborted transactions with a committed one between. Offsets: 0 a1, 1 b1, 2 a-abort, 3 c1, 4 c-commit,
/// 5 b2, 6 b-abort, 7 d1, 8 d-abort.
async fn interleaved(agent: &mut Connection) -> [Holder; 4] {
    agent.create_topic(TOPIC, 1, &[]).await;
    let [a, b, c, d] =
        [init(agent, "a").await, init(agent, "b").await, init(agent, "c").await, init(agent, "d").await];
    assert_eq!(send(agent, V1, a, 0, 0, &["a1"]).await, (0, 0));
    assert_eq!(send(agent, V1, b, 0, 0, &["b1"]).await, (0, 1));
    end(agent, V1, a, ABORT).await;
    markers().await;
    assert_eq!(send(agent, V1, c, 0, 0, &["c1"]).await, (0, 3));
    end(agent, V1, c, COMMIT).await;
    markers().await;
    assert_eq!(send(agent, V1, b, 0, 1, &["b2"]).await, (0, 5));
    end(agent, V1, b, ABORT).await;
    markers().await;
    assert_eq!(send(agent, V1, d, 0, 0, &["d1"]).await, (0, 7));
    end(agent, V1, d, ABORT).await;
    markers().await;
    [a, b, c, d]
}

#[test]
fn aborted_transactions_are_those_of_the_returned_range() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        let [a, b, _, d] = interleaved(&mut agent).await;
        let (a, b, d) = ((a.producer_id, 0), (b.producer_id, 1), (d.producer_id, 7));
        let everything = 1 << 20;
        let rows = [
            // from, batches that fit, last offset returned, aborted
            (0, 1, 0, vec![a]),
            (0, 2, 1, vec![a, b]),
            (0, 4, 3, vec![a, b]),
            (0, everything, 8, vec![a, b, d]),
            (1, 1, 1, vec![a, b]),
            (2, 1, 2, vec![a, b]),
            (3, 1, 3, vec![b]),
            (3, 4, 6, vec![b]),
            (3, 5, 7, vec![b, d]),
            (7, 1, 7, vec![d]),
            (8, 1, 8, vec![d]),
        ];
        let record_bytes = batch(PLAIN, 1_000, &["a1"]).len() as i32;
        for (from, batches, last, expected) in rows {
            // Batches and markers differ in size by less than the slack that a whole batch leaves.
            let max_bytes = if batches == everything { everything } else { sum(from, batches, record_bytes) };
            let data = fetch(&mut agent, 0, from, true, max_bytes).await;
            let row = format!("from {from}, {batches} batches");
            assert_eq!(records(&data).last().map(|record| record.offset), Some(last), "{row}");
            assert_eq!(aborted(&data), expected, "{row}");
        }
        let end = fetch(&mut agent, 0, 9, true, everything).await;
        assert_eq!((aborted(&end), end.records.map(|bytes| bytes.len())), (vec![], Some(0)), "at the end");
        let uncommitted = fetch(&mut agent, 0, 0, false, everything).await;
        assert_eq!(uncommitted.aborted_transactions, None, "read_uncommitted is told of none");
        assert_eq!(records(&uncommitted).len(), 9);
    });
}

/// Bytes of `batches` batches of [`interleaved`] from the one at `from` on: data at 0, 1, 3, 5 and 7, markers between.
fn sum(from: i64, batches: i32, record_bytes: i32) -> i32 {
    const MARKER_BYTES: i32 = 78;
    let bytes = |offset| if [0, 1, 3, 5, 7].contains(&offset) { record_bytes } else { MARKER_BYTES };
    (from..from + i64::from(batches)).map(bytes).sum()
}

#[test]
fn an_open_transaction_bounds_what_committed_readers_see() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic(TOPIC, 1, &[]).await;
        let [a, b] = [init(&mut agent, "a").await, init(&mut agent, "b").await];
        send_bytes(&mut agent, V1, None, 0, batch(PLAIN, 1_000, &["p0"])).await;
        send(&mut agent, V1, a, 0, 0, &["a1"]).await;
        send(&mut agent, V1, b, 0, 0, &["b1"]).await;
        end(&mut agent, V1, b, ABORT).await;
        markers().await;
        let data = fetch(&mut agent, 0, 0, true, 1 << 20).await;
        assert_eq!((data.last_stable_offset, data.high_watermark), (1, 4));
        assert_eq!((records(&data).len(), aborted(&data)), (1, vec![]), "b's range lies above");
        for offset in [1, 2, 4] {
            let data = fetch(&mut agent, 0, offset, true, 1 << 20).await;
            assert_eq!((data.error_code, records(&data).len()), (0, 0), "between LSO and end: empty");
        }
        assert_eq!(fetch(&mut agent, 0, 5, true, 1 << 20).await.error_code, 1, "beyond the end");
        end(&mut agent, V1, a, COMMIT).await;
        markers().await;
        let data = fetch(&mut agent, 0, 0, true, 1 << 20).await;
        assert_eq!((data.last_stable_offset, aborted(&data)), (5, vec![(b.producer_id, 2)]));
    });
}

/// A batch whose records were compressed by `codec`, or are what no codec writes.
fn compressed(codec: i16, foreign: bool) -> Bytes {
    let mut bytes = batch(PLAIN, 1_000, &["x", "y", "z"]).to_vec();
    let records = bytes.split_off(HEADER_BYTES);
    bytes.extend(match codec {
        _ if foreign => (0..records.len()).map(|n| n as u8 ^ 0xa5).collect(),
        1 => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            gzip.write_all(&records).and_then(|()| gzip.finish()).expect("compressed")
        }
        2 => snap::raw::Encoder::new().compress_vec(&records).expect("compressed"),
        3 => {
            let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
            lz4.write_all(&records).expect("compressed");
            lz4.finish().expect("compressed")
        }
        _ => ruzstd::encoding::compress_to_vec(&records[..], ruzstd::encoding::CompressionLevel::Fastest),
    });
    bytes[21..23].copy_from_slice(&codec.to_be_bytes());
    let length = bytes.len() as i32 - 12;
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes.into()
}

#[test]
fn compressed_batches_pass_untouched() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic(TOPIC, 1, &[]).await;
        for (n, codec) in (0..).zip([1, 2, 3, 4]) {
            let foreign = compressed(codec, true);
            assert_eq!(send_bytes(&mut agent, V1, None, 0, foreign).await, (INVALID_RECORD, -1), "{codec}");
            let sent = compressed(codec, false);
            let base_offset = 3 * n;
            assert_eq!(send_bytes(&mut agent, V1, None, 0, sent.clone()).await, (0, base_offset));
            let data = fetch(&mut agent, 0, base_offset, true, 1 << 20).await;
            let read = data.records.expect("records");
            assert_eq!(read[..8], base_offset.to_be_bytes(), "the offset is the log's");
            assert_eq!(read[8..12], sent[8..12]);
            assert_eq!(read[12..16], [0; 4], "and so is the leader epoch");
            assert_eq!(read[16..], sent[16..], "codec {codec}: all else is the producer's");
        }
    });
}

#[test]
fn a_batch_is_returned_whole_to_whoever_asks_for_any_of_it() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic(TOPIC, 1, &[]).await;
        send_bytes(&mut agent, V1, None, 0, batch(PLAIN, 1_000, &["a", "b", "c"])).await;
        send_bytes(&mut agent, V1, None, 0, batch(PLAIN, 1_000, &["d"])).await;
        for offset in 0..3 {
            let data = fetch(&mut agent, 0, offset, true, 1).await;
            let offsets: Vec<_> = records(&data).iter().map(|record| record.offset).collect();
            assert_eq!(offsets, [0, 1, 2], "from {offset}, though larger than asked for");
        }
    });
}

/// Fetch of partitions in this order, each from offset 0, as a reader that waits.
async fn fetch_all(
    agent: &mut Connection,
    partitions: &[i32],
    offset: i64,
    min_bytes: i32,
    max_wait_ms: i32,
) -> Vec<(i16, usize, i64)> {
    let partition = |partition: &i32| {
        FetchPartition::default()
            .with_partition(*partition)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(1 << 20)
    };
    let topic = FetchTopic::default()
        .with_topic(text(TOPIC).into())
        .with_partitions(partitions.iter().map(partition).collect());
    let request = FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_bytes(1 << 20)
        .with_min_bytes(min_bytes)
        .with_max_wait_ms(max_wait_ms)
        .with_topics(vec![topic]);
    let answer = agent.call(11, &request).await;
    let partitions = answer.responses[0].partitions.iter();
    partitions.map(|data| (data.error_code, records(data).len(), data.high_watermark)).collect()
}

#[test]
fn what_has_no_room_in_an_answer_is_not_at_its_end() {
    let one = batch(PLAIN, 1_000, &["a"]);
    let mut world = World::default();
    world.agent.fetch_max_bytes = one.len() + 10;
    world.run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic(TOPIC, 2, &[]).await;
        for partition in [0, 1] {
            send_bytes(&mut agent, V1, None, partition, one.clone()).await;
        }
        let answer = fetch_all(&mut agent, &[0, 1], 0, 1, 1_000).await;
        assert_eq!(answer, [(0, 1, 1), (0, 0, 1)], "the agent's limit, in the order asked");
        let answer = fetch_all(&mut agent, &[1, 0], 0, 1, 1_000).await;
        assert_eq!(answer, [(0, 1, 1), (0, 0, 1)]);
    });
}

#[test]
fn a_reader_waits_for_bytes_but_not_for_errors() {
    World::default().run(|cluster| async move {
        let mut agent = cluster.connect("agent-1").await;
        agent.create_topic(TOPIC, 2, &[]).await;
        let started = rt::time::Instant::now();
        let waited_ms = || started.elapsed().as_millis();
        assert_eq!(fetch_all(&mut agent, &[0], 0, 1, 0).await, [(0, 0, 0)]);
        assert_eq!(fetch_all(&mut agent, &[0], 0, 0, 10_000).await, [(0, 0, 0)], "nothing is enough");
        assert_eq!(fetch_all(&mut agent, &[0, 7], 0, 1, 10_000).await, [(0, 0, 0), (3, 0, -1)]);
        assert!(waited_ms() < 500, "{} ms", waited_ms());
        assert_eq!(fetch_all(&mut agent, &[0], 0, 1, 1_000).await, [(0, 0, 0)]);
        assert!((1_000..1_500).contains(&waited_ms()), "{} ms", waited_ms());
        let mut writer = cluster.connect("agent-1").await;
        let write = async {
            sleep(Duration::from_millis(300)).await;
            send_bytes(&mut writer, V1, None, 0, batch(PLAIN, 1_000, &["a"])).await
        };
        let (answer, _) = tokio::join!(fetch_all(&mut agent, &[0], 0, 1, 10_000), write);
        assert_eq!(answer, [(0, 1, 1)]);
        assert!(waited_ms() < 2_500, "{} ms", waited_ms());
    });
}
