package treefold.solr;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.solr.common.SolrDocument;
import org.apache.solr.common.SolrDocumentList;
import org.apache.solr.common.util.NamedList;

/**
 * The documents of a reply to phase 1 as rows whose bytes have the order of the documents:
 *
 * <pre>
 *   sort key │ shard u16 │ place in the shard's reply u16 │ content, javabin │ length of the key u16
 * </pre>
 *
 * <p>The content is a list of three: the document's fields (a name, its value, and so on), the sort values, and the snippets or
 * null. Documents with equal keys have the order of Solr: by shard, and then by place. All numbers are big-endian.
 */
final class Rows {
    /** Shards that one stand may have. */
    static final int SHARDS_MAX = 1 << 16;

    private static final int PLACE_BYTES = 4;
    private static final int LENGTH_BYTES = 2;
    private static final int KEY_BYTES_MAX = (1 << 16) - 1;

    private Rows() { }

    /**
     * A row.
     *
     * @param shard the shard's number, in the order of addresses
     * @param document the document, with the fields that the coordinator asked for
     * @param sort its sort values, without the score
     * @param highlights its highlighted snippets, under its unique key; null if the reply has none
     */
    record Row(int shard, SolrDocument document, List<?> sort, NamedList<Object> highlights) { }

    /** The best k documents of a shard's reply. */
    static List<byte[]> of(NamedList<?> reply, Plan plan, int shard, MissingValues missing)
            throws Failure, InterruptedException {
        SolrDocumentList documents = (SolrDocumentList) reply.get("response");
        NamedList<?> values = (NamedList<?>) reply.get("sort_values");
        NamedList<?> highlighting = (NamedList<?>) reply.get("highlighting");
        List<byte[]> rows = new ArrayList<>();
        for (int place = 0; place < Math.min(plan.k(), documents.size()); place++) {
            SolrDocument document = documents.get(place);
            ByteArrayOutputStream key = new ByteArrayOutputStream();
            List<Object> own = new ArrayList<>();
            int next = 0;
            for (SortKey.Clause clause : plan.sort()) {
                if (clause.isScore()) {
                    SortKey.append(key, document.getFieldValue("score"), clause.descending());
                } else {
                    if (values == null || next >= values.size()) {
                        throw new Failure(Reason.SHARD_REPLY, 502, "the shard sends no sort values of " + clause.name());
                    }
                    Object value = ((List<?>) values.getVal(next++)).get(place);
                    own.add(value);
                    if (value == null) {
                        SortKey.appendMissing(key, missing.of(clause.name()), clause.descending());
                    } else {
                        SortKey.append(key, value, clause.descending());
                    }
                }
            }
            NamedList<Object> snippets = null;
            if (highlighting != null) {
                snippets = new NamedList<>();
                snippets.add(highlighting.getName(place), highlighting.getVal(place));
            }
            List<Object> fields = new ArrayList<>();
            document.forEach((name, value) -> fields.addAll(List.of(name, value)));
            rows.add(row(key.toByteArray(), shard, place, Javabin.write(Arrays.asList(fields, own, snippets))));
        }
        return rows;
    }

    private static byte[] row(byte[] key, int shard, int place, byte[] content) throws Failure {
        if (key.length > KEY_BYTES_MAX) {
            throw new Failure(Reason.VALUE, 400, "sort values of " + key.length + " bytes; at most " + KEY_BYTES_MAX + " are folded");
        }
        ByteBuffer row = ByteBuffer.allocate(key.length + PLACE_BYTES + content.length + LENGTH_BYTES);
        row.put(key).putShort((short) shard).putShort((short) place).put(content).putShort((short) key.length);
        return row.array();
    }

    /** Reads the rows that the relays kept, best first. */
    static List<Row> read(byte[] packet, int k) throws Failure {
        return best(Packets.readRows(packet), k);
    }

    /** The best k of rows in any order, best first. */
    static List<Row> best(List<byte[]> rows, int k) throws Failure {
        // One worker's rows come as they were pushed.
        rows.sort(Arrays::compareUnsigned);
        List<Row> read = new ArrayList<>();
        for (byte[] row : rows.subList(0, Math.min(k, rows.size()))) {
            read.add(read(row));
        }
        return read;
    }

    @SuppressWarnings("unchecked")
    private static Row read(byte[] row) throws Failure {
        ByteBuffer bytes = ByteBuffer.wrap(row);
        try {
            int key = Short.toUnsignedInt(bytes.getShort(row.length - LENGTH_BYTES));
            int shard = Short.toUnsignedInt(bytes.getShort(key));
            byte[] content = Arrays.copyOfRange(row, key + PLACE_BYTES, row.length - LENGTH_BYTES);
            List<?> parts = (List<?>) Javabin.readAny(content);
            SolrDocument document = new SolrDocument();
            List<?> fields = (List<?>) parts.get(0);
            for (int at = 0; at < fields.size(); at += 2) {
                document.setField((String) fields.get(at), fields.get(at + 1));
            }
            return new Row(shard, document, (List<?>) parts.get(1), (NamedList<Object>) parts.get(2));
        } catch (IOException | ClassCastException | IndexOutOfBoundsException | IllegalArgumentException error) {
            throw new Failure(Reason.FOLDED, 502, "a folded row is malformed: " + error.getMessage());
        }
    }
}
