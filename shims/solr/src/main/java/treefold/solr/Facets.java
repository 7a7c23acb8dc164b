package treefold.solr;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import org.apache.solr.common.util.NamedList;
import org.apache.solr.common.util.SimpleOrderedMap;

/** Facets of fields and of queries, from counts of all terms of all shards: cut and ordered as a shard does it. */
final class Facets {
    private static final long LIMIT_DEFAULT = 100;

    private Facets() { }

    static NamedList<Object> of(Form form, Plan plan, Counts counts) throws Failure {
        NamedList<Object> all = new SimpleOrderedMap<>();
        for (String field : plan.facetFields()) {
            all.add(field, terms(form, field, counts));
        }
        NamedList<Object> queries = new SimpleOrderedMap<>();
        plan.facetQueries().forEach(query -> queries.add(query, number(counts.query(query))));
        NamedList<Object> facets = new SimpleOrderedMap<>();
        facets.add("facet_queries", queries);
        facets.add("facet_fields", all);
        NamedList<Object> ranges = new SimpleOrderedMap<>();
        for (String field : plan.facetRanges()) {
            addKnown(ranges, field, Buckets.ranges(field, counts));
        }
        facets.add("facet_ranges", ranges);
        NamedList<Object> intervals = new SimpleOrderedMap<>();
        plan.facetIntervals().forEach(field -> addKnown(intervals, field, Buckets.intervals(field, counts)));
        facets.add("facet_intervals", intervals);
        facets.add("facet_heatmaps", new SimpleOrderedMap<>());
        return facets;
    }

    private static void addKnown(NamedList<Object> facets, String field, NamedList<Object> facet) {
        if (facet != null) {
            facets.add(field, facet);
        }
    }

    private static NamedList<Object> terms(Form form, String field, Counts counts) {
        long limit = setting(form, field, "facet.limit", LIMIT_DEFAULT);
        long mincount = setting(form, field, "facet.mincount", 0);
        String sort = form.get("f." + field + ".facet.sort", form.get("facet.sort", limit > 0 ? "count" : "index"));
        List<Map.Entry<String, Long>> terms = new ArrayList<>();
        counts.terms(field, (term, count) -> {
            if (count >= mincount) {
                terms.add(Map.entry(term, count));
            }
        });
        // Lucene's order of terms is that of their UTF-8.
        Comparator<Map.Entry<String, Long>> byTerm = Comparator.comparing(
                term -> term.getKey().getBytes(java.nio.charset.StandardCharsets.UTF_8), java.util.Arrays::compareUnsigned);
        boolean isByCount = sort.equals("count") || sort.equals("true");
        terms.sort(isByCount ? Map.Entry.<String, Long>comparingByValue().reversed().thenComparing(byTerm) : byTerm);
        long end = limit < 0 ? terms.size() : Math.min(limit, terms.size());
        NamedList<Object> cut = new SimpleOrderedMap<>();
        terms.subList(0, (int) end).forEach(term -> cut.add(term.getKey(), number(term.getValue())));
        if (counts.missing(field) != null) {
            cut.add(null, number(counts.missing(field)));
        }
        return cut;
    }

    private static long setting(Form form, String field, String name, long otherwise) {
        return form.number("f." + field + "." + name, form.number(name, otherwise));
    }

    /** A count as Solr sends it. */
    static Object number(long count) {
        if (count <= Integer.MAX_VALUE) {
            return (int) count;
        }
        return count;
    }
}
