"""The program of kafka-python's suite: transactions here, the rest in kafka_python.py. See suite.py for how to call it."""

from kafka import TopicPartition, errors
from kafka.structs import OffsetAndMetadata

import kafka_python
import suite
from kafka_python import consumer, end, expect_error, new_topic, producer, send_all, texts, values
from suite import expect


def begun(transactional_id):
    """A producer that has taken over its transactional id."""
    p = producer(transactional_id=transactional_id)
    p.init_transactions()
    return p


def commit_and_abort():
    """Commit, abort, commit, over two partitions, and one left open while others read."""
    topic = new_topic("txn", 2)
    p = begun(topic)
    for name in "abc":
        p.begin_transaction()
        send_all(p, topic, texts([f"{name}0"]), 0)
        send_all(p, topic, texts([f"{name}1"]), 1)
        (p.abort_transaction if name == "b" else p.commit_transaction)()
    p.begin_transaction()
    send_all(p, topic, texts(["open"]))
    expect("committed values", values(topic, "read_committed", 2), [["a0", "c0"], ["a1", "c1"]])
    expect("all values", values(topic, "read_uncommitted", 2), [["a0", "b0", "c0", "open"], ["a1", "b1", "c1"]])
    # Three records and three markers are before the open one.
    expect("end for read_committed", end(topic, "read_committed"), 6)
    expect("end for read_uncommitted", end(topic, "read_uncommitted"), 7)
    p.commit_transaction()
    suite.until("the last one is visible", lambda: end(topic, "read_committed") == 8, lambda: end(topic, "read_committed"))
    expect("committed values at last", values(topic, "read_committed", 2)[0], ["a0", "c0", "open"])
    p.close()


def offsets():
    topic = new_topic("txn-offsets", 1)
    at = TopicPartition(topic, 0)
    member = consumer(group_id=topic, isolation_level="read_committed")
    p = begun(topic)
    for offset, value, finish, wanted in [
        (5, "a", p.commit_transaction, 5),
        (9, "b", p.abort_transaction, 5),
        (11, None, p.commit_transaction, 11),
    ]:
        p.begin_transaction()
        if value:
            send_all(p, topic, texts([value]))
        p.send_offsets_to_transaction({at: OffsetAndMetadata(offset, "", -1)}, member.group_metadata())
        finish()
        # A read_committed consumer waits for pending commits.
        expect(f"offset after {finish.__name__}", member.committed(at), wanted)
    expect("committed values", values(topic, "read_committed"), [["a"]])
    p.close()
    member.close()


def fencing():
    topic = new_topic("fencing", 1)
    old = begun(topic)
    old.begin_transaction()
    send_all(old, topic, texts(["old"]))
    successor = begun(topic)
    expect_error("a commit of the old producer", errors.ProducerFencedError, old.commit_transaction)
    # By then it says no more than that it is in a fatal state.
    expect_error("the old producer's next transaction", errors.KafkaError, old.begin_transaction)
    successor.begin_transaction()
    send_all(successor, topic, texts(["new"]))
    successor.commit_transaction()
    expect("committed values", values(topic, "read_committed"), [["new"]])
    expect("all values", values(topic, "read_uncommitted"), [["old", "new"]])
    successor.close()
    old.close()


def held_end_txn():
    topic = new_topic("held", 2)
    p = producer(transactional_id=topic, request_timeout_ms=3_000, delivery_timeout_ms=10_000, max_block_ms=20_000)
    p.init_transactions()

    def send(partition, value):
        p.send(topic, partition=partition, value=value.encode()).get(20)

    suite.held_end_txn(topic, p.begin_transaction, send, p.commit_transaction, p.abort_transaction)


def no_new_protocol():
    raise suite.Skipped("this client has no new group protocol")


CASES = {
    "admin": kafka_python.admin,
    "produce-consume": kafka_python.produce_consume,
    "idempotent": kafka_python.idempotent,
    **{f"codec-{name}": kafka_python.codec(name) for name in ("gzip", "snappy", "lz4", "zstd")},
    "offsets": kafka_python.offsets,
    **kafka_python.GROUPS,
    "group-consumer": no_new_protocol,
    "txn": commit_and_abort,
    "txn-offsets": offsets,
    "txn-fencing": fencing,
    "agent-stopped": kafka_python.agent_stopped,
}

if __name__ == "__main__":
    suite.main(CASES, {"held-end-txn": held_end_txn})
