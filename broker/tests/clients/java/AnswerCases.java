// What a producer's user is told when the answer to its Produce has this error code and this base offset (finding 3): the
// proxy rewrites one answer to each record, the first one or that to the second try.

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

final class AnswerCases {
    private static final int[] CODES = {0, -1, 7, 19, 45, 46, 47, 59, 87};
    /** Null is the record's real one. */
    private static final Long[] BASE_OFFSETS = {0L, -1L, null};
    /** Records before the one in question, so that its offset is not 0. */
    private static final int BEFORE = 3;

    /** The answer comes after four seconds. Jepsen's tests had a request timeout of three; the client's own is thirty. */
    static void late(int requestTimeoutMs) throws Exception {
        TopicPartition p = new TopicPartition(Clients.newTopic("late-answer", 1), 0);
        try (Watched watched = new Watched(p.topic(), false, requestTimeoutMs, 120_000)) {
            HeldFrames.delay(watched.words("Produce.reply"), 4_000);
            watched.send(p, "a");
            Questions.row("3 an answer after 4 s, request.timeout.ms " + requestTimeoutMs, watched.sent() + ", sent " + watched.tries() + "x",
                    watched.told(), DoubtCases.readers(p));
        }
    }

    static void sweep() throws Exception {
        int count = CODES.length * BASE_OFFSETS.length * 2;
        List<TopicPartition> partitions = Clients.partitions(Clients.newTopic("answers", count), count);
        List<String> told = new ArrayList<>();
        for (int code : CODES) {
            for (int answer = 1; answer <= 2; answer++) {
                for (Long baseOffset : BASE_OFFSETS) {
                    told.add(told(partitions.get(told.size()), code, answer, baseOffset));
                }
            }
        }
        Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> all = Clients.readAll(partitions, Map.of());
        int at = 0;
        for (int code : CODES) {
            for (int answer = 1; answer <= 2; answer++) {
                List<String> cells = new ArrayList<>();
                for (int i = 0; i < BASE_OFFSETS.length; i++, at++) {
                    int written = all.get(partitions.get(at)).size() - BEFORE;
                    cells.add(told.get(at) + (written == 1 ? "" : ", written " + written + " times"));
                }
                Questions.answer(code, answer, cells);
            }
        }
    }

    /** What becomes of one record, whose `answer`th answer is rewritten; those before it are lost. */
    private static String told(TopicPartition p, int code, int answer, Long baseOffset) throws Exception {
        try (Watched watched = new Watched(p.toString(), false, 2_000, 5_000)) {
            for (int i = 0; i < BEFORE; i++) {
                watched.producer.send(Clients.record(p, "before")).get();
            }
            for (int nth = 1; nth < answer; nth++) {
                HeldFrames.reset(watched.words("Produce.reply"), nth);
            }
            HeldFrames.rewrite(watched.words("Produce.reply"), answer, code, baseOffset);
            return Watched.outcome(() -> "offset " + watched.producer.send(Clients.record(p, "x")).get().offset());
        }
    }
}
