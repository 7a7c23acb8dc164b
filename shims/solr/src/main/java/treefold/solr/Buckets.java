package treefold.solr;

import java.io.IOException;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.solr.common.util.NamedList;
import org.apache.solr.common.util.SimpleOrderedMap;

/**
 * Facets of ranges and of intervals: all shards have the same buckets in the same order, and their counts are added. The
 * lines of {@link Counts} are
 *
 * <pre>
 *   i:FIELD:NNNNN:NAME  documents of an interval, the NNNNN-th
 *   r:FIELD:NNNNN:NAME  documents of a range
 *   o:FIELD:NAME        documents before, after or between the ranges
 *   x:FIELD:BYTES       0; the shard's reply without counts: gap, start, end and their order, as javabin in base 64
 * </pre>
 */
final class Buckets {
    /** Buckets of a field. */
    static final int BUCKETS_MAX = 99_999;

    private static final List<String> OTHERS = List.of("before", "after", "between");

    private Buckets() { }

    /** Adds a shard's counts. */
    static void count(NamedList<?> reply, Counts counts) throws Failure {
        if (reply.findRecursive("facet_counts", "facet_intervals") instanceof NamedList<?> intervals) {
            for (Map.Entry<String, ?> field : intervals) {
                add(counts, "i:" + Counts.encode(field.getKey()), (NamedList<?>) field.getValue());
            }
        }
        if (reply.findRecursive("facet_counts", "facet_ranges") instanceof NamedList<?> ranges) {
            for (Map.Entry<String, ?> field : ranges) {
                String name = Counts.encode(field.getKey());
                NamedList<Object> form = new SimpleOrderedMap<>();
                for (Map.Entry<String, ?> part : (NamedList<?>) field.getValue()) {
                    if (part.getKey().equals("counts")) {
                        add(counts, "r:" + name, (NamedList<?>) part.getValue());
                        form.add(part.getKey(), null);
                    } else if (OTHERS.contains(part.getKey())) {
                        counts.add("o:" + name + ":" + part.getKey(), ((Number) part.getValue()).longValue());
                        form.add(part.getKey(), null);
                    } else {
                        form.add(part.getKey(), part.getValue());
                    }
                }
                counts.add("x:" + name + ":" + Base64.getUrlEncoder().encodeToString(Javabin.write(form)), 0);
            }
        }
    }

    private static void add(Counts counts, String prefix, NamedList<?> buckets) throws Failure {
        if (buckets.size() > BUCKETS_MAX) {
            throw new Failure(Reason.VALUE, 400, buckets.size() + " buckets; at most " + BUCKETS_MAX + " are folded");
        }
        int number = 0;
        for (Map.Entry<String, ?> bucket : buckets) {
            String key = String.format("%s:%05d:%s", prefix, number++, Counts.encode(bucket.getKey()));
            counts.add(key, ((Number) bucket.getValue()).longValue());
        }
    }

    private static NamedList<Object> read(NamedList<Object> buckets, Counts counts, String prefix) {
        counts.under(prefix + ":").forEach(
                (name, count) -> buckets.add(Counts.decode(name.substring("00000:".length())), Facets.number(count)));
        return buckets;
    }

    /** Intervals of a field, or null if no shard has any. */
    static NamedList<Object> intervals(String field, Counts counts) {
        NamedList<Object> buckets = read(new SimpleOrderedMap<>(), counts, "i:" + Counts.encode(field));
        return buckets.size() == 0 ? null : buckets;
    }

    /** Ranges of a field, or null if no shard has any. */
    static NamedList<Object> ranges(String field, Counts counts) throws Failure {
        String name = Counts.encode(field);
        Map<String, Long> forms = counts.under("x:" + name + ":");
        if (forms.isEmpty()) {
            return null;
        }
        if (forms.size() > 1) {
            throw new Failure(Reason.SHARD_REPLY, 502, "the shards have different ranges of " + field);
        }
        try {
            NamedList<Object> ranges = Javabin.read(Base64.getUrlDecoder().decode(forms.keySet().iterator().next()));
            for (int at = 0; at < ranges.size(); at++) {
                String part = ranges.getName(at);
                if (OTHERS.contains(part)) {
                    ranges.setVal(at, Facets.number(counts.get("o:" + name + ":" + part)));
                } else if (part.equals("counts")) {
                    ranges.setVal(at, read(new NamedList<>(), counts, "r:" + name));
                }
            }
            return ranges;
        } catch (IOException | IllegalArgumentException error) {
            throw new Failure(Reason.FOLDED, 502, "a folded range is malformed: " + error.getMessage());
        }
    }
}
