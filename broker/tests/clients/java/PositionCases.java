// Positions and offsets, as a user of transactions meets them: after an abort, at a rebalance inside a transaction, inside a
// transaction's own scope, and what a producer is told while answers fail (findings 8, 16, 18; KAFKA-17671).

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

final class PositionCases {
    private static final Duration SOON = Duration.ofMillis(100);
    private static final int RECORDS = 4;

    private static KafkaProducer<byte[], byte[]> begun(String id) {
        KafkaProducer<byte[], byte[]> producer = Clients.producer(Map.of("transactional.id", id));
        producer.initTransactions();
        producer.beginTransaction();
        return producer;
    }

    private static List<TopicPartition> filled(String name, int partitions) throws Exception {
        List<TopicPartition> all = Clients.partitions(Clients.newTopic(name, partitions), partitions);
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(Map.of())) {
            for (TopicPartition p : all) {
                for (int i = 0; i < RECORDS; i++) {
                    producer.send(Clients.record(p, Integer.toString(i))).get();
                }
            }
        }
        return all;
    }

    /** Values of the next poll that has any. */
    private static String next(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        List<String> values = new ArrayList<>();
        Suite.until("a poll hands records out", () -> {
            consumer.poll(SOON).forEach(r -> values.add(Clients.text(r.value())));
            return !values.isEmpty();
        }, () -> values);
        return String.join(" ", values);
    }

    static void abort() throws Exception {
        TopicPartition p = filled("position", 1).get(0);
        try (KafkaConsumer<byte[], byte[]> consumer = Clients.consumer(Map.of("group.id", p.topic(), "max.poll.records", 2));
                KafkaProducer<byte[], byte[]> producer = begun(p.topic())) {
            consumer.assign(List.of(p));
            String first = next(consumer);
            producer.sendOffsetsToTransaction(Map.of(p, new OffsetAndMetadata(consumer.position(p))), consumer.groupMetadata());
            producer.abortTransaction();
            long position = consumer.position(p);
            String second = next(consumer);
            OffsetAndMetadata committed = consumer.committed(Set.of(p)).get(p);
            consumer.seek(p, committed == null ? 0 : committed.offset());
            Questions.row("position after an abort", "polled " + first + ", sent offset 2, aborted",
                    "position " + position + ", committed " + (committed == null ? "nothing" : committed.offset()),
                    "next poll: " + second + "; after a seek to what is committed: " + next(consumer));
        }
    }

    private static Map<String, Object> member(String group, String how) {
        Map<String, Object> settings = new HashMap<>(Map.of("group.id", group, "isolation.level", "read_committed"));
        if (how.equals("consumer")) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer."
                    + (how.equals("eager") ? "RangeAssignor" : "CooperativeStickyAssignor"));
            settings.put("heartbeat.interval.ms", 200);
        }
        return settings;
    }

    /** How many records of each partition a member has been handed. */
    private static final class Handed {
        final KafkaConsumer<byte[], byte[]> consumer;
        final Map<TopicPartition, Integer> counts = new HashMap<>();

        Handed(String topic, String how) {
            consumer = Clients.consumer(member(topic, how));
            consumer.subscribe(List.of(topic));
        }

        boolean owns(int count) {
            return consumer.assignment().size() == count;
        }

        void poll() {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(SOON)) {
                counts.merge(new TopicPartition(record.topic(), record.partition()), 1, Integer::sum);
            }
        }

        /** How often it has been handed the partition's records. */
        String times(TopicPartition p) {
            int count = counts.getOrDefault(p, 0);
            return count % RECORDS == 0 ? count / RECORDS + "x" : count + " of " + RECORDS + " records";
        }
    }

    /** A member polls all of two partitions in a transaction; another joins; the first tries to commit; the other leaves. */
    static void rebalance(String how) throws Exception {
        List<TopicPartition> partitions = filled("rebalance-" + how, 2);
        String topic = partitions.get(0).topic();
        Handed a = new Handed(topic, how);
        try (KafkaProducer<byte[], byte[]> producer = begun(topic)) {
            Suite.until("the first has all", () -> {
                a.poll();
                return a.counts.values().stream().mapToInt(i -> i).sum() == 2 * RECORDS;
            }, () -> a.counts);
            ConsumerGroupMetadata before = a.consumer.groupMetadata();
            Handed b = new Handed(topic, how);
            Suite.until("both own one, and the second has polled it", () -> {
                a.poll();
                b.poll();
                return a.owns(1) && b.owns(1) && b.counts.size() == 1;
            }, () -> a.consumer.assignment() + " " + b.consumer.assignment());
            TopicPartition kept = a.consumer.assignment().iterator().next();
            TopicPartition moved = b.consumer.assignment().iterator().next();
            settle(a, b);
            String shared = "kept: handed out " + a.times(kept) + "; moved: to the other " + b.times(moved);
            Map<TopicPartition, OffsetAndMetadata> all = new HashMap<>();
            partitions.forEach(p -> all.put(p, new OffsetAndMetadata(RECORDS)));
            String told = Watched.outcome(() -> {
                producer.sendOffsetsToTransaction(all, before);
                producer.commitTransaction();
                return "ok";
            });
            String aborted = Watched.outcome(() -> {
                producer.abortTransaction();
                return "ok";
            });
            b.consumer.close(Duration.ofSeconds(5));
            Suite.until("the first owns both again", () -> {
                a.poll();
                return a.owns(2);
            }, () -> a.consumer.assignment());
            settle(a);
            Questions.row("18 rebalance in a transaction, " + how, shared,
                    "commit with the group's metadata from before: " + told + (told.equals("ok") ? "" : ", abort " + aborted),
                    "the other has left: kept handed out " + a.times(kept) + " in all, moved " + a.times(moved));
        } finally {
            a.consumer.close(Duration.ofSeconds(5));
        }
    }

    /** Polls for a second: whatever is to be handed out again, is. */
    private static void settle(Handed... members) {
        long end = System.nanoTime() + Duration.ofSeconds(1).toNanos();
        while (System.nanoTime() < end) {
            for (Handed member : members) {
                member.poll();
            }
        }
    }

    static void isolation() throws Exception {
        List<TopicPartition> partitions = Clients.partitions(Clients.newTopic("isolation", 2), 2);
        TopicPartition p = partitions.get(0);
        try (KafkaProducer<byte[], byte[]> producer = begun(p.topic())) {
            producer.send(Clients.record(p, "a")).get();
            producer.send(Clients.record(p, "a2")).get();
            String open = readers(p);
            producer.abortTransaction();
            Thread.sleep(300);
            Questions.row("own and intermediate writes", "sent a, then a2 in its place", "while open: " + open, "aborted: " + readers(p));
            producer.beginTransaction();
            for (TopicPartition each : partitions) {
                producer.send(Clients.record(each, "c" + each.partition())).get();
            }
            producer.commitTransaction();
        }
        Thread.sleep(300);
        Map<String, Object> settings = Map.of("max.poll.records", 1, "isolation.level", "read_committed");
        try (KafkaConsumer<byte[], byte[]> consumer = Clients.consumer(settings)) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            int first = next(consumer).split(" ").length;
            Questions.row("fractured reads", "committed c0 and c1, in two partitions, in one transaction", "max.poll.records 1",
                    "the first poll has " + first + " of 2, the next " + next(consumer).split(" ").length);
        }
    }

    private static String readers(TopicPartition p) {
        return "read_committed sees " + Clients.values(p, "read_committed") + ", read_uncommitted " + Clients.values(p, "read_uncommitted");
    }

    /** Three records, one a request, all on their way at once; the answer to the first says that it was not written. */
    static void offsets(boolean idempotent) throws Exception {
        TopicPartition p = new TopicPartition(Clients.newTopic("offsets-told", 1), 0);
        Map<String, Object> settings = Map.of("client.id", p.topic(), "linger.ms", 0,
                "enable.idempotence", idempotent, "max.in.flight.requests.per.connection", 5);
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(settings)) {
            producer.partitionsFor(p.topic());
            // NOT_ENOUGH_REPLICAS. It waits until all are sent: the client sends nothing past a record that is to be retried.
            String answer = "Produce.reply client=" + p.topic();
            HeldFrames.rewrite(answer, 1, 19, null);
            int held = HeldFrames.hold(answer, 1);
            long since = HeldFrames.now();
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (String value : List.of("a", "b", "c")) {
                sent.add(producer.send(Clients.record(p, value)));
                HeldFrames.untilCame("Produce client=" + p.topic(), sent.size(), since);
            }
            HeldFrames.release(held);
            List<String> told = new ArrayList<>();
            for (Future<RecordMetadata> one : sent) {
                told.add(Long.toString(one.get().offset()));
            }
            Questions.row("offsets told to a producer, " + (idempotent ? "idempotent" : "not idempotent"),
                    "sent a, b, c; the first answer is made NOT_ENOUGH_REPLICAS", "offsets " + String.join(", ", told),
                    "all: " + String.join(" ", Clients.values(p, "read_uncommitted")));
        }
    }
}
