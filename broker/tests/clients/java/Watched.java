// A producer behind the proxy of which is written down what its user is told, and under which epochs and sequences its
// records went out.

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

final class Watched implements AutoCloseable {
    interface Call {
        void run() throws Exception;
    }

    /** Its `client.id`, and its transactional id if it has one. */
    final String id;
    final KafkaProducer<byte[], byte[]> producer;
    private final List<String> told = new ArrayList<>();
    private final List<String> sent = new ArrayList<>();
    private long since;

    /** Requests and records have these times; all else is as the client has it. */
    Watched(String topic, boolean transactional, int requestTimeoutMs, int deliveryTimeoutMs) {
        id = topic;
        Map<String, Object> settings = new HashMap<>(Map.of("client.id", id, "linger.ms", 0,
                "request.timeout.ms", requestTimeoutMs, "delivery.timeout.ms", deliveryTimeoutMs, "max.block.ms", 20_000));
        if (transactional) {
            settings.put("transactional.id", id);
        }
        producer = Clients.producer(settings);
        if (transactional) {
            producer.initTransactions();
        }
    }

    /** Makes a call, and notes what its user is told. */
    void call(String what, Call call) {
        told.add(what + " " + outcome(() -> {
            call.run();
            return "ok";
        }));
    }

    void begin() {
        call("begin", producer::beginTransaction);
    }

    void commit() {
        call("commit", producer::commitTransaction);
    }

    void abort() {
        call("abort", producer::abortTransaction);
    }

    /** Sends a record and waits for what becomes of it. */
    void send(TopicPartition to, String value) throws Exception {
        ended(value, sending(to, value));
    }

    /** Sends a record. */
    Future<RecordMetadata> sending(TopicPartition to, String value) throws Exception {
        return sending(to, value, null);
    }

    /** Sends a record; the callback is called when its end is known. */
    Future<RecordMetadata> sending(TopicPartition to, String value, Callback callback) throws Exception {
        since = HeldFrames.now();
        return producer.send(Clients.record(to, value), callback);
    }

    /** Waits for what becomes of a record. */
    void ended(String value, Future<RecordMetadata> record) throws Exception {
        told.add(value + " " + outcome(() -> "offset " + record.get().offset()));
        sent.add(value + " " + String.join("+", HeldFrames.stamps("client=" + id, since)));
    }

    /** Waits until so many requests of this API have come since the last record was sent. */
    void untilCame(String api, int count) throws Exception {
        HeldFrames.untilCame(words(api), count, since);
    }

    /** How often the last record was sent. */
    long tries() throws Exception {
        return HeldFrames.count(words("Produce"), since);
    }

    String words(String api) {
        return api + " client=" + id;
    }

    String sent() {
        return String.join(", ", sent);
    }

    String told() {
        return String.join(", ", told);
    }

    static String outcome(Callable<String> call) {
        try {
            return call.call();
        } catch (ExecutionException e) {
            return e.getCause().getClass().getSimpleName();
        } catch (Exception e) {
            return e.getClass().getSimpleName();
        }
    }

    /** At once: what is in doubt stays so. */
    @Override
    public void close() {
        producer.close(Duration.ZERO);
    }
}
