package treefold.solr;

import java.util.LinkedHashMap;
import java.util.Map;

/** Which shard has which document, for the second phase of recent queries. Safe for all threads. */
final class Owners {
    /** Queries that are remembered. */
    static final int QUERIES_MAX = 4_096;

    private final Map<String, Map<String, Integer>> queries = new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Map<String, Integer>> eldest) {
            return size() > QUERIES_MAX;
        }
    };

    synchronized void note(String query, Map<String, Integer> owners) {
        queries.put(query, owners);
    }

    /** The shard of a document, or null if it is unknown. */
    synchronized Integer of(String query, String id) {
        Map<String, Integer> owners = queries.get(query);
        return owners == null ? null : owners.get(id);
    }
}
