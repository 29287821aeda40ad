// Groups: who owns what through joins and leaves, that every record is handed out, committed offsets, static members, the admin client.

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;

final class GroupCases {
    private static final int PARTITIONS = 6;

    /** Two members, a third joins, the first leaves, all leave, a new one goes on where they were. Records come all the while. */
    static void rebalance(String protocol, String assignor) throws Exception {
        String topic = Clients.newTopic("group", PARTITIONS);
        String group = topic;
        Map<String, Object> settings = settings(protocol, assignor);
        List<String> sent = new ArrayList<>(send(topic, "a", 20));
        Member a = new Member(group, topic, settings);
        Member b = new Member(group, topic, settings);
        List<Member> members = new ArrayList<>(List.of(a, b));
        untilShared(members, topic);
        sent.addAll(send(topic, "b", 20));
        Member c = new Member(group, topic, settings);
        members.add(c);
        sent.addAll(send(topic, "c", 20));
        untilShared(members, topic);
        sent.addAll(send(topic, "d", 20));
        a.close();
        members.remove(a);
        sent.addAll(send(topic, "e", 20));
        untilShared(members, topic);
        List<Member> all = List.of(a, b, c);
        Suite.until("all records are handed out", () -> received(all).size() >= sent.size(), () -> received(all).size() + " of " + sent.size());
        untilCommitted(group, topic, 100);
        for (Member m : members) {
            m.close();
        }
        Suite.expect("records, each handed out once", received(all).stream().sorted().toList(), sent.stream().sorted().toList());

        List<String> later = send(topic, "f", 1);
        Member d = new Member(group, topic, settings);
        Suite.until("a new member goes on", () -> d.received.size() >= later.size(), () -> d.received);
        untilCommitted(group, topic, 101);
        d.close();
        Suite.expect("records of the new member", d.received.stream().sorted().toList(), later.stream().sorted().toList());
    }

    private static Map<String, Object> settings(String protocol, String assignor) {
        Map<String, Object> settings = new HashMap<>();
        // The older client has this setting too, with this default; the classic protocol's own are refused beside the new one.
        settings.put("group.protocol", protocol);
        if (protocol.equals("classic")) {
            settings.put("session.timeout.ms", 10_000);
            settings.put("heartbeat.interval.ms", 500);
            settings.put("partition.assignment.strategy", assignor);
        }
        return settings;
    }

