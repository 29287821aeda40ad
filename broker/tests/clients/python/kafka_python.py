"""The suite of kafka-python: admin, records, groups. Transactions and the program are in kafka_python_suite.py."""

import functools
import time

from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import OffsetAndMetadata

import suite
from suite import FIRST_MS, GROUP_PARTITIONS, expect


@functools.cache
def admin_client():
    return KafkaAdminClient(bootstrap_servers=suite.BOOTSTRAP)


def expect_error(what, wanted, call):
    """That `call` raises just this error."""
    try:
        got = call()
    except errors.KafkaError as error:
        got = type(error)
    expect(what, got, wanted)


def new_topic(name, partitions):
    topic = suite.new_name("kafka-python", name)
    # Nothing is deleted: the records of some cases are of 2020.
    wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
    admin_client().create_topics({topic: wanted}, wait_for_metadata=True)
    return topic


def producer(**settings):
    return KafkaProducer(bootstrap_servers=suite.BOOTSTRAP, **settings)


def consumer(**settings):
    defaults = {"bootstrap_servers": suite.BOOTSTRAP, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    return KafkaConsumer(**{**defaults, **settings})


def send_all(p, topic, records, partition=0):
    """The offsets that the producer told, in order."""
    told = [p.send(topic, partition=partition, **record) for record in records]
    p.flush(60)
    return [future.get(30).offset for future in told]


def texts(values):
    return [{"value": value.encode()} for value in values]


def read_all(topic, partitions, isolation, **settings):
    """All that a consumer of this isolation finds from the beginning to what is the end now, in order, by partition."""
    c = consumer(isolation_level=isolation, **settings)
    assigned = [TopicPartition(topic, p) for p in range(partitions)]
    c.assign(assigned)
    c.seek_to_beginning(*assigned)
    ends, deadline = c.end_offsets(assigned), time.monotonic() + 60
    found = {p: [] for p in range(partitions)}
    while any(c.position(p) < ends[p] for p in assigned):
        if time.monotonic() > deadline:
            raise suite.Failed(f"the ends {ends} were not reached within a minute")
        for p, records in c.poll(200).items():
            found[p.partition] += records
    c.close()
    return found


def values(topic, isolation, partitions=1):
    """By partition, in order."""
    found = read_all(topic, partitions, isolation)
    return [[r.value and r.value.decode() for r in found[p]] for p in range(partitions)]


def end(topic, isolation):
    c = consumer(isolation_level=isolation)
    found = c.end_offsets([TopicPartition(topic, 0)])
    c.close()
    return found[TopicPartition(topic, 0)]


def describe(topic):
    return admin_client().describe_topics([topic])[0]


def admin():
    a = admin_client()
    topic = suite.new_name("kafka-python", "admin")
    wanted = {topic: {"num_partitions": 3, "replication_factor": 1, "configs": {"retention.ms": "3600000"}}}
    a.create_topics(wanted)
    expect_error("a topic made twice", errors.TopicAlreadyExistsError, lambda: a.create_topics(wanted))
    invalid = {"a b": {"num_partitions": 1, "replication_factor": 1}}
    expect_error("a topic with a space in its name", errors.InvalidTopicError, lambda: a.create_topics(invalid))

    nodes = {b["broker_id"] if "broker_id" in b else b["node_id"] for b in a.describe_cluster()["brokers"]}
    suite.until("the description has three partitions", lambda: len(describe(topic)["partitions"]) == 3, lambda: describe(topic))
    for p in describe(topic)["partitions"]:
        expect("the leader is a node of the cluster", p["leader_id"] in nodes, True)
    expect("the list names it", topic in a.list_topics(), True)

    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    config = a.describe_configs([resource], config_filter="all")["topic"][topic]
    expect("retention.ms", config["retention.ms"]["value"], "3600000")
    expect("retention.bytes", config["retention.bytes"]["value"], "-1")

    a.create_partitions({topic: 5})
    # A controller answers before its brokers know.
    suite.until("there are five partitions", lambda: len(describe(topic)["partitions"]) == 5, lambda: describe(topic))
    expect_error("fewer partitions", errors.InvalidPartitionsError, lambda: a.create_partitions({topic: 2}))

    a.delete_topics([topic])
    suite.until("the topic is gone from the list", lambda: topic not in a.list_topics(), lambda: topic)
    expect("code of a description of a deleted topic", describe(topic)["error_code"], errors.UnknownTopicOrPartitionError.errno)
    expect_error("a topic deleted twice", errors.UnknownTopicOrPartitionError, lambda: a.delete_topics([topic]))


def numbered(partition, i):
    """Every tenth has no value; a header's key comes twice, and one header is empty: the client takes none without a value."""
    return {
        "key": f"k{i}".encode(),
        "value": None if i % 10 == 0 else f"{partition}-{i}".encode(),
        "timestamp_ms": FIRST_MS + i * 1000,
        "headers": [("h", f"one {i}".encode()), ("h", b"two"), ("none", b"")],
    }


def produce_consume():
    topic = new_topic("records", 3)
    p = producer(linger_ms=5)
    for partition in range(3):
        told = send_all(p, topic, [numbered(partition, i) for i in range(100)], partition)
        expect("offsets told", told, list(range(100)))
    p.close()
    for partition, records in read_all(topic, 3, "read_uncommitted").items():
        expect("offsets", [r.offset for r in records], list(range(100)))
        for i, r in enumerate(records):
            got = {"key": r.key, "value": r.value, "timestamp_ms": r.timestamp, "headers": [tuple(h) for h in r.headers]}
            expect(f"partition {partition} record {i}", got, numbered(partition, i))
            expect("timestamp type (0 is CreateTime)", r.timestamp_type, 0)
    larger_than_a_fetch()


def larger_than_a_fetch():
    """Batches of about 500 kB, read by a consumer that asks for 50 kB at a time: it gets a whole one all the same."""
    topic = new_topic("large", 1)
    p = producer(batch_size=500_000, linger_ms=200)
    send_all(p, topic, texts(suite.large(i) for i in range(40)))
    p.close()
    found = read_all(topic, 1, "read_uncommitted", max_partition_fetch_bytes=50_000, fetch_max_bytes=50_000)[0]
    expect("large values are what was sent", [r.value.decode() for r in found] == [suite.large(i) for i in range(40)], True)


def idempotent():
    topic = new_topic("idempotent", 1)
    p = producer(enable_idempotence=True, acks="all", batch_size=1_000)
    sent = suite.numbered("value", 1_000)
    expect("offsets told", send_all(p, topic, texts(sent)), list(range(1_000)))
    p.close()
    expect("values", values(topic, "read_uncommitted"), [sent])


def codec(name):
    def case():
        topic = new_topic(name, 1)
        p = producer(compression_type=name, linger_ms=20)
        send_all(p, topic, texts(suite.repetitive()))
        p.close()
        expect("values", values(topic, "read_uncommitted"), [suite.repetitive()])

    return case


def offsets():
    topic = new_topic("offsets", 1)
    p = producer()
    # Batches of ten: a look-up by time must find the right batch, and the record in it.
    for batch in range(5):
        send_all(p, topic, [numbered(0, batch * 10 + i) for i in range(10)])
    p.close()
    c, at = consumer(max_poll_records=1), TopicPartition(topic, 0)
    expect("beginning", c.beginning_offsets([at])[at], 0)
    expect("end", c.end_offsets([at])[at], 50)
    between = c.offsets_for_times({at: FIRST_MS + 22_500})[at]
    expect("offset for a time between two records", (between.offset, between.timestamp), (23, FIRST_MS + 23_000))
    expect("offset for a record's own time", c.offsets_for_times({at: FIRST_MS + 7_000})[at].offset, 7)
    expect("offset for a time after all", c.offsets_for_times({at: FIRST_MS + 60_000})[at], None)
    c.assign([at])
    for offset in (23, 0, 49):
        c.seek(at, offset)
        expect("record after a seek", next(c).offset, offset)
    c.seek_to_beginning(at)
    expect("record after a seek to the beginning", next(c).offset, 0)
    c.seek_to_end(at)
    expect("position after a seek to the end", c.position(at), 50)
    c.close()
    listed = admin_client().list_partition_offsets({at: OffsetSpec.MAX_TIMESTAMP})
    expect("offset of the largest timestamp", listed[at].offset, 49)


def agent_stopped():
    """A thousand records at a steady pace, while the agent that leads the partition stops, and comes back."""
    topic = new_topic("stopped", 1)
    p = producer(enable_idempotence=True, request_timeout_ms=5_000, delivery_timeout_ms=60_000)
    sent, told = suite.numbered("value", 1_000), []
    leader = describe(topic)["partitions"][0]["leader_id"]
    suite.at_a_steady_pace(1_000, lambda: leader, lambda i: told.append(p.send(topic, partition=0, value=sent[i].encode())))
    p.flush(60)
    expect("offsets told", [future.get(30).offset for future in told], list(range(1_000)))
    p.close()
    expect("values", values(topic, "read_uncommitted"), [sent])


class Member(suite.Member, ConsumerRebalanceListener):
    def __init__(self, topic, **settings):
        super().__init__()
        self.topic = topic
        self.consumer = consumer(group_id=topic, **settings)
        self.consumer.subscribe([topic], listener=self)
        self.start()

    def on_partitions_assigned(self, assigned):
        self.given(p.partition for p in assigned)

    def on_partitions_revoked(self, revoked):
        self.taken(p.partition for p in revoked)

    def on_partitions_lost(self, lost):
        self.taken(p.partition for p in lost)

    def poll(self):
        for p, records in self.consumer.poll(100).items():
            self.values += [r.value.decode() for r in records]
            self.consumer.commit({p: OffsetAndMetadata(records[-1].offset + 1, "", -1)})

    def leave(self):
        self.consumer.close()


def classic(assignor, **settings):
    return {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 500, "partition_assignment_strategy": [assignor], **settings}


def send(topic):
    """Puts `count` records into every partition; returns their values."""

    def to_all(name, count):
        p, sent = producer(), []
        for partition in range(GROUP_PARTITIONS):
            sent.append([f"{name}-{partition}-{i}" for i in range(count)])
            send_all(p, topic, texts(sent[-1]), partition)
        p.close()
        return sum(sent, [])

    return to_all


def committed(topic):
    def of_all():
        """-1 is none."""
        found = admin_client().list_group_offsets({topic: None})[topic]
        return [found[p].offset if (p := TopicPartition(topic, i)) in found else -1 for i in range(GROUP_PARTITIONS)]

    return of_all


def group(assignor):
    def case():
        topic = new_topic("group", GROUP_PARTITIONS)
        suite.rebalance(lambda: Member(topic, **classic(assignor)), send(topic), committed(topic))

    return case


def group_static():
    topic = new_topic("static", GROUP_PARTITIONS)

    def join(instance):
        return Member(topic, **classic(RangePartitionAssignor, session_timeout_ms=30_000, group_instance_id=instance))

    suite.static_member(join, lambda member: member.consumer.group_metadata().generation_id)


def group_admin():
    a = admin_client()
    topic = new_topic("described", GROUP_PARTITIONS)
    send(topic)("a", 10)
    member = Member(topic, **classic(RangePartitionAssignor, client_id="described-client"))
    suite.until_shared(member)
    suite.until_committed(committed(topic), 10)
    described = a.describe_groups([topic])[topic]
    expect("state", described["group_state"], "Stable")
    expect("assignor", described["protocol_data"], "range")
    expect("members' clients", [m["client_id"] for m in described["members"]], ["described-client"])
    assigned = described["members"][0]["member_assignment"]["assigned_partitions"]
    expect("the member's partitions", [(t["topic"], t["partitions"]) for t in assigned], [(topic, list(range(GROUP_PARTITIONS)))])

    def delete():
        return a.delete_groups([topic])[topic]

    expect("a group with members deleted", delete(), "NonEmptyGroupError")
    member.close()

    def listed():
        return topic in [g["group_id"] for g in a.list_groups()]

    expect("the list names it", listed(), True)
    partitions = [TopicPartition(topic, p) for p in range(GROUP_PARTITIONS)]
    a.alter_group_offsets(topic, {p: OffsetAndMetadata(4, "moved", -1) for p in partitions})
    expect("offsets as altered", committed(topic)(), [4] * GROUP_PARTITIONS)
    a.delete_group_offsets(topic, [partitions[2]])
    expect("an offset that was deleted", committed(topic)(), [4, 4, -1, 4, 4, 4])
    expect("the group deleted", delete(), "OK")
    expect("the list names it afterwards", listed(), False)
    expect("a group deleted twice", delete(), "GroupIdNotFoundError")


GROUPS = {
    "group-eager": group(RangePartitionAssignor),
    "group-cooperative": group(CooperativeStickyAssignor),
    "group-static": group_static,
    "group-admin": group_admin,
}
