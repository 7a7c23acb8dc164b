package treefold.solr;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.LongAdder;

/** How many requests had which outcome. All names exist from the start. Safe for all threads. */
final class Counters {
    static final String FOLDED = "folded";
    static final String FIELDS = "fields";
    static final String BEGUN_AGAIN = "begun again";
    static final String WITHOUT_RELAYS = "folded without relays";
    static final String NOTHING = "nothing, as shard 0 answers for all";
    private static final String PASSED = "passed on: ";
    private static final String REFUSED = "refused: ";
    private static final String FAILED = "failed: ";

    private final Map<String, LongAdder> counters = new TreeMap<>();

    Counters() {
        for (String name : new String[] {FOLDED, FIELDS, BEGUN_AGAIN, NOTHING, WITHOUT_RELAYS}) {
            counters.put(name, new LongAdder());
        }
        for (Reason reason : Reason.values()) {
            counters.put(PASSED + reason.text(), new LongAdder());
            counters.put(REFUSED + reason.text(), new LongAdder());
            counters.put(FAILED + reason.text(), new LongAdder());
        }
    }

    /** Counts an outcome, one of the constants. */
    void add(String outcome) {
        counters.get(outcome).increment();
    }

    /** Counts a request that went to one shard as it was. */
    void addPassed(Reason reason) {
        add(PASSED + reason.text());
    }

    /** Counts a failure: code 400 is a refusal. */
    void add(Failure failure) {
        add((failure.code() == 400 ? REFUSED : FAILED) + failure.reason().text());
    }

    /** A line for each count that is not 0: the name, a tab, the count. */
    String lines() {
        StringBuilder lines = new StringBuilder();
        counters.forEach((name, count) -> {
            if (count.sum() > 0) {
                lines.append(name).append('\t').append(count.sum()).append('\n');
            }
        });
        return lines.toString();
    }
}
