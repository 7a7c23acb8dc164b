package treefold.solr;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/** Which shard has which document, for the second phase of recent queries. Safe for all threads. */
final class Owners {
    /** Queries that are remembered. */
    static final int QUERIES_MAX = 4_096;
    /** Letters of the unique keys of all queries that are remembered; a key counts {@link #KEY_COST} more. */
    static final int LETTERS_MAX = 32 << 20;
    /** The memory of a key beside its letters, in letters. */
    static final int KEY_COST = 32;

    private final Map<String, Known> queries = new LinkedHashMap<>();
    private long letters;

    private record Known(Map<String, Integer> owners, long letters) { }

    /** Remembers a query, and forgets the oldest ones if there is no room. A query that is too large is not remembered. */
    synchronized void note(String query, Map<String, Integer> owners) {
        forget(queries.remove(query));
        long own = query.length() + owners.keySet().stream().mapToLong(id -> id.length() + KEY_COST).sum();
        if (own > LETTERS_MAX) {
            return;
        }
        queries.put(query, new Known(owners, own));
        letters += own;
        Iterator<Known> oldest = queries.values().iterator();
        while (queries.size() > QUERIES_MAX || letters > LETTERS_MAX) {
            Known known = oldest.next();
            oldest.remove();
            forget(known);
        }
    }

    private void forget(Known known) {
        letters -= known == null ? 0 : known.letters;
    }

    /** The shard of a document, or null if it is unknown. */
    synchronized Integer of(String query, String id) {
        Known known = queries.get(query);
        return known == null ? null : known.owners.get(id);
    }
}
