"""The suite of librdkafka by its Python client, confluent-kafka: admin, records, groups. Transactions are in confluent_suite.py."""

import functools
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition, ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType

import suite
from suite import FIRST_MS, GROUP_PARTITIONS, expect


# One for all: futures of a client that is gone fail.
@functools.cache
def admin_client():
    return AdminClient({"bootstrap.servers": suite.BOOTSTRAP})


def done(futures):
    """The results of an admin call, by name; raises the first error."""
    return {name: future.result(30) for name, future in futures.items()}


def expect_code(what, code, call):
    """That `call` raises this code."""
    try:
        got = call()
    except KafkaException as error:
        got = error.args[0].code()
    expect(what, got, code)


def new_topic(name, partitions):
    topic = suite.new_name("confluent", name)
    # Nothing is deleted: the records of some cases are of 2020.
    done(admin_client().create_topics([NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})]))
    return topic


class Sender:
    """A producer that keeps what it was told of each record, in the order of the calls."""

    def __init__(self, **settings):
        self.producer = Producer({"bootstrap.servers": suite.BOOTSTRAP, **{k.replace("_", "."): v for k, v in settings.items()}})
        self.told = []

    def send(self, topic, partition, value, **fields):
        i = len(self.told)
        self.told.append(None)

        def on_delivery(error, message):
            self.told[i] = str(error) if error else message.offset()

        self.producer.produce(topic, value, partition=partition, on_delivery=on_delivery, **fields)
        self.producer.poll(0)

    def flush(self):
        expect("messages left after a flush", self.producer.flush(60), 0)


