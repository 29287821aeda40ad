// What a user is told whose first EndTxn is held on its way, and let go in the middle of the next transaction. Not a check: the
// script .ci/vulnerability holds, releases, and looks what became of the transactions. It is asked for each by a line on
// standard output, and answers with one on standard input.

import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

final class HeldEndTxn {
    static void run() throws Exception {
        String topic = Clients.newTopic("held", 2);
        TopicPartition p0 = new TopicPartition(topic, 0);
        TopicPartition p1 = new TopicPartition(topic, 1);
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(Map.of("transactional.id", topic,
                "request.timeout.ms", 3_000, "delivery.timeout.ms", 10_000, "max.block.ms", 20_000))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(Clients.record(p0, "a")).get();
            ask("hold " + topic);
            told("commit of a", () -> {
                producer.commitTransaction();
                return "ok";
            });
            told("begin", () -> {
                producer.beginTransaction();
                return "ok";
            });
            told("send of b", () -> "offset " + producer.send(Clients.record(p0, "b")).get().offset());
            ask("release");
            told("send of c", () -> "offset " + producer.send(Clients.record(p1, "c")).get().offset());
            told("abort of b and c", () -> {
                producer.abortTransaction();
                return "ok";
            });
        }
    }

    private static void ask(String what) throws Exception {
        System.out.println(what);
        System.out.flush();
        while (System.in.read() != '\n') {
            // The answer is any line.
        }
    }

    private static void told(String call, Callable<String> body) {
        String what;
        try {
            what = body.call();
        } catch (ExecutionException e) {
            what = e.getCause().getClass().getSimpleName() + ": " + e.getCause().getMessage();
        } catch (Exception e) {
            what = e.getClass().getSimpleName() + ": " + e.getMessage();
        }
        System.out.println("told " + call + ": " + what.replace('\n', ' '));
    }
}
