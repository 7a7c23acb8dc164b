package treefold.solr;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/** Why a request is not folded, or fails. The set is closed, so a user's text never becomes the name of a counter. */
enum Reason {
    GROUP("group"),
    JSON("json"),
    STATS("stats"),
    RERANK("rq"),
    EXPAND("expand"),
    MORE_LIKE_THIS("mlt"),
    SPELLCHECK("spellcheck"),
    TERMS("terms"),
    DEBUG("debug"),
    DEBUG_QUERY("debugQuery"),
    FACET_EXISTS("facet.exists"),
    FACET_PIVOT("facet.pivot"),
    FACET_HEATMAP("facet.heatmap"),
    FACET_DATE("facet.date"),
    SHARDS("shards"),
    ANALYTICS("analytics"),
    COLLAPSE("collapse"),
    JSON_FACET("json.facet"),
    LOCAL_PARAMETERS("local parameters of facets"),
    ASKED("treefold.fold=false"),
    PURPOSE("purpose"),
    OWN("fields of its own documents"),
    ROWS("rows"),
    SORT("sort"),
    VALUE("type of a value"),
    MALFORMED("malformed request"),
    PATH("path"),
    SHARD("error of a shard"),
    SHARD_SILENT("shard does not answer"),
    SHARD_REPLY("reply of a shard"),
    AGENT("agent"),
    RELAYS("relays"),
    FOLDED("folded packet"),
    STAND("stand");

    private static final Map<String, Reason> BY_NAME = new HashMap<>();

    static {
        for (Reason reason : values()) {
            BY_NAME.put(reason.text, reason);
        }
    }

    private final String text;

    Reason(String text) {
        this.text = text;
    }

    /** The words under which it is counted. */
    String text() {
        return text;
    }

    /** The reason with these words. */
    static Optional<Reason> named(String text) {
        return Optional.ofNullable(BY_NAME.get(text));
    }
}
