// A member of a consumer group on a thread of its own, which commits what it has handled before it polls again.

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;

final class Member implements ConsumerRebalanceListener {
    final Set<TopicPartition> owned = ConcurrentHashMap.newKeySet();
    /** Values, in the order in which they were handed out. */
    final List<String> received = new CopyOnWriteArrayList<>();
    volatile int generation = -1;
    /** How often partitions were given or taken. */
    volatile int changes;
    volatile Throwable error;
    private volatile boolean stopped;
    private final boolean newProtocol;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Thread thread;

    /** Joins `group`; `settings` beside the client's defaults. */
    Member(String group, String topic, Map<String, Object> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("group.id", group);
        newProtocol = "consumer".equals(settings.get("group.protocol"));
        consumer = Clients.consumer(all);
        consumer.subscribe(List.of(topic), this);
        thread = new Thread(this::run, "member");
        thread.start();
    }

    private void run() {
        Map<TopicPartition, OffsetAndMetadata> handled = new HashMap<>();
        try (consumer) {
            while (!stopped) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    received.add(Clients.text(record.value()));
                    handled.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                generation = consumer.groupMetadata().generationId();
                handled.keySet().retainAll(owned);
                commit(handled);
            }
        } catch (Throwable e) {
            error = e;
        }
    }

    /** A commit that meets a rebalance is repeated after it, when the partitions are still this member's. */
    private void commit(Map<TopicPartition, OffsetAndMetadata> handled) {
        if (handled.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(handled);
            handled.clear();
        } catch (RebalanceInProgressException e) {
            // The next poll takes part in it.
        } catch (CommitFailedException e) {
            // The new protocol's STALE_MEMBER_EPOCH: the member has a newer epoch than this commit said, and may repeat it.
            if (!newProtocol) {
                throw e;
            }
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> given) {
        owned.addAll(given);
        changes++;
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> taken) {
        owned.removeAll(taken);
        changes++;
    }

    /** Leaves the group, if the client does so when it is closed. */
    void close() throws Exception {
        stopped = true;
        thread.join(30_000);
        Suite.expect("a member ends", thread.isAlive(), false);
        Suite.expect("what a member met", error, null);
    }
}
