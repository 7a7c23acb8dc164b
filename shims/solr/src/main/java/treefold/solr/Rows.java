package treefold.solr;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.solr.common.SolrDocument;
import org.apache.solr.common.SolrDocumentList;
import org.apache.solr.common.util.NamedList;

/**
 * The documents of a reply to phase 1 as rows whose bytes have the order of the documents:
 *
 * <pre>
 *   sort key │ shard u32 │ place in the shard's reply u32 │ document and sort values, javabin │ length of the key u32
 * </pre>
 *
 * <p>Documents with equal keys have the order of Solr: by shard, and then by place. All numbers are big-endian.
 */
final class Rows {
    private static final int PLACE_BYTES = 8;
    private static final int LENGTH_BYTES = 4;

    private Rows() { }

    /**
     * A row.
     *
     * @param shard the shard's number, in the order of addresses
     * @param document the document, with the fields that the coordinator asked for
     * @param sort its sort values, by name
     * @param highlights its highlighted snippets, under its unique key; null if the reply has none
     */
    record Row(int shard, SolrDocument document, NamedList<Object> sort, NamedList<Object> highlights) { }

    /** The best k documents of a shard's reply. */
    static List<byte[]> of(NamedList<?> reply, List<SortKey.Clause> sort, int shard, int k) throws Failure {
        SolrDocumentList documents = (SolrDocumentList) reply.get("response");
        NamedList<?> values = (NamedList<?>) reply.get("sort_values");
        NamedList<?> highlighting = (NamedList<?>) reply.get("highlighting");
        List<byte[]> rows = new ArrayList<>();
        for (int place = 0; place < Math.min(k, documents.size()); place++) {
            SolrDocument document = documents.get(place);
            ByteArrayOutputStream key = new ByteArrayOutputStream();
            NamedList<Object> own = new NamedList<>();
            int next = 0;
            for (SortKey.Clause clause : sort) {
                if (clause.isScore()) {
                    SortKey.append(key, document.getFieldValue("score"), clause.descending());
                } else {
                    if (values == null || next >= values.size()) {
                        throw new Failure(502, "the shard sends no sort values of " + clause.name());
                    }
                    Object value = ((List<?>) values.getVal(next)).get(place);
                    own.add(values.getName(next++), value);
                    SortKey.append(key, value, clause.descending());
                }
            }
            NamedList<Object> content = new NamedList<>();
            content.add("doc", document);
            content.add("sort", own);
            if (highlighting != null) {
                NamedList<Object> snippets = new NamedList<>();
                snippets.add(highlighting.getName(place), highlighting.getVal(place));
                content.add("hl", snippets);
            }
            rows.add(row(key.toByteArray(), shard, place, Javabin.write(content)));
        }
        return rows;
    }

    private static byte[] row(byte[] key, int shard, int place, byte[] content) {
        ByteBuffer row = ByteBuffer.allocate(key.length + PLACE_BYTES + content.length + LENGTH_BYTES);
        return row.put(key).putInt(shard).putInt(place).put(content).putInt(key.length).array();
    }

    /** Reads the rows that the relays kept, best first. */
    @SuppressWarnings("unchecked")
    static List<Row> read(byte[] packet, int k) throws Failure {
        List<byte[]> rows = Packets.readRows(packet);
        // One worker's rows come as they were pushed.
        rows.sort(java.util.Arrays::compareUnsigned);
        List<Row> read = new ArrayList<>();
        for (byte[] row : rows.subList(0, Math.min(k, rows.size()))) {
            ByteBuffer bytes = ByteBuffer.wrap(row);
            int key = row.length < LENGTH_BYTES ? -1 : bytes.getInt(row.length - LENGTH_BYTES);
            if (key < 0 || row.length < (long) key + PLACE_BYTES + LENGTH_BYTES) {
                throw new Failure(502, "a folded row is malformed");
            }
            int from = key + PLACE_BYTES;
            byte[] content = java.util.Arrays.copyOfRange(row, from, row.length - LENGTH_BYTES);
            try {
                NamedList<Object> both = Javabin.read(content);
                SolrDocument document = (SolrDocument) both.get("doc");
                NamedList<Object> sort = (NamedList<Object>) both.get("sort");
                read.add(new Row(bytes.getInt(key), document, sort, (NamedList<Object>) both.get("hl")));
            } catch (IOException | ClassCastException error) {
                throw new Failure(502, "a folded row is malformed: " + error.getMessage());
            }
        }
        return read;
    }
}
