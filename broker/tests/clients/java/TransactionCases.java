// Transactions: what readers of either isolation see, offsets that move with them, and fencing.

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;

final class TransactionCases {
    private static KafkaProducer<byte[], byte[]> begun(String transactionalId) {
        KafkaProducer<byte[], byte[]> producer = Clients.producer(Map.of("transactional.id", transactionalId));
        producer.initTransactions();
        return producer;
    }

    /** Commit, abort, commit, over two partitions, and one left open while others read. */
    static void commitAndAbort() throws Exception {
        List<TopicPartition> partitions = Clients.partitions(Clients.newTopic("txn", 2), 2);
        TopicPartition p0 = partitions.get(0);
        TopicPartition p1 = partitions.get(1);
        try (KafkaProducer<byte[], byte[]> producer = begun(p0.topic())) {
            for (String name : List.of("a", "b", "c")) {
                producer.beginTransaction();
                producer.send(Clients.record(p0, name + "0"));
                producer.send(Clients.record(p1, name + "1"));
                if (name.equals("b")) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
            producer.beginTransaction();
            producer.send(Clients.record(p0, "open")).get();
            Suite.expect("committed values of the first", Clients.values(p0, "read_committed"), List.of("a0", "c0"));
            Suite.expect("committed values of the second", Clients.values(p1, "read_committed"), List.of("a1", "c1"));
            Suite.expect("all values of the first", Clients.values(p0, "read_uncommitted"), List.of("a0", "b0", "c0", "open"));
            Suite.expect("all values of the second", Clients.values(p1, "read_uncommitted"), List.of("a1", "b1", "c1"));
            // Three records and three markers are before the open one.
            Suite.expect("end for read_committed", end(p0, "read_committed"), 6L);
            Suite.expect("end for read_uncommitted", end(p0, "read_uncommitted"), 7L);
            producer.commitTransaction();
        }
        Suite.until("the last one is visible", () -> end(p0, "read_committed") == 8L, () -> end(p0, "read_committed"));
        Suite.expect("committed values at last", Clients.values(p0, "read_committed"), List.of("a0", "c0", "open"));
    }

    private static long end(TopicPartition p, String isolation) {
        try (KafkaConsumer<byte[], byte[]> consumer = Clients.consumer(Map.of("isolation.level", isolation))) {
            return consumer.endOffsets(List.of(p)).get(p);
        }
    }

    static void offsets() throws Exception {
        TopicPartition p = new TopicPartition(Clients.newTopic("txn-offsets", 1), 0);
        ConsumerGroupMetadata group;
        try (KafkaConsumer<byte[], byte[]> consumer = Clients.consumer(Map.of("group.id", p.topic()))) {
            group = consumer.groupMetadata();
        }
        try (KafkaProducer<byte[], byte[]> producer = begun(p.topic()); Admin admin = Clients.admin()) {
            producer.beginTransaction();
            producer.send(Clients.record(p, "a"));
            producer.sendOffsetsToTransaction(Map.of(p, new OffsetAndMetadata(5)), group);
            producer.commitTransaction();
            Suite.until("offset 5 after a commit", () -> committed(admin, p) == 5L, () -> committed(admin, p));

            producer.beginTransaction();
            producer.send(Clients.record(p, "b"));
            producer.sendOffsetsToTransaction(Map.of(p, new OffsetAndMetadata(9)), group);
            Suite.expect("offset while the transaction is open", committed(admin, p), 5L);
            producer.abortTransaction();
            Suite.expect("stable offset after an abort", stable(p), 5L);

            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(p, new OffsetAndMetadata(11)), group);
            producer.commitTransaction();
            Suite.expect("stable offset after a commit of offsets alone", stable(p), 11L);
        }
    }

    private static long committed(Admin admin, TopicPartition p) throws Exception {
        OffsetAndMetadata found = admin.listConsumerGroupOffsets(p.topic()).partitionsToOffsetAndMetadata().get().get(p);
        return found == null ? -1 : found.offset();
    }

    /** What a consumer that waits for pending commits finds. */
    private static long stable(TopicPartition p) {
        Map<String, Object> settings = Map.of("group.id", p.topic(), "isolation.level", "read_committed");
        try (KafkaConsumer<byte[], byte[]> consumer = Clients.consumer(settings)) {
            return consumer.committed(Set.of(p)).get(p).offset();
        }
    }

    static void fencing() throws Exception {
        TopicPartition p = new TopicPartition(Clients.newTopic("fencing", 1), 0);
        KafkaProducer<byte[], byte[]> old = begun(p.topic());
        old.beginTransaction();
        old.send(Clients.record(p, "old")).get();
        try (KafkaProducer<byte[], byte[]> successor = begun(p.topic())) {
            Suite.expectThrown("a commit of the old producer", ProducerFencedException.class, () -> {
                old.commitTransaction();
                return "committed";
            });
            successor.beginTransaction();
            successor.send(Clients.record(p, "new"));
            successor.commitTransaction();
            Suite.expectThrown("the old producer's next transaction", ProducerFencedException.class, () -> {
                old.beginTransaction();
                return "begun";
            });
        }
        old.close();
        Suite.expect("committed values", Clients.values(p, "read_committed"), List.of("new"));
        Suite.expect("all values", Clients.values(p, "read_uncommitted"), List.of("old", "new"));
    }
}