def consumer(**settings):
    defaults = {"bootstrap.servers": suite.BOOTSTRAP, "group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    return Consumer({**defaults, **{k.replace("_", "."): v for k, v in settings.items()}})


def read_all(topic, partitions, isolation, **settings):
    """All that a consumer of this isolation finds from the beginning to what is the end now, in order, by partition."""
    found = {p: [] for p in range(partitions)}
    c = consumer(isolation_level=isolation, enable_partition_eof=True, **settings)
    c.assign([TopicPartition(topic, p, 0) for p in found])
    left, deadline = set(found), time.monotonic() + 60
    while left:
        if time.monotonic() > deadline:
            raise suite.Failed(f"the ends of {left} were not reached within a minute")
        message = c.poll(0.2)
        if message is None:
            continue
        if message.error() is None:
            found[message.partition()].append(message)
        elif message.error().code() == KafkaError._PARTITION_EOF:
            left.discard(message.partition())
        else:
            raise KafkaException(message.error())
    c.close()
    return found


def values(topic, isolation, partitions=1):
    """By partition, in order."""
    found = read_all(topic, partitions, isolation)
    return [[m.value() and m.value().decode() for m in found[p]] for p in range(partitions)]


def end(topic, isolation):
    c = consumer(isolation_level=isolation)
    _, high = c.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    c.close()
    return high


def leader(topic):
    return admin_client().list_topics(topic, timeout=30).topics[topic].partitions[0].leader


def admin():
    a = admin_client()
    topic = suite.new_name("confluent", "admin")
    wanted = [NewTopic(topic, 3, 1, config={"retention.ms": "3600000"})]
    done(a.create_topics(wanted))
    expect_code("a topic made twice", KafkaError.TOPIC_ALREADY_EXISTS, lambda: done(a.create_topics(wanted)))
    expect_code("a topic with a space in its name", KafkaError.TOPIC_EXCEPTION, lambda: done(a.create_topics([NewTopic("a b", 1, 1)])))

    described = a.list_topics(topic, timeout=30)
    expect("partitions", sorted(described.topics[topic].partitions), [0, 1, 2])
    for p in described.topics[topic].partitions.values():
        expect("the leader is a node of the cluster", p.leader in described.brokers, True)
    expect("the list names it", topic in a.list_topics(timeout=30).topics, True)

    resource = ConfigResource(ResourceType.TOPIC, topic)
    config = done(a.describe_configs([resource]))[resource]
    expect("retention.ms", config["retention.ms"].value, "3600000")
    expect("retention.bytes", config["retention.bytes"].value, "-1")

    done(a.create_partitions([NewPartitions(topic, 5)]))

    def partitions():
        return len(a.list_topics(topic, timeout=30).topics[topic].partitions)

    # A controller answers before its brokers know.
    suite.until("there are five partitions", lambda: partitions() == 5, partitions)
    expect_code("fewer partitions", KafkaError.INVALID_PARTITIONS, lambda: done(a.create_partitions([NewPartitions(topic, 2)])))

    done(a.delete_topics([topic]))
    suite.until("the topic is gone from the list", lambda: topic not in admin_client().list_topics(timeout=30).topics, lambda: topic)
    gone = admin_client().list_topics(topic, timeout=30).topics[topic]
    expect("a description of a deleted topic", gone.error.code(), KafkaError.UNKNOWN_TOPIC_OR_PART)
    expect_code("a topic deleted twice", KafkaError.UNKNOWN_TOPIC_OR_PART, lambda: done(a.delete_topics([topic])))


def numbered(partition, i):
    """Every tenth has no value; a header's key comes twice, and one header has no value."""
    return {
        "key": f"k{i}".encode(),
        "value": None if i % 10 == 0 else f"{partition}-{i}".encode(),
        "timestamp": FIRST_MS + i * 1000,
        "headers": [("h", f"one {i}".encode()), ("h", b"two"), ("none", None)],
    }


def produce_consume():
    topic = new_topic("records", 3)
    for p in range(3):
        sender = Sender()
        for i in range(100):
            sender.send(topic, p, **numbered(p, i))
        sender.flush()
        expect("offsets told", sender.told, list(range(100)))
    for p, messages in read_all(topic, 3, "read_uncommitted").items():
        expect("offsets", [m.offset() for m in messages], list(range(100)))
        for i, m in enumerate(messages):
            # 1 is CreateTime.
            got = {"key": m.key(), "value": m.value(), "timestamp": m.timestamp(), "headers": m.headers()}
            wanted = numbered(p, i)
            expect(f"partition {p} record {i}", got, {**wanted, "timestamp": (1, wanted["timestamp"])})
    larger_than_a_fetch()


def larger_than_a_fetch():
    """Batches of about 500 kB, read by a consumer that asks for 50 kB at a time: it gets a whole one all the same."""
    topic = new_topic("large", 1)
    sender = Sender(batch_size=500_000, linger_ms=200)
    for i in range(40):
        sender.send(topic, 0, suite.large(i))
    sender.flush()
    # The least that the client takes for all partitions together is the largest message's size.
    found = read_all(topic, 1, "read_uncommitted", fetch_message_max_bytes=50_000, fetch_max_bytes=1_000_000, max_poll_interval_ms=300_000)[0]
    expect("large values are what was sent", [m.value().decode() for m in found] == [suite.large(i) for i in range(40)], True)


def idempotent():
    topic = new_topic("idempotent", 1)
    sender = Sender(enable_idempotence=True, acks="all", batch_size=1_000)
    sent = suite.numbered("value", 1_000)
    for value in sent:
        sender.send(topic, 0, value)
    sender.flush()
    expect("offsets told", sender.told, list(range(1_000)))
    expect("values", values(topic, "read_uncommitted"), [sent])


def codec(name):
    def case():
        topic = new_topic(name, 1)
        sender = Sender(compression_type=name, linger_ms=20)
        for value in suite.repetitive():
            sender.send(topic, 0, value)
        sender.flush()
        expect("values", values(topic, "read_uncommitted"), [suite.repetitive()])

    return case


def offsets():
    topic = new_topic("offsets", 1)
    sender = Sender()
    for i in range(50):
        sender.send(topic, 0, **numbered(0, i))
        # Batches of ten: a look-up by time must find the right batch, and the record in it.
        if i % 10 == 9:
            sender.flush()
    c = consumer()
    expect("beginning and end", c.get_watermark_offsets(TopicPartition(topic, 0), timeout=30), (0, 50))

    def at(time_ms):
        return c.offsets_for_times([TopicPartition(topic, 0, time_ms)], timeout=30)[0].offset

    expect("offset for a time between two records", at(FIRST_MS + 22_500), 23)
    expect("offset for a record's own time", at(FIRST_MS + 7_000), 7)
    # -1 is the end.
    expect("offset for a time after all", at(FIRST_MS + 60_000), -1)
    c.assign([TopicPartition(topic, 0, 23)])
    expect("record after an assignment", c.poll(10).offset(), 23)
    for offset in (0, 49):
        c.seek(TopicPartition(topic, 0, offset))
        expect("record after a seek", c.poll(10).offset(), offset)
    c.close()
    listed = done(admin_client().list_offsets({TopicPartition(topic, 0): OffsetSpec.max_timestamp()}))
    expect("offset of the largest timestamp", [r.offset for r in listed.values()], [49])


def agent_stopped():
    """A thousand records at a steady pace, while the agent that leads the partition stops, and comes back."""
    sent = suite.numbered("value", 1_000)
    sender = Sender(enable_idempotence=True, socket_timeout_ms=5_000)
    topic = new_topic("stopped", 1)
    suite.at_a_steady_pace(1_000, lambda: leader(topic), lambda i: sender.send(topic, 0, sent[i]))
    sender.flush()
    expect("offsets told", sender.told, list(range(1_000)))
    expect("values", values(topic, "read_uncommitted"), [sent])


class Member(suite.Member):
    def __init__(self, topic, settings):
        super().__init__()
        self.consumer = consumer(group_id=topic, **settings)
        cooperative = settings.get("partition_assignment_strategy") == "cooperative-sticky" or settings.get("group_protocol") == "consumer"

        def assigned(c, partitions):
            (c.incremental_assign if cooperative else c.assign)(partitions)
            self.given(p.partition for p in partitions)

        def revoked(c, partitions):
            if cooperative:
                c.incremental_unassign(partitions)
            else:
                c.unassign()
            self.taken(p.partition for p in partitions)

        self.consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked)
        self.start()

    def poll(self):
        message = self.consumer.poll(0.1)
        if message is None:
            return
        if message.error() is not None:
            raise KafkaException(message.error())
        self.values.append(message.value().decode())
        self.commit(message)

    def commit(self, message):
        for _ in range(100):
            try:
                return self.consumer.commit(message, asynchronous=False)
            except KafkaException as error:
                # A commit may meet a rebalance, whose callbacks run in the next poll only, or its end, of which the client has not heard.
                met = (KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.STALE_MEMBER_EPOCH)
                if error.args[0].code() not in met:
                    raise
                time.sleep(0.1)

    def leave(self):
        self.consumer.close()