    /** Sends `count` records to every partition of the topic; returns their values. */
    private static List<String> send(String topic, String name, int count) {
        List<String> values = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(Map.of())) {
            for (TopicPartition p : Clients.partitions(topic, PARTITIONS)) {
                for (int i = 0; i < count; i++) {
                    values.add(name + "-" + p.partition() + "-" + i);
                    producer.send(Clients.record(p, values.get(values.size() - 1)));
                }
            }
        }
        return values;
    }

    private static List<String> received(List<Member> members) {
        return members.stream().flatMap(m -> m.received.stream()).toList();
    }

    /** Waits until every partition is owned by exactly one member, and every member has its equal share. */
    private static void untilShared(List<Member> members, String topic) throws Exception {
        int share = PARTITIONS / members.size();
        Set<TopicPartition> all = new HashSet<>(Clients.partitions(topic, PARTITIONS));
        Suite.until(members.size() + " members share the partitions", () -> {
            Set<TopicPartition> owned = new HashSet<>();
            members.forEach(m -> owned.addAll(m.owned));
            return owned.equals(all) && members.stream().allMatch(m -> m.owned.size() == share);
        }, () -> members.stream().map(m -> m.owned + " " + m.error).toList());
    }

    private static void untilCommitted(String group, String topic, long offset) throws Exception {
        try (Admin admin = Clients.admin()) {
            Suite.until("offset " + offset + " is committed everywhere", () -> {
                Map<TopicPartition, OffsetAndMetadata> found = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
                return Clients.partitions(topic, PARTITIONS).stream().allMatch(p -> found.get(p) != null && found.get(p).offset() == offset);
            }, () -> admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
        }
    }

    /** A static member that comes back within its session finds its partitions, and nobody notices. */
    static void staticMember() throws Exception {
        String topic = Clients.newTopic("static", PARTITIONS);
        Map<String, Object> one = settings("classic", "org.apache.kafka.clients.consumer.RangeAssignor");
        one.put("session.timeout.ms", 30_000);
        Map<String, Object> two = new HashMap<>(one);
        one.put("group.instance.id", "one");
        two.put("group.instance.id", "two");
        Member first = new Member(topic, topic, one);
        Member second = new Member(topic, topic, two);
        untilShared(List.of(first, second), topic);
        Thread.sleep(1_000);
        int generation = first.generation;
        int changes = first.changes;
        Set<TopicPartition> owned = new HashSet<>(second.owned);
        second.close();
        Member again = new Member(topic, topic, two);
        Suite.until("the member that came back owns its partitions", () -> again.owned.equals(owned), () -> again.owned);
        Thread.sleep(2_000);
        Suite.expect("generation of the one that came back", again.generation, generation);
        Suite.expect("generation of the other", first.generation, generation);
        Suite.expect("rebalances of the other meanwhile", first.changes - changes, 0);
        first.close();
        again.close();
    }

    /** Describe, list, offsets by the admin client, and deletion: refused while there are members. */
    static void admin() throws Exception {
        String topic = Clients.newTopic("described", PARTITIONS);
        Map<String, Object> settings = settings("classic", "org.apache.kafka.clients.consumer.RangeAssignor");
        settings.put("client.id", "described-client");
        try (Admin admin = Clients.admin()) {
            send(topic, "a", 10);
            Member member = new Member(topic, topic, settings);
            untilShared(List.of(member), topic);
            untilCommitted(topic, topic, 10);
            ConsumerGroupDescription described = admin.describeConsumerGroups(List.of(topic)).all().get().get(topic);
            Suite.expect("assignor", described.partitionAssignor(), "range");
            Suite.expect("members", described.members().size(), 1);
            Suite.expect("the member's client", described.members().iterator().next().clientId(), "described-client");
            Suite.expect("the member's partitions", described.members().iterator().next().assignment().topicPartitions(),
                    new HashSet<>(Clients.partitions(topic, PARTITIONS)));
            Suite.expectThrown("a group with members deleted", GroupNotEmptyException.class,
                    () -> admin.deleteConsumerGroups(List.of(topic)).all().get());
            member.close();
            Suite.expect("the list names it", listed(admin, topic), true);

            Map<TopicPartition, OffsetAndMetadata> moved = new HashMap<>();
            Clients.partitions(topic, PARTITIONS).forEach(p -> moved.put(p, new OffsetAndMetadata(4, "moved")));
            admin.alterConsumerGroupOffsets(topic, moved).all().get();
            Suite.expect("offsets as altered", admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get(), moved);
            TopicPartition p = new TopicPartition(topic, 2);
            admin.deleteConsumerGroupOffsets(topic, Set.of(p)).all().get();
            Suite.expect("an offset that was deleted", admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get().get(p), null);
            admin.deleteConsumerGroups(List.of(topic)).all().get();
            Suite.expect("the list names it afterwards", listed(admin, topic), false);
            Suite.expectThrown("a group deleted twice", GroupIdNotFoundException.class,
                    () -> admin.deleteConsumerGroups(List.of(topic)).all().get());
        }
        simpleCommit();
    }

    private static boolean listed(Admin admin, String group) throws Exception {
        return admin.listConsumerGroups().all().get().stream().anyMatch(g -> g.groupId().equals(group));
    }

    /** A consumer with partitions of its own choice commits without being a member. */
    private static void simpleCommit() throws Exception {
        TopicPartition p = new TopicPartition(Clients.newTopic("simple", 1), 0);
        Map<String, Object> settings = Map.of("group.id", p.topic());
        try (KafkaConsumer<byte[], byte[]> consumer = Clients.consumer(settings)) {
            consumer.assign(List.of(p));
            Suite.expect("offset before a commit", consumer.committed(Set.of(p)).get(p), null);
            consumer.commitSync(Map.of(p, new OffsetAndMetadata(7, "note")));
        }
        try (KafkaConsumer<byte[], byte[]> consumer = Clients.consumer(settings)) {
            Suite.expect("offset found by another consumer", consumer.committed(Set.of(p)).get(p), new OffsetAndMetadata(7, "note"));
        }
    }
}
