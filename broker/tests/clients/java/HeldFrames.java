// What the open questions do to single frames: they ask `wavetank proxy`, which stands between the clients and the brokers
// (docs/serve.md, "Faults at the proxy"), to hold, reset or rewrite one, and read in its log what went by.

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

final class HeldFrames {
    /** Where the proxy takes faults. */
    static String url;
    private static final HttpClient HTTP = HttpClient.newHttpClient();
    /** The last fault's id; another program may have had the same proxy before. */
    private static int faults = (int) (System.currentTimeMillis() % 1_000_000_000);

    /** A line of the proxy's log. */
    record Line(long number, long connection, String fault, String what, String label) {
        boolean has(String words) {
            return List.of(label.split(" ")).containsAll(List.of(words.split(" ")));
        }
    }

    /** Catches the `nth` frame from now on that has these words; it goes on when it is released. Returns the fault's id. */
    static int hold(String words, int nth) throws Exception {
        return arm("hold", words, nth, "");
    }

    /** Resets the connection of the `nth` frame from now on that has these words; the frame is lost. */
    static void reset(String words, int nth) throws Exception {
        arm("reset", words, nth, "");
    }

    /** The next frame that has these words is so much later. */
    static void delay(String words, int byMs) throws Exception {
        arm("delay", words, 1, ", \"by_ms\": " + byMs);
    }

    private static int arm(String fault, String words, int nth, String more) throws Exception {
        int id = ++faults;
        ask("POST", "/faults", "{\"id\": %d, \"fault\": {\"%s\": {\"frame\": {\"words\": \"%s\", \"nth\": %d}%s}}}"
                .formatted(id, fault, words, nth, more));
        return id;
    }

    /** The `nth` answer to a Produce from now on that has these words says this; a null stays as it is. */
    static void rewrite(String words, int nth, int code, Long baseOffset) throws Exception {
        ask("POST", "/rewrites", "{\"id\": %d, \"frame\": {\"words\": \"%s\", \"nth\": %d}, \"code\": %d, \"base_offset\": %s}"
                .formatted(++faults, words, nth, code, baseOffset));
    }

    /** Lets go what fault `id` holds, and waits for the broker's answer to it. Returns the answer's error code. */
    static String release(int id) throws Exception {
        Line held = first(0, line -> line.what.equals("held") && line.fault.equals(Integer.toString(id)));
        ask("POST", "/release/" + id, "");
        return first(held.number, line -> line.connection == held.connection && line.label.startsWith("Produce.reply "))
                .label.split(" ")[1];
    }

    /** The number of the log's next line. */
    static long now() throws Exception {
        List<Line> lines = log(0);
        return lines.isEmpty() ? 0 : lines.get(lines.size() - 1).number + 1;
    }

    /** The first line from number `from` on of which this holds, as soon as there is one. */
    static Line first(long from, Predicate<Line> wanted) throws Exception {
        for (int tries = 0; tries < 1_000; tries++) {
            for (Line line : log(from)) {
                if (wanted.test(line)) {
                    return line;
                }
            }
            Thread.sleep(10);
        }
        throw new Suite.Failed("the proxy did not see in ten seconds what was waited for");
    }

    /** Waits until `count` frames with these words have come, from line `from` on. */
    static void untilCame(String words, int count, long from) throws Exception {
        List<Line> came = new ArrayList<>();
        first(from, line -> {
            if (line.has(words) && !line.what.equals("released") && !came.contains(line)) {
                came.add(line);
            }
            return came.size() >= count;
        });
    }

    /** How many frames with these words have come from line `from` on. */
    static long count(String words, long from) throws Exception {
        return log(from).stream().filter(line -> line.has(words) && !line.what.equals("released")).count();
    }

    /** Epoch and base sequence of every Produce with these words from line `from` on, `epoch:sequence`, each once. */
    static Set<String> stamps(String words, long from) throws Exception {
        Set<String> stamps = new LinkedHashSet<>();
        Pattern stamp = Pattern.compile(" epoch=(\\d+) seq=(\\d+)");
        for (Line line : log(from)) {
            Matcher found = stamp.matcher(line.label);
            if (line.has("Produce " + words) && !line.what.equals("released") && found.find()) {
                stamps.add(found.group(1) + ":" + found.group(2));
            }
        }
        return stamps;
    }

    private static List<Line> log(long from) throws Exception {
        List<Line> lines = new ArrayList<>();
        for (String line : ask("GET", "/log?from=" + from, "").split("\n")) {
            if (!line.isEmpty()) {
                lines.add(new Line(Long.parseLong(field(line, "n")), Long.parseLong(field(line, "connection")),
                        field(line, "fault"), field(line, "what"), field(line, "label")));
            }
        }
        return lines;
    }

    /** A field of a flat JSON object, as text; empty if it is not there. */
    private static String field(String line, String name) {
        Matcher found = Pattern.compile("\"" + name + "\":(?:\"([^\"]*)\"|([^,}]*))").matcher(line);
        if (!found.find()) {
            return "";
        }
        return found.group(1) == null ? found.group(2) : found.group(1);
    }

    private static String ask(String method, String path, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + path))
                .method(method, HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> answer = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
        Suite.expect(method + " " + path + ": status of " + answer.body(), answer.statusCode(), 200);
        return answer.body();
    }
}
