// Producers that do not know what became of a Produce: which epoch and sequence their next record has (finding 11), and where
// the one in doubt ends up if it arrives after all (10, 17).

import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

final class DoubtCases {
    /**
     * The client completes a record before it notes that it needs a new epoch. And the request is given up with its connection, so
     * that nothing waits behind it.
     */
    private static final int NOTICED_MS = 500;
    /** How long a callback takes. */
    private static final int CALLBACK_MS = 500;
    /** Markers may follow the answer to an end. */
    private static final int MARKED_MS = 300;

    private static TopicPartition partition(String name) throws Exception {
        return new TopicPartition(Clients.newTopic(name, 2), 0);
    }

    static String readers(TopicPartition p) {
        return "committed: " + String.join(" ", Clients.values(p, "read_committed"))
                + "; all: " + String.join(" ", Clients.values(p, "read_uncommitted"));
    }

    private static void row(String question, Watched watched, TopicPartition p) {
        Questions.row(question, watched.sent(), watched.told(), readers(p));
    }

    /** Both tries of b are written and not answered, and its time is over during the second. */
    private static Future<RecordMetadata> unanswered(Watched watched, TopicPartition p, String value) throws Exception {
        HeldFrames.hold(watched.words("Produce.reply"), 1);
        HeldFrames.hold(watched.words("Produce.reply"), 2);
        Future<RecordMetadata> record = watched.sending(p, value);
        watched.untilCame("Produce", 2);
        return record;
    }

    static void expiry() throws Exception {
        TopicPartition p = partition("expiry");
        try (Watched watched = new Watched(p.topic(), false, 1_000, 1_700)) {
            watched.send(p, "a");
            watched.ended("b", unanswered(watched, p, "b"));
            watched.send(p, "c");
            row("11 expiry, no transaction", watched, p);
        }
    }

    static void expiryInTransaction() throws Exception {
        TopicPartition p = partition("expiry-txn");
        try (Watched watched = new Watched(p.topic(), true, 1_000, 1_700)) {
            watched.begin();
            watched.send(p, "a");
            watched.commit();
            watched.begin();
            watched.ended("b", unanswered(watched, p, "b"));
            Thread.sleep(NOTICED_MS);
            watched.commit();
            watched.abort();
            watched.begin();
            watched.send(p, "c");
            watched.commit();
            row("11 expiry in a transaction", watched, p);
        }
    }

    /**
     * The second try of b is given up, with its connection, when its time is over and the producer is committing: another
     * partition's request waits behind the lost answer, and while it does nothing expires.
     */
    static void expiryWhileCommitting() throws Exception {
        TopicPartition p = partition("expiry-commit");
        try (Watched watched = new Watched(p.topic(), true, 1_500, 2_500)) {
            watched.begin();
            watched.send(p, "a");
            watched.commit();
            watched.begin();
            Future<RecordMetadata> b = unanswered(watched, p, "b");
            watched.producer.send(Clients.record(new TopicPartition(p.topic(), 1), "other"));
            watched.commit();
            watched.ended("b", b);
            watched.abort();
            watched.begin();
            watched.send(p, "c");
            watched.commit();
            row("11 expiry while committing", watched, p);
        }
    }

    /** The time of b is over while the producer waits for it in order to abort. */
    static void expiryWhileAborting() throws Exception {
        TopicPartition p = partition("expiry-abort");
        try (Watched watched = new Watched(p.topic(), true, 1_000, 1_700)) {
            watched.begin();
            watched.send(p, "a");
            watched.commit();
            watched.begin();
            Future<RecordMetadata> b = unanswered(watched, p, "b");
            watched.abort();
            watched.ended("b", b);
            watched.begin();
            watched.call("send of c", () -> watched.producer.send(Clients.record(p, "c")).get());
            row("11 expiry while aborting", watched, p);
        }
    }

    /**
     * Holds the next Produce on its way. It is sent later than its record was, so that the record's time, which is that of one
     * request, is over before the request's.
     */
    private static int held(Watched watched) throws Exception {
        HeldFrames.delay(watched.words("AddPartitionsToTxn.reply"), 300);
        return HeldFrames.hold(watched.words("Produce"), 1);
    }

    /** Transaction 1 sends b, whose only try is held on its way, and aborts. Returns the fault that holds it. */
    private static int aborted(Watched watched, TopicPartition p) throws Exception {
        watched.begin();
        watched.send(p, "a");
        watched.commit();
        watched.begin();
        int held = held(watched);
        watched.send(p, "b");
        Thread.sleep(NOTICED_MS);
        watched.abort();
        Thread.sleep(MARKED_MS);
        return held;
    }

    /** b arrives in the middle of the next transaction. */
    static void lateProduce() throws Exception {
        TopicPartition p = partition("late-produce");
        try (Watched watched = new Watched(p.topic(), true, 1_500, 1_500)) {
            int held = aborted(watched, p);
            watched.begin();
            watched.send(p, "c");
            watched.call("late b answered " + HeldFrames.release(held) + "; flush", watched.producer::flush);
            watched.commit();
            row("10 late, inside the next transaction", watched, p);
        }
    }

    /**
     * The same, but the application aborts when the callback of b tells of its failure, before the callback returns: only then
     * does the client note that it needs an epoch, and by then it is aborting. If so, c is refused until b has come.
     */
    static void lateProduceAfterCallback() throws Exception {
        TopicPartition p = partition("late-callback");
        try (Watched watched = new Watched(p.topic(), true, 1_500, 1_500)) {
            watched.begin();
            watched.send(p, "a");
            watched.commit();
            watched.begin();
            int held = held(watched);
            CountDownLatch failed = new CountDownLatch(1);
            Future<RecordMetadata> b = watched.sending(p, "b", (metadata, error) -> {
                failed.countDown();
                sleep(CALLBACK_MS);
            });
            failed.await();
            watched.abort();
            watched.ended("b", b);
            Thread.sleep(MARKED_MS);
            watched.begin();
            Future<RecordMetadata> c = watched.sending(p, "c");
            watched.untilCame("Produce", 1);
            Thread.sleep(MARKED_MS);
            watched.call("late b answered " + HeldFrames.release(held) + "; flush", watched.producer::flush);
            watched.ended("c", c);
            watched.commit();
            Thread.sleep(MARKED_MS);
            row("10 late, aborted in a callback", watched, p);
        }
    }

    private static void sleep(int ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** b arrives between the transactions; somebody else commits e behind it; then the producer commits its next one. */
    static void hangingTransaction() throws Exception {
        TopicPartition p = partition("hanging");
        try (Watched watched = new Watched(p.topic(), true, 1_500, 1_500)) {
            int held = aborted(watched, p);
            watched.call("late b answered " + HeldFrames.release(held) + "; flush", watched.producer::flush);
            try (KafkaProducer<byte[], byte[]> other = Clients.producer(Map.of("transactional.id", p.topic() + "-e"))) {
                other.initTransactions();
                other.beginTransaction();
                other.send(Clients.record(p, "e")).get();
                other.commitTransaction();
            }
            Thread.sleep(MARKED_MS);
            row("17 late, between transactions; then e", watched, p);
            watched.begin();
            watched.send(p, "c");
            watched.commit();
            Thread.sleep(MARKED_MS);
            row("10 late, between transactions; then c", watched, p);
        }
    }
}
