// A load by two hundred clients, the same for every broker: .ci/bench-clients runs it against two of them in turn.
//   java -cp … Bench --bootstrap HOST:PORT [--seconds N] [--records-per-second N] [--retention-bytes N] [--fast-producers N]
// Method: a hundred producers and a hundred consumers are connected all the time, a partition a pair. First, four of the producers send
// as fast as they may (records of 1,000 bytes, acks=all, batches to 64 KiB, linger 5 ms); then all send at an even pace, and
// each consumer says how long after `send` it had the record. Ends with one line: rates, and percentiles in ms.
// Limits: clients and broker share the machine, and one process has all clients.

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

final class Bench {
    private static final int PAIRS = 100;
    private static final int RECORD_BYTES = 1_000;

    private static int seconds = 20;
    private static int fastProducers = 4;
    private static int recordsPerSecond = 2_000;
    private static String retentionBytes = "20000000";
    private static String topic;
    private static final AtomicLong FAILURES = new AtomicLong();

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < arguments.length; i += 2) {
            switch (arguments[i]) {
                case "--bootstrap" -> Suite.bootstrap = arguments[i + 1];
                case "--seconds" -> seconds = Integer.parseInt(arguments[i + 1]);
                case "--records-per-second" -> recordsPerSecond = Integer.parseInt(arguments[i + 1]);
                case "--fast-producers" -> fastProducers = Integer.parseInt(arguments[i + 1]);
                case "--retention-bytes" -> retentionBytes = arguments[i + 1];
                default -> throw new IllegalArgumentException(arguments[i]);
            }
        }
        topic = "bench-" + Suite.RUN;
        NewTopic wanted = new NewTopic(topic, PAIRS, (short) 1).configs(Map.of("retention.bytes", retentionBytes));
        try (Admin admin = Clients.admin()) {
            admin.createTopics(List.of(wanted)).all().get();
        }
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        List<KafkaConsumer<byte[], byte[]>> consumers = new ArrayList<>();
        for (int i = 0; i < PAIRS; i++) {
            producers.add(Clients.producer(Map.of("acks", "all", "linger.ms", 5, "batch.size", 65_536, "buffer.memory", 8 << 20)));
            KafkaConsumer<byte[], byte[]> consumer = Clients.consumer(Map.of("fetch.max.wait.ms", 500));
            consumer.assign(List.of(new TopicPartition(topic, i)));
            consumers.add(consumer);
        }
        ExecutorService threads = Executors.newFixedThreadPool(2 * PAIRS);
        String fast = asFastAsTheyMay(threads, producers);
        String paced = atAnEvenPace(threads, producers, consumers);
        System.out.printf("%s | %s | failures %d%n", fast, paced, FAILURES.get());
        System.exit(FAILURES.get() == 0 ? 0 : 1);
    }

    /** Rates of acknowledged records. */
    private static String asFastAsTheyMay(ExecutorService threads, List<KafkaProducer<byte[], byte[]>> producers) throws Exception {
        long begin = System.nanoTime();
        long end = begin + Duration.ofSeconds(seconds).toNanos();
        List<Future<Long>> counts = new ArrayList<>();
        for (int i = 0; i < fastProducers; i++) {
            int partition = i;
            counts.add(threads.submit(() -> {
                long sent = 0;
                for (; System.nanoTime() < end; sent++) {
                    send(producers.get(partition), partition, 0);
                }
                producers.get(partition).flush();
                return sent;
            }));
        }
        double rate = sum(counts) / ((System.nanoTime() - begin) / 1e9);
        return String.format("%.0f records/s, %.1f MB/s", rate, rate * RECORD_BYTES / 1e6);
    }

    /** Delivery, and its percentiles. A record of this part carries when it was sent; those before carry zero. */
    private static String atAnEvenPace(ExecutorService threads, List<KafkaProducer<byte[], byte[]>> producers,
            List<KafkaConsumer<byte[], byte[]>> consumers) throws Exception {
        long each = (long) recordsPerSecond * seconds / PAIRS;
        List<Future<long[]>> latencies = new ArrayList<>();
        consumers.forEach(consumer -> {
            consumer.seekToEnd(consumer.assignment());
            consumer.assignment().forEach(consumer::position);
            latencies.add(threads.submit(consumption(consumer, each)));
        });
        List<Future<Long>> counts = new ArrayList<>();
        long begin = System.nanoTime();
        for (int i = 0; i < PAIRS; i++) {
            int partition = i;
            counts.add(threads.submit(() -> {
                for (long n = 0; n < each; n++) {
                    // Pairs begin at different moments of the period, so that the load has no beat.
                    long due = begin + (n * PAIRS + partition) * 1_000_000_000L / recordsPerSecond;
                    Thread.sleep(Duration.ofNanos(Math.max(0, due - System.nanoTime())).toMillis());
                    send(producers.get(partition), partition, System.nanoTime());
                }
                return each;
            }));
        }
        long sent = sum(counts);
        List<Long> all = new ArrayList<>();
        for (Future<long[]> some : latencies) {
            Arrays.stream(some.get()).forEach(all::add);
        }
        all.sort(null);
        return String.format("%d of %d delivered at %d/s, ms: p50 %.1f, p90 %.1f, p99 %.1f, p99.9 %.1f, max %.1f", all.size(), sent,
                recordsPerSecond, at(all, 0.5), at(all, 0.9), at(all, 0.99), at(all, 0.999), at(all, 1));
    }

    private static Callable<long[]> consumption(KafkaConsumer<byte[], byte[]> consumer, long wanted) {
        return () -> {
            long[] latencies = new long[(int) wanted];
            int found = 0;
            long limit = System.nanoTime() + Duration.ofSeconds(seconds + 60L).toNanos();
            while (found < wanted && System.nanoTime() < limit) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    long sentAt = ByteBuffer.wrap(record.value()).getLong();
                    if (sentAt != 0) {
                        latencies[found++] = System.nanoTime() - sentAt;
                    }
                }
            }
            return Arrays.copyOf(latencies, found);
        };
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, int partition, long at) {
        byte[] value = new byte[RECORD_BYTES];
        ByteBuffer.wrap(value).putLong(at);
        producer.send(new ProducerRecord<>(topic, partition, null, value), (told, error) -> {
            if (error != null && FAILURES.getAndIncrement() == 0) {
                System.err.println("the first failure: " + error);
            }
        });
    }

    private static long sum(List<Future<Long>> counts) throws Exception {
        long sum = 0;
        for (Future<Long> count : counts) {
            sum += count.get();
        }
        return sum;
    }

    private static double at(List<Long> sorted, double share) {
        return sorted.isEmpty() ? Double.NaN : sorted.get((int) Math.min(sorted.size() - 1, sorted.size() * share)) / 1e6;
    }
}
