package treefold.solr;

import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * How a coordinator's request to its shard is answered: by folding (phase 1), or by the owners of documents (phase 2).
 *
 * @param phase 1 or 2
 * @param k the number of documents that are asked for
 * @param sort the order of documents
 * @param wantsScore true if documents bear their score
 * @param wantsSortValues true if the coordinator needs the sort values
 * @param wantsHighlights true if the first phase has snippets too
 * @param facetFields fields whose terms are counted
 * @param facetQueries queries whose documents are counted
 * @param facetRanges fields whose documents are counted by range
 * @param facetIntervals fields whose documents are counted by interval
 * @param jsonFacets facets of {@code json.facet}, by name
 */
record Plan(
        int phase,
        int k,
        List<SortKey.Clause> sort,
        boolean wantsScore,
        boolean wantsSortValues,
        boolean wantsHighlights,
        List<String> facetFields,
        List<String> facetQueries,
        List<String> facetRanges,
        List<String> facetIntervals,
        Map<String, Map<String, Object>> jsonFacets) {
    /** Documents that {@code top-k} keeps. */
    static final int K_MAX = 65_536;

    /** A client's parameter: false passes a query on to the shards as it is. */
    static final String FOLD = "treefold.fold";

    private static final int TOP_IDS = 4;
    private static final int FACETS = 0x10;
    private static final int FIELDS = 0x40;
    private static final int HIGHLIGHTS = 0x80;
    private static final int EXPLAIN = 0x100;
    private static final int SET_TERM_STATS = 0x4000;
    private static final int JSON_FACETS = 0x100000;
    /** Parameters of which any value but false changes the first phase in a way that is not folded. */
    private static final List<String> NOT_FOLDED = List.of(
            "group", "json", "stats", "rq", "expand", "mlt", "spellcheck", "terms", "debug",
            "debugQuery",
            "facet.exists", "facet.pivot", "facet.heatmap", "facet.date", "shards", "analytics");

    /**
     * Reads a request.
     *
     * @throws Failure naming the first part of it that is not folded
     */
    static Plan of(Form form) throws Failure {
        long purpose = form.number("shards.purpose", 0);
        if (form.get(FOLD, "true").equals("false")) {
            throw new Failure(Reason.ASKED, 400, FOLD + " is false, and Treefold's stand has one address for all shards");
        }
        boolean isFields =
                (purpose & FIELDS) != 0 && (purpose & ~(FIELDS | HIGHLIGHTS | SET_TERM_STATS | EXPLAIN)) == 0 && form.get("ids") != null;
        for (String name : NOT_FOLDED) {
            String value = form.get(name);
            // The coordinator keeps debug from the first phase if it only concerns the second.
            if (isFields && name.startsWith("debug")) {
                continue;
            }
            if (value != null && !value.equals("false") && !value.equals("{}")) {
                Reason reason = Reason.named(name).orElseThrow();
                throw new Failure(reason, 400, name + " is not folded by Treefold's stand; ask the shards without it");
            }
        }
        for (String name : List.of("q", "fq")) {
            if (form.all(name).stream().anyMatch(value -> value.contains("{!collapse"))) {
                throw new Failure(Reason.COLLAPSE, 400, "collapse is not folded by Treefold's stand; ask the shards without it");
            }
        }
        long first = TOP_IDS | FACETS | FIELDS | HIGHLIGHTS | SET_TERM_STATS | JSON_FACETS;
        if ((purpose & TOP_IDS) != 0 && (purpose & ~first) == 0) {
            return first(form, (purpose & HIGHLIGHTS) != 0);
        }
        if (isFields) {
            return new Plan(2, 0, List.of(), false, false, false, List.of(), List.of(), List.of(), List.of(), Map.of());
        }
        throw new Failure(Reason.PURPOSE, 400, "a shard's request of purpose " + purpose + " is not folded by Treefold's stand");
    }

    private static Plan first(Form form, boolean wantsHighlights) throws Failure {
        long rows = form.number("rows", 10) + form.number("start", 0);
        if (rows < 0 || rows > K_MAX) {
            throw new Failure(Reason.ROWS, 400, rows + " rows; at most " + K_MAX + " are folded");
        }
        List<String> fields = form.flag("facet") ? form.all("facet.field") : List.of();
        List<String> queries = form.flag("facet") ? form.all("facet.query") : List.of();
        List<String> ranges = form.flag("facet") ? form.all("facet.range") : List.of();
        List<String> intervals = form.flag("facet") ? form.all("facet.interval") : List.of();
        if (Stream.of(fields, queries, ranges, intervals).flatMap(List::stream).anyMatch(facet -> facet.startsWith("{!"))) {
            throw new Failure(Reason.LOCAL_PARAMETERS, 400, "local parameters of facets are not folded by Treefold's stand");
        }
        List<SortKey.Clause> sort = SortKey.parse(form.get("sort"));
        boolean wantsScore = form.all("fl").stream().flatMap(fl -> List.of(fl.split("[ ,]+")).stream()).anyMatch("score"::equals);
        if (!wantsScore && sort.stream().anyMatch(SortKey.Clause::isScore) && rows > 0) {
            throw new Failure(Reason.SORT, 400, "a sort by score without the score is not folded by Treefold's stand");
        }
        return new Plan(1, (int) rows, sort, wantsScore, form.flag("fsv"), wantsHighlights, fields,
                queries, ranges, intervals, JsonFacets.read(form));
    }

    /** The request for a shard: it counts all terms, because sums of cut lists would be wrong. */
    Form forShard(Form form) {
        Form asked = form.copy();
        for (String field : facetFields) {
            String mincount = "f." + field + ".facet.mincount";
            long least = form.number(mincount, form.number("facet.mincount", 0));
            asked.set(mincount, Math.min(least, 1));
            asked.set("f." + field + ".facet.limit", -1);
            asked.set("f." + field + ".facet.offset", 0);
        }
        // All buckets, so that they have the same numbers at all shards.
        facetRanges.forEach(field -> asked.set("f." + field + ".facet.mincount", 0));
        if (!jsonFacets.isEmpty()) {
            asked.set(JsonFacets.PARAM, JsonFacets.whole(jsonFacets));
        }
        return asked;
    }

    /** True if the reply has counts of facets. */
    boolean wantsFacets() {
        return Stream.of(facetFields, facetQueries, facetRanges, facetIntervals).anyMatch(list -> !list.isEmpty());
    }

    /** True if the highest score is that of the first document. */
    boolean bestScoreIsFirst() {
        return k > 0 && sort.get(0).isScore() && sort.get(0).descending();
    }
}
