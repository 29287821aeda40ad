// The open questions, asked of the Java client: what it does, row by row. Not a suite: the script .ci/real-findings compares the
// rows with docs/open-questions.md.
//   java -cp … Suite --bootstrap HOST:PORT --proxy URL CASE…

import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;

final class Questions {
    static final Map<String, Suite.Case> CASES = new LinkedHashMap<>();

    static {
        CASES.put("expiry", DoubtCases::expiry);
        CASES.put("expiry-in-transaction", DoubtCases::expiryInTransaction);
        CASES.put("expiry-while-committing", DoubtCases::expiryWhileCommitting);
        CASES.put("expiry-while-aborting", DoubtCases::expiryWhileAborting);
        CASES.put("late-produce", DoubtCases::lateProduce);
        CASES.put("late-produce-after-callback", DoubtCases::lateProduceAfterCallback);
        CASES.put("hanging-transaction", DoubtCases::hangingTransaction);
        CASES.put("late-answer", () -> AnswerCases.late(3_000));
        CASES.put("late-answer-default", () -> AnswerCases.late(30_000));
        CASES.put("answers", AnswerCases::sweep);
        CASES.put("abort", PositionCases::abort);
        CASES.put("rebalance-eager", () -> PositionCases.rebalance("eager"));
        CASES.put("rebalance-cooperative", () -> PositionCases.rebalance("cooperative"));
        CASES.put("rebalance-consumer", () -> PositionCases.rebalance("consumer"));
        CASES.put("isolation", PositionCases::isolation);
        CASES.put("offsets-idempotent", () -> PositionCases.offsets(true));
        CASES.put("offsets-plain", () -> PositionCases.offsets(false));
    }

    /** What was found: what was sent or done, what the user was told, what readers see. */
    static void row(String question, String done, String told, String seen) {
        System.out.println("row " + question + "|" + done + "|" + told + "|" + seen);
    }

    /** What a user was told when an answer had this code and, in turn, each base offset: once if it is always the same. */
    static void answer(int code, int answer, List<String> told) {
        List<String> cells = new LinkedHashSet<>(told).size() == 1 ? told.subList(0, 1) : told;
        System.out.println("answer " + code + ", " + (answer == 1 ? "first try" : "second try") + "|" + String.join("; ", cells));
    }
}
