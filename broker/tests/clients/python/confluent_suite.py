"""The program of confluent-kafka's suite: transactions here, the rest in confluent.py. See suite.py for how to call it."""

from confluent_kafka import KafkaError, KafkaException, TopicPartition

import confluent
import suite
from confluent import CLASSIC, Sender, consumer, end, expect_code, new_topic, values
from suite import expect


def begun(transactional_id):
    """A producer that has taken over its transactional id."""
    sender = Sender(transactional_id=transactional_id)
    sender.producer.init_transactions(30)
    return sender


def commit_and_abort():
    """Commit, abort, commit, over two partitions, and one left open while others read."""
    topic = new_topic("txn", 2)
    sender = begun(topic)
    producer = sender.producer
    for name in "abc":
        producer.begin_transaction()
        sender.send(topic, 0, f"{name}0")
        sender.send(topic, 1, f"{name}1")
        sender.flush()
        (producer.abort_transaction if name == "b" else producer.commit_transaction)(30)
    producer.begin_transaction()
    sender.send(topic, 0, "open")
    sender.flush()
    expect("offsets told", sender.told, [0, 0, 2, 2, 4, 4, 6])
    expect("committed values", values(topic, "read_committed", 2), [["a0", "c0"], ["a1", "c1"]])
    expect("all values", values(topic, "read_uncommitted", 2), [["a0", "b0", "c0", "open"], ["a1", "b1", "c1"]])
    # Three records and three markers are before the open one.
    expect("end for read_committed", end(topic, "read_committed"), 6)
    expect("end for read_uncommitted", end(topic, "read_uncommitted"), 7)
    producer.commit_transaction(30)
    suite.until("the last one is visible", lambda: end(topic, "read_committed") == 8, lambda: end(topic, "read_committed"))
    expect("committed values at last", values(topic, "read_committed", 2)[0], ["a0", "c0", "open"])


def offsets():
    topic = new_topic("txn-offsets", 1)
    # Group metadata with neither member nor generation: the consumer never joins.
    member = consumer(group_id=topic, isolation_level="read_committed")
    sender = begun(topic)
    producer = sender.producer

    def stable():
        """What a consumer finds that waits for pending commits."""
        return member.committed([TopicPartition(topic, 0)], timeout=30)[0].offset

    for offset, value, finish, wanted in [
        (5, "a", producer.commit_transaction, 5),
        (9, "b", producer.abort_transaction, 5),
        (11, None, producer.commit_transaction, 11),
    ]:
        producer.begin_transaction()
        if value:
            sender.send(topic, 0, value)
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], member.consumer_group_metadata(), 30)
        finish(30)
        expect(f"offset after {finish.__name__}", stable(), wanted)
    expect("committed values", values(topic, "read_committed"), [["a"]])
    member.close()


def fencing():
    topic = new_topic("fencing", 1)
    old = begun(topic)
    old.producer.begin_transaction()
    old.send(topic, 0, "old")
    old.flush()
    successor = begun(topic)
    expect_code("a commit of the old producer", KafkaError._FENCED, lambda: old.producer.commit_transaction(30))
    try:
        old.producer.begin_transaction()
        raise suite.Failed("the old producer began another transaction")
    except KafkaException as error:
        expect("the old producer's error is fatal", error.args[0].fatal(), True)
    successor.producer.begin_transaction()
    successor.send(topic, 0, "new")
    successor.producer.commit_transaction(30)
    expect("committed values", values(topic, "read_committed"), [["new"]])
    expect("all values", values(topic, "read_uncommitted"), [["old", "new"]])


def held_end_txn():
    topic = new_topic("held", 2)
    sender = Sender(transactional_id=topic, socket_timeout_ms=3_000, transaction_timeout_ms=60_000)
    producer = sender.producer
    producer.init_transactions(30)

    def send(partition, value):
        sender.send(topic, partition, value)
        producer.flush(20)
        if not isinstance(sender.told[-1], int):
            raise KafkaException(sender.told[-1])

    suite.held_end_txn(topic, producer.begin_transaction, send, lambda: producer.commit_transaction(20), lambda: producer.abort_transaction(20))


CASES = {
    "admin": confluent.admin,
    "produce-consume": confluent.produce_consume,
    "idempotent": confluent.idempotent,
    **{f"codec-{name}": confluent.codec(name) for name in ("gzip", "snappy", "lz4", "zstd")},
    "offsets": confluent.offsets,
    "group-eager": confluent.group(**CLASSIC, partition_assignment_strategy="range"),
    "group-cooperative": confluent.group(**CLASSIC, partition_assignment_strategy="cooperative-sticky"),
    "group-consumer": confluent.group(group_protocol="consumer"),
    "group-static": confluent.group_static,
    "group-admin": confluent.group_admin,
    "txn": commit_and_abort,
    "txn-offsets": offsets,
    "txn-fencing": fencing,
    "agent-stopped": confluent.agent_stopped,
}

if __name__ == "__main__":
    suite.main(CASES, {"held-end-txn": held_end_txn})
