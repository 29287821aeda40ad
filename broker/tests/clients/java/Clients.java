// Producers, consumers and admin clients as the cases use them, and the few things that every case does with them.

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

final class Clients {
    static Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", Suite.bootstrap));
    }

    /** A producer with the client's defaults and these settings. */
    static KafkaProducer<byte[], byte[]> producer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("bootstrap.servers", Suite.bootstrap);
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("bootstrap.servers", Suite.bootstrap);
        all.putIfAbsent("auto.offset.reset", "earliest");
        all.putIfAbsent("enable.auto.commit", "false");
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static final AtomicInteger TOPICS = new AtomicInteger();

    /** Makes a topic with a name of this run, and returns the name. Nothing is deleted: the records of some cases are of 2020. */
    static String newTopic(String name, int partitions) throws Exception {
        String topic = "java-" + name + "-" + Suite.RUN + "-" + TOPICS.incrementAndGet();
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(Map.of("retention.ms", "-1")))).all().get();
        }
        return topic;
    }

    static List<TopicPartition> partitions(String topic, int count) {
        List<TopicPartition> all = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            all.add(new TopicPartition(topic, i));
        }
        return all;
    }

    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    static ProducerRecord<byte[], byte[]> record(TopicPartition to, String value) {
        return new ProducerRecord<>(to.topic(), to.partition(), null, bytes(value));
    }

    /** All that a consumer of this isolation finds from the beginning to what is the end now, in order, by partition. */
    static Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> readAll(
            List<TopicPartition> partitions, Map<String, Object> settings) {
        Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> found = new HashMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
            partitions.forEach(p -> found.put(p, new ArrayList<>()));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                consumer.poll(Duration.ofMillis(200)).forEach(r ->
                        found.get(new TopicPartition(r.topic(), r.partition())).add(r));
                if (System.nanoTime() > deadline) {
                    throw new Suite.Failed("the end was not reached within a minute (expected " + ends + ")");
                }
            }
        }
        return found;
    }

    /** The values of one partition, in order. */
    static List<String> values(TopicPartition partition, String isolation) {
        return readAll(List.of(partition), Map.of("isolation.level", isolation)).get(partition).stream()
                .map(r -> text(r.value())).toList();
    }

    /** Asks for an agent to be stopped or started: `verb` is "stop" or "start". */
    static void agent(int node, String verb) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(Suite.admin + "/agents/" + node + "/" + verb))
                .POST(HttpRequest.BodyPublishers.noBody()).build();
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        Suite.expect(verb + " of agent " + node + ": status", answer.statusCode() / 100, 2);
    }
}
