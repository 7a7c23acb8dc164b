package treefold.solr;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.solr.common.SolrException;
import org.apache.solr.common.util.NamedList;
import org.apache.solr.common.util.SimpleOrderedMap;
import org.apache.solr.common.util.Utils;
import org.noggit.JSONParser;

/**
 * The facets of {@code json.facet} that are counts: terms of a field, and queries, without facets within them. Shards
 * count all terms, so sums are exact; the coordinator orders and cuts them.
 */
final class JsonFacets {
    static final String PARAM = "json.facet";
    private static final Set<String> TERMS_MAY =
            Set.of("type", "field", "limit", "sort", "mincount", "prefix", "overrequest", "refine", "offset");
    private static final Set<String> QUERY_MAY = Set.of("type", "q");
    private static final Set<String> ORDERS =
            Set.of("count", "index", "count asc", "count desc", "index asc", "index desc", "{count=desc}", "{index=asc}");

    /** Depth of brackets within brackets in {@code json.facet}. */
    static final int NESTING_MAX = 64;

    private JsonFacets() { }

    /**
     * The facets of a request by name; each is a map of its settings. Empty if there are none.
     *
     * @throws Failure naming the first facet that is not folded
     */
    static Map<String, Map<String, Object>> read(Form form) throws Failure {
        Map<String, Map<String, Object>> facets = new LinkedHashMap<>();
        if (form.get(PARAM) == null) {
            return facets;
        }
        if (form.all(PARAM).size() > 1) {
            throw new Failure(Reason.JSON_FACET, 400, "more than one json.facet is not folded by Treefold's stand");
        }
        // The parser recurses.
        if (nesting(form.get(PARAM)) > NESTING_MAX) {
            throw new Failure(Reason.JSON_FACET, 400, "json.facet has brackets nested deeper than " + NESTING_MAX);
        }
        Object parsed;
        try {
            parsed = Utils.fromJSONString(form.get(PARAM));
        } catch (SolrException | JSONParser.ParseException error) {
            throw new Failure(Reason.JSON_FACET, 400, "json.facet is no JSON: " + error.getMessage());
        }
        if (!(parsed instanceof Map<?, ?> all)) {
            throw new Failure(Reason.JSON_FACET, 400, "json.facet is no map");
        }
        for (Map.Entry<?, ?> each : all.entrySet()) {
            String name = each.getKey().toString();
            facets.put(name, settings(name, each.getValue()));
        }
        return facets;
    }

    private static int nesting(String text) {
        int depth = 0;
        int deepest = 0;
        for (int at = 0; at < text.length(); at++) {
            char letter = text.charAt(at);
            if (letter == '{' || letter == '[') {
                deepest = Math.max(deepest, ++depth);
            } else if (letter == '}' || letter == ']') {
                depth--;
            }
        }
        return deepest;
    }

    private static Map<String, Object> settings(String name, Object given) throws Failure {
        Map<String, Object> settings = new LinkedHashMap<>();
        if (given instanceof Map<?, ?> map) {
            map.forEach((key, value) -> settings.put(key.toString(), value));
        }
        Object type = settings.get("type");
        boolean isTerms = "terms".equals(type) && TERMS_MAY.containsAll(settings.keySet())
                && ORDERS.contains(String.valueOf(settings.getOrDefault("sort", "count")));
        boolean isQuery = "query".equals(type) && QUERY_MAY.containsAll(settings.keySet());
        if (!isTerms && !isQuery) {
            throw new Failure(Reason.JSON_FACET, 400, "json.facet is not folded by Treefold's stand if it has more than counts of terms and of"
                    + " queries, written with their types; not so " + name);
        }
        return settings;
    }

    /** The parameter for shards: all terms, because sums of cut lists would be wrong. */
    static String whole(Map<String, Map<String, Object>> facets) {
        Map<String, Object> whole = new LinkedHashMap<>();
        facets.forEach((name, settings) -> {
            Map<String, Object> own = new LinkedHashMap<>(settings);
            if (isTerms(settings)) {
                own.put("limit", -1);
                own.remove("offset");
                boolean wantsEmpty = settings.get("mincount") instanceof Number least && least.intValue() < 1;
                own.put("mincount", wantsEmpty ? 0 : 1);
            }
            whole.put(name, own);
        });
        return Utils.toJSONString(whole);
    }

    private static boolean isTerms(Map<String, Object> settings) {
        return "terms".equals(settings.get("type"));
    }

    /** Adds a shard's counts, under names of lines. */
    static void count(NamedList<?> reply, Counts counts) throws Failure {
        if (!(reply.get("facets") instanceof NamedList<?> facets)) {
            return;
        }
        for (Map.Entry<String, ?> facet : facets) {
            if (facet.getValue() instanceof Number count) {
                counts.add("j", count.longValue());
            } else if (facet.getValue() instanceof NamedList<?> own) {
                String name = "j:" + Counts.encode(facet.getKey());
                if (own.get("count") instanceof Number count) {
                    counts.add(name, count.longValue());
                }
                for (Object bucket : own.get("buckets") instanceof List<?> buckets ? buckets : List.of()) {
                    NamedList<?> pair = (NamedList<?>) bucket;
                    counts.add(name + ":" + written(pair.get("val")), ((Number) pair.get("count")).longValue());
                }
            }
        }
    }

    private static String written(Object value) throws Failure {
        if (value instanceof CharSequence text) {
            return "s" + Counts.encode(text.toString());
        } else if (value instanceof Integer number) {
            return "i" + number;
        } else if (value instanceof Long number) {
            return "l" + number;
        } else if (value instanceof Boolean flag) {
            return "b" + flag;
        }
        throw new Failure(Reason.VALUE, 400, "terms of " + value.getClass() + " are not folded by Treefold's stand");
    }

    private static Object read(String written) throws Failure {
        String rest = written.substring(1);
        return switch (written.charAt(0)) {
            case 's' -> Counts.decode(rest);
            case 'i' -> Integer.valueOf(rest);
            case 'l' -> Long.valueOf(rest);
            case 'b' -> Boolean.valueOf(rest);
            default -> throw new Failure(Reason.FOLDED, 502, "a folded term is malformed: " + written);
        };
    }

    /** The reply's part {@code facets}, as one shard with all documents would send it. */
    static NamedList<Object> reply(Map<String, Map<String, Object>> facets, Counts counts) throws Failure {
        NamedList<Object> reply = new SimpleOrderedMap<>();
        reply.add("count", counts.get("j"));
        if (counts.get("j") == 0) {
            return reply;
        }
        for (Map.Entry<String, Map<String, Object>> facet : facets.entrySet()) {
            String name = "j:" + Counts.encode(facet.getKey());
            NamedList<Object> own = new SimpleOrderedMap<>();
            if (isTerms(facet.getValue())) {
                List<NamedList<Object>> buckets = new ArrayList<>();
                for (Map.Entry<String, Long> line : counts.under(name + ":").entrySet()) {
                    NamedList<Object> bucket = new SimpleOrderedMap<>();
                    bucket.add("val", read(line.getKey()));
                    bucket.add("count", line.getValue());
                    buckets.add(bucket);
                }
                own.add("buckets", buckets);
            } else {
                own.add("count", counts.get(name));
            }
            reply.add(facet.getKey(), own);
        }
        return reply;
    }
}
