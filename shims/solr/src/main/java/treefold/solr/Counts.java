package treefold.solr;

import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiConsumer;
import org.apache.solr.common.SolrDocumentList;
import org.apache.solr.common.util.NamedList;

/**
 * The numbers of a reply that are added over shards, as lines for {@code sum-lines}:
 *
 * <pre>
 *   found        documents found
 *   inexact      shards whose number of documents is a lower bound
 *   partial      shards whose own time limit was reached
 *   f:FIELD:TERM documents with the term in a facet's field
 *   j            documents that json.facet counts
 *   j:FACET      documents of its query
 *   j:FACET:TERM documents with the term, of which the first letter is the type
 *   m:FIELD      documents without the field, for facet.missing
 *   q:QUERY      documents of a facet's query
 *   s:NN:NAME    0; the name of sort value NN
 * </pre>
 *
 * and those of {@link Buckets}.
 */
final class Counts {
    private final TreeMap<String, Long> lines = new TreeMap<>();

    /** The numbers of a shard's reply. */
    static Counts of(NamedList<?> reply) throws Failure {
        Counts counts = new Counts();
        SolrDocumentList documents = (SolrDocumentList) reply.get("response");
        counts.lines.put("found", documents.getNumFound());
        counts.lines.put("inexact", Boolean.FALSE.equals(documents.getNumFoundExact()) ? 1L : 0L);
        Object partial = reply.findRecursive("responseHeader", "partialResults");
        counts.lines.put("partial", partial == null || partial.toString().equals("false") ? 0L : 1L);
        if (reply.get("sort_values") instanceof NamedList<?> values) {
            for (int at = 0; at < values.size(); at++) {
                counts.lines.put(String.format("s:%02d:%s", at, encode(values.getName(at))), 0L);
            }
        }
        if (reply.findRecursive("facet_counts", "facet_fields") instanceof NamedList<?> fields) {
            for (Map.Entry<String, ?> field : fields) {
                for (Map.Entry<String, ?> term : (NamedList<?>) field.getValue()) {
                    String name = encode(field.getKey());
                    String key = term.getKey() == null ? "m:" + name : "f:" + name + ":" + encode(term.getKey());
                    counts.lines.put(key, ((Number) term.getValue()).longValue());
                }
            }
        }
        if (reply.findRecursive("facet_counts", "facet_queries") instanceof NamedList<?> queries) {
            for (Map.Entry<String, ?> query : queries) {
                counts.lines.put("q:" + encode(query.getKey()), ((Number) query.getValue()).longValue());
            }
        }
        Buckets.count(reply, counts);
        JsonFacets.count(reply, counts);
        return counts;
    }

    void add(String key, long count) {
        lines.put(key, count);
    }

    /** Adds all numbers of others. */
    void addAll(Counts others) {
        others.lines.forEach((key, count) -> lines.merge(key, count, Long::sum));
    }

    /** The lines, ascending. */
    byte[] write() {
        StringBuilder text = new StringBuilder();
        lines.forEach((key, count) -> text.append(key).append('\t').append(count).append('\n'));
        return text.toString().getBytes(StandardCharsets.US_ASCII);
    }

    /** Reads the sums of many shards. */
    static Counts read(byte[] bytes) throws Failure {
        Counts counts = new Counts();
        for (String line : new String(bytes, StandardCharsets.US_ASCII).split("\n")) {
            int tab = line.indexOf('\t');
            try {
                if (!line.isEmpty()) {
                    counts.lines.put(line.substring(0, tab), Long.parseLong(line.substring(tab + 1)));
                }
            } catch (NumberFormatException | StringIndexOutOfBoundsException error) {
                throw new Failure(Reason.FOLDED, 502, "a folded line is malformed: " + line);
            }
        }
        return counts;
    }

    /** A number without a name of its own; 0 if it is absent. */
    long get(String key) {
        return lines.getOrDefault(key, 0L);
    }

    /** The count of documents without a facet's field, or null. */
    Long missing(String field) {
        return lines.get("m:" + encode(field));
    }

    /** The count of documents of a facet's query. */
    long query(String query) {
        return get("q:" + encode(query));
    }

    /** Each term of a facet's field with its count. */
    void terms(String field, BiConsumer<String, Long> each) {
        under("f:" + encode(field) + ":").forEach((term, count) -> each.accept(decode(term), count));
    }

    /** The lines whose names begin so, with the rest of their names. */
    Map<String, Long> under(String prefix) {
        Map<String, Long> found = new LinkedHashMap<>();
        for (Map.Entry<String, Long> line : lines.tailMap(prefix).entrySet()) {
            if (!line.getKey().startsWith(prefix)) {
                break;
            }
            found.put(line.getKey().substring(prefix.length()), line.getValue());
        }
        return found;
    }

    /** The names of the sort values, in order. */
    List<String> sortNames() {
        return under("s:").keySet().stream().map(key -> decode(key.substring("00:".length()))).toList();
    }

    /** Every character above the tab, and no tab: the order of lines is then that of keys. */
    static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }

    static String decode(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }
}