CLASSIC = {"group_protocol": "classic", "session_timeout_ms": 10_000, "heartbeat_interval_ms": 500}


def send(topic):
    """Puts `count` records into every partition; returns their values."""

    def to_all(name, count):
        sender = Sender()
        sent = [(p, f"{name}-{p}-{i}") for p in range(GROUP_PARTITIONS) for i in range(count)]
        for p, value in sent:
            sender.send(topic, p, value)
        sender.flush()
        return [value for _, value in sent]

    return to_all


def committed(topic):
    def of_all():
        found = done(admin_client().list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)]))[topic]
        # -1001 is none.
        offsets = {p.partition: p.offset for p in found.topic_partitions}
        return [offsets.get(p, -1001) for p in range(GROUP_PARTITIONS)]

    return of_all


def group(**settings):
    def case():
        topic = new_topic("group", GROUP_PARTITIONS)
        suite.rebalance(lambda: Member(topic, settings), send(topic), committed(topic))

    return case


def group_static():
    topic = new_topic("static", GROUP_PARTITIONS)
    settings = {**CLASSIC, "session_timeout_ms": 30_000, "partition_assignment_strategy": "range"}
    # The client does not tell its generation.
    suite.static_member(lambda instance: Member(topic, {**settings, "group_instance_id": instance}), lambda member: None)


def group_admin():
    a = admin_client()
    topic = new_topic("described", GROUP_PARTITIONS)
    send(topic)("a", 10)
    member = Member(topic, {**CLASSIC, "partition_assignment_strategy": "range", "client_id": "described-client"})
    suite.until_shared(member)
    suite.until_committed(committed(topic), 10)
    described = done(a.describe_consumer_groups([topic]))[topic]
    expect("state", described.state.name, "STABLE")
    expect("assignor", described.partition_assignor, "range")
    expect("members' clients", [m.client_id for m in described.members], ["described-client"])
    assigned = described.members[0].assignment.topic_partitions
    expect("the member's partitions", sorted(p.partition for p in assigned), list(range(GROUP_PARTITIONS)))
    expect_code("a group with members deleted", KafkaError.NON_EMPTY_GROUP, lambda: done(a.delete_consumer_groups([topic])))
    member.close()

    def listed():
        return topic in [g.group_id for g in a.list_consumer_groups().result(30).valid]

    expect("the list names it", listed(), True)
    moved = [TopicPartition(topic, p, 4) for p in range(GROUP_PARTITIONS)]
    done(a.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(topic, moved)]))
    expect("offsets as altered", committed(topic)(), [4] * GROUP_PARTITIONS)
    done(a.delete_consumer_groups([topic]))
    expect("the list names it afterwards", listed(), False)
    expect_code("a group deleted twice", KafkaError.GROUP_ID_NOT_FOUND, lambda: done(a.delete_consumer_groups([topic])))
