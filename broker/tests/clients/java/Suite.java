// The suite of the Java client: names of the cases, arguments, and how a case tells what it found.
//   java -cp … Suite --bootstrap HOST:PORT [--admin URL] [--proxy URL] [CASE…]
// One line a case; exits 1 if one failed. A case that is not in `CASES` runs only when it is named.

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;

final class Suite {
    static String bootstrap;
    /** Where agents are stopped and started, or null. */
    static String admin;
    /** Makes the names of topics and groups new in every run, also beside another that begins with it. */
    static final String RUN = Long.toString(System.currentTimeMillis(), 36) + Long.toString(ProcessHandle.current().pid(), 36);
    static final boolean CLIENT_4 = version().startsWith("4.");

    interface Case {
        void run() throws Exception;
    }

    static final class Failed extends RuntimeException {
        Failed(String why) {
            super(why);
        }
    }

    /** This client, or this server, has no such thing. */
    static final class Skipped extends RuntimeException {
        Skipped(String why) {
            super(why);
        }
    }

    static final Map<String, Case> CASES = new LinkedHashMap<>();
    static final Map<String, Case> CASES_BY_NAME_ONLY = new LinkedHashMap<>();

    static {
        CASES.put("admin", AdminCases::topics);
        CASES.put("produce-consume", RecordCases::produceConsume);
        CASES.put("idempotent", RecordCases::idempotent);
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
            CASES.put("codec-" + codec, () -> RecordCases.codec(codec));
        }
        CASES.put("offsets", RecordCases::offsets);
        CASES.put("group-eager", () -> GroupCases.rebalance("classic", "org.apache.kafka.clients.consumer.RangeAssignor"));
        CASES.put("group-cooperative",
                () -> GroupCases.rebalance("classic", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"));
        CASES.put("group-consumer", () -> {
            if (!CLIENT_4) {
                throw new Skipped("the new group protocol is not finished in this version");
            }
            GroupCases.rebalance("consumer", null);
        });
        CASES.put("group-static", GroupCases::staticMember);
        CASES.put("group-admin", GroupCases::admin);
        CASES.put("txn", TransactionCases::commitAndAbort);
        CASES.put("txn-offsets", TransactionCases::offsets);
        CASES.put("txn-fencing", TransactionCases::fencing);
        CASES.put("agent-stopped", RecordCases::agentStopped);
        CASES_BY_NAME_ONLY.put("held-end-txn", HeldEndTxn::run);
        CASES_BY_NAME_ONLY.putAll(Questions.CASES);
    }

    /** The client's own version, from its archive. */
    private static String version() {
        try (InputStream file = KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            Properties properties = new Properties();
            properties.load(file);
            return properties.getProperty("version");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static void expect(String what, Object got, Object wanted) {
        if (!Objects.equals(got, wanted)) {
            throw new Failed(what + " (expected " + shorten(wanted) + ", got " + shorten(got) + ")");
        }
    }

    /** That `call` ends with an exception of just this class, itself or as the cause of a future's. */
    static void expectThrown(String what, Class<? extends Exception> wanted, Callable<?> call) {
        Object got;
        try {
            got = call.call();
        } catch (ExecutionException e) {
            got = e.getCause();
        } catch (Exception e) {
            got = e;
        }
        if (!wanted.isInstance(got)) {
            throw new Failed(what + " (expected " + wanted.getSimpleName() + ", got " + got + ")");
        }
    }

    /** Looks every tenth of a second until `what` holds; fails with `describe` after a minute. */
    static void until(String what, Callable<Boolean> holds, Callable<?> describe) throws Exception {
        long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (!holds.call()) {
            if (System.nanoTime() > deadline) {
                throw new Failed("not within a minute: " + what + " (got " + shorten(describe.call()) + ")");
            }
            Thread.sleep(100);
        }
    }

    private static String shorten(Object value) {
        String text = String.valueOf(value);
        return text.length() <= 400 ? text : text.substring(0, 400) + "… (" + text.length() + " characters)";
    }

    private static boolean passes(String name, Case test) {
        String line;
        boolean passed = true;
        try {
            test.run();
            line = "ok " + name;
        } catch (Skipped e) {
            line = "skipped " + name + ": " + e.getMessage();
        } catch (Failed e) {
            line = "FAILED " + name + ": " + e.getMessage();
            passed = false;
        } catch (Throwable e) {
            line = "FAILED " + name + ": " + e + (e.getCause() == null ? "" : ", because " + e.getCause())
                    + " at " + ownLine(e);
            passed = false;
        }
        System.out.println(line.replace('\n', ' '));
        return passed;
    }

    /** The first line of this suite in a stack trace. */
    private static String ownLine(Throwable e) {
        for (StackTraceElement at : e.getStackTrace()) {
            if (!at.getClassName().contains(".")) {
                return at.getFileName() + ":" + at.getLineNumber();
            }
        }
        return "an unknown line";
    }

    public static void main(String[] arguments) {
        List<String> names = new ArrayList<>();
        for (int i = 0; i < arguments.length; i++) {
            switch (arguments[i]) {
                case "--bootstrap" -> bootstrap = arguments[++i];
                case "--admin" -> admin = arguments[++i];
                case "--proxy" -> HeldFrames.url = arguments[++i];
                default -> names.add(arguments[i]);
            }
        }
        Map<String, Case> known = new LinkedHashMap<>(CASES);
        known.putAll(CASES_BY_NAME_ONLY);
        boolean passed = true;
        for (String name : names.isEmpty() ? CASES.keySet() : names) {
            Case test = known.getOrDefault(name, () -> {
                throw new Failed("no such case");
            });
            passed &= passes(name, test);
        }
        // Not by returning: a client that was cut off may have left a thread.
        System.exit(passed ? 0 : 1);
    }
}
