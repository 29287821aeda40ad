// Records in and out: fields, order, sizes, sequences, codecs, offsets, and an agent that stops meanwhile.

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

final class RecordCases {
    /** The timestamp of the first record, ms; record i is i seconds later. */
    private static final long FIRST_MS = 1_600_000_000_000L;

    static void produceConsume() throws Exception {
        List<TopicPartition> partitions = Clients.partitions(Clients.newTopic("records", 3), 3);
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(Map.of("linger.ms", 5))) {
            for (TopicPartition p : partitions) {
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (int i = 0; i < 100; i++) {
                    sent.add(producer.send(numbered(p, i)));
                }
                for (int i = 0; i < 100; i++) {
                    Suite.expect("offset told for record " + i, sent.get(i).get().offset(), (long) i);
                    Suite.expect("timestamp told for record " + i, sent.get(i).get().timestamp(), FIRST_MS + i * 1000L);
                }
            }
        }
        Clients.readAll(partitions, Map.of()).forEach((p, records) -> {
            Suite.expect("records in " + p, records.size(), 100);
            for (int i = 0; i < 100; i++) {
                check(p, i, records.get(i));
            }
        });
        largerThanAFetch();
    }

    /** Every tenth has no value; a header's key comes twice, and one header has no value. */
    private static ProducerRecord<byte[], byte[]> numbered(TopicPartition p, int i) {
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(p.topic(), p.partition(), FIRST_MS + i * 1000L,
                Clients.bytes("k" + i), Clients.bytes(i % 10 == 0 ? null : p.partition() + "-" + i));
        record.headers().add("h", Clients.bytes("one " + i)).add("h", Clients.bytes("two")).add("none", null);
        return record;
    }

    private static void check(TopicPartition p, int i, ConsumerRecord<byte[], byte[]> got) {
        String where = p + " record " + i + ": ";
        Suite.expect(where + "offset", got.offset(), (long) i);
        Suite.expect(where + "timestamp", got.timestamp(), FIRST_MS + i * 1000L);
        Suite.expect(where + "timestamp type", got.timestampType().name, "CreateTime");
        Suite.expect(where + "key", Clients.text(got.key()), "k" + i);
        Suite.expect(where + "value", Clients.text(got.value()), i % 10 == 0 ? null : p.partition() + "-" + i);
        List<String> headers = new ArrayList<>();
        for (Header h : got.headers()) {
            headers.add(h.key() + "=" + Clients.text(h.value()));
        }
        Suite.expect(where + "headers", headers, List.of("h=one " + i, "h=two", "none=null"));
    }

    /** Batches of about 500 kB, read by a consumer that asks for 50 kB at a time: it gets a whole one all the same. */
    private static void largerThanAFetch() throws Exception {
        TopicPartition p = new TopicPartition(Clients.newTopic("large", 1), 0);
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(Map.of("batch.size", 500_000, "linger.ms", 200))) {
            for (int i = 0; i < 40; i++) {
                producer.send(Clients.record(p, large(i)));
            }
        }
        List<ConsumerRecord<byte[], byte[]>> records = Clients.readAll(List.of(p),
                Map.of("max.partition.fetch.bytes", 50_000, "fetch.max.bytes", 50_000)).get(p);
        Suite.expect("large records", records.size(), 40);
        for (int i = 0; i < 40; i++) {
            Suite.expect("large record " + i + " is what was sent", Clients.text(records.get(i).value()).equals(large(i)), true);
        }
    }

    private static String large(int i) {
        return ("large " + i + " ").repeat(6_000).substring(0, 40_000);
    }

    static void idempotent() throws Exception {
        TopicPartition p = new TopicPartition(Clients.newTopic("idempotent", 1), 0);
        Map<String, Object> settings = Map.of("acks", "all", "enable.idempotence", true, "batch.size", 500);
        List<String> sent = IntStream.range(0, 1_000).mapToObj(i -> "value " + i).toList();
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(settings)) {
            List<Future<RecordMetadata>> told = new ArrayList<>();
            sent.forEach(value -> told.add(producer.send(Clients.record(p, value))));
            for (int i = 0; i < told.size(); i++) {
                Suite.expect("offset told for record " + i, told.get(i).get().offset(), (long) i);
            }
        }
        Suite.expect("values", Clients.values(p, "read_uncommitted"), sent);
    }

    static void codec(String codec) throws Exception {
        TopicPartition p = new TopicPartition(Clients.newTopic(codec, 1), 0);
        List<String> sent = IntStream.range(0, 500).mapToObj(i -> "value " + i + " " + "again ".repeat(i % 50)).toList();
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(Map.of("compression.type", codec, "linger.ms", 20))) {
            sent.forEach(value -> producer.send(Clients.record(p, value)));
        }
        Suite.expect("values", Clients.values(p, "read_uncommitted"), sent);
    }

    static void offsets() throws Exception {
        TopicPartition p = new TopicPartition(Clients.newTopic("offsets", 1), 0);
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(Map.of())) {
            // Each a batch of its own: a look-up by time must find the right batch, and the record in it.
            for (int batch = 0; batch < 5; batch++) {
                for (int i = 0; i < 10; i++) {
                    producer.send(numbered(p, batch * 10 + i));
                }
                producer.flush();
            }
        }
        try (KafkaConsumer<byte[], byte[]> consumer = Clients.consumer(Map.of("max.poll.records", 1))) {
            Suite.expect("beginning", consumer.beginningOffsets(List.of(p)).get(p), 0L);
            Suite.expect("end", consumer.endOffsets(List.of(p)).get(p), 50L);
            Suite.expect("offset for a time between two records",
                    consumer.offsetsForTimes(Map.of(p, FIRST_MS + 22_500)).get(p).offset(), 23L);
            Suite.expect("timestamp found for that time",
                    consumer.offsetsForTimes(Map.of(p, FIRST_MS + 22_500)).get(p).timestamp(), FIRST_MS + 23_000);
            Suite.expect("offset for a record's own time", consumer.offsetsForTimes(Map.of(p, FIRST_MS + 7_000)).get(p).offset(), 7L);
            Suite.expect("offset for a time after all", consumer.offsetsForTimes(Map.of(p, FIRST_MS + 60_000)).get(p), null);
            consumer.assign(List.of(p));
            for (long offset : new long[] {23, 0, 49}) {
                consumer.seek(p, offset);
                Suite.expect("record after a seek", firstOffset(consumer), offset);
            }
            consumer.seekToBeginning(List.of(p));
            Suite.expect("record after a seek to the beginning", firstOffset(consumer), 0L);
            consumer.seekToEnd(List.of(p));
            Suite.expect("position after a seek to the end", consumer.position(p), 50L);
        }
        try (Admin admin = Clients.admin()) {
            Suite.expect("offset of the largest timestamp",
                    admin.listOffsets(Map.of(p, OffsetSpec.maxTimestamp())).partitionResult(p).get().offset(), 49L);
        }
    }

    private static long firstOffset(KafkaConsumer<byte[], byte[]> consumer) {
        for (int i = 0; i < 50; i++) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                return record.offset();
            }
        }
        return -1;
    }

    /** A thousand records at a steady pace, while the agent that leads the partition stops, and comes back. */
    static void agentStopped() throws Exception {
        if (Suite.admin == null) {
            throw new Suite.Skipped("no address to stop an agent by");
        }
        TopicPartition p = new TopicPartition(Clients.newTopic("stopped", 1), 0);
        int leader;
        try (Admin admin = Clients.admin()) {
            leader = admin.describeTopics(List.of(p.topic())).allTopicNames().get().get(p.topic()).partitions().get(0).leader().id();
        }
        Map<String, Object> settings = new HashMap<>(Map.of("acks", "all", "enable.idempotence", true));
        settings.putAll(Map.of("request.timeout.ms", 5_000, "delivery.timeout.ms", 60_000));
        List<String> sent = IntStream.range(0, 1_000).mapToObj(i -> "value " + i).toList();
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(settings)) {
            List<Future<RecordMetadata>> told = new ArrayList<>();
            for (int i = 0; i < sent.size(); i++) {
                told.add(producer.send(Clients.record(p, sent.get(i))));
                if (i == 300) {
                    Clients.agent(leader, "stop");
                }
                if (i == 700) {
                    Clients.agent(leader, "start");
                }
                Thread.sleep(5);
            }
            for (int i = 0; i < told.size(); i++) {
                Suite.expect("offset told for record " + i, told.get(i).get().offset(), (long) i);
            }
        }
        Suite.expect("values", Clients.values(p, "read_uncommitted"), sent);
    }
}
