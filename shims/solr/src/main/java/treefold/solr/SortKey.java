package treefold.solr;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Sort values as bytes whose order is the order of the documents, so that {@code top-k} can compare them without knowing them.
 * No key is the beginning of another with the same clauses.
 */
final class SortKey {
    /** Clauses in a sort. */
    static final int CLAUSES_MAX = 16;

    /** The first byte of a missing text's key, and that of others. */
    private static final int MISSING = 0;
    private static final int PRESENT = 1;

    private SortKey() { }

    /** A clause of a sort: a field, a function or the score, and its direction. */
    record Clause(String name, boolean descending) {
        boolean isScore() {
            return name.equals("score");
        }
    }

    /** Reads the parameter {@code sort}. Without one, the order is that of scores. */
    static List<Clause> parse(String sort) throws Failure {
        List<Clause> clauses = new ArrayList<>();
        if (sort == null || sort.isBlank()) {
            return List.of(new Clause("score", true));
        }
        int depth = 0;
        int from = 0;
        for (int at = 0; at <= sort.length(); at++) {
            char next = at == sort.length() ? ',' : sort.charAt(at);
            if (next == '(') {
                depth++;
            } else if (next == ')') {
                depth--;
            } else if (next == ',' && (depth == 0 || at == sort.length())) {
                clauses.add(clause(sort.substring(from, at).trim()));
                from = at + 1;
            }
        }
        if (clauses.size() > CLAUSES_MAX) {
            throw new Failure(Reason.SORT, 400, "the sort has " + clauses.size() + " clauses; at most " + CLAUSES_MAX + " are folded");
        }
        return clauses;
    }

    private static Clause clause(String text) throws Failure {
        int space = text.lastIndexOf(' ');
        String direction = text.substring(space + 1).toLowerCase(java.util.Locale.ROOT);
        String name = space < 0 ? "" : text.substring(0, space).trim();
        boolean isKnown = direction.equals("asc") || direction.equals("desc");
        if (name.isEmpty() || !isKnown) {
            throw new Failure(Reason.SORT, 400, "can't read the sort \"" + text + "\"; expected a name and asc or desc");
        }
        if (name.equals("_docid_")) {
            throw new Failure(Reason.SORT, 400, "a sort by _docid_ can't be folded");
        }
        return new Clause(name, direction.equals("desc"));
    }

    /** Appends the key of a missing value. */
    static void appendMissing(ByteArrayOutputStream key, MissingValues.Place place, boolean descending) {
        boolean isLast = place == MissingValues.Place.LAST || place == MissingValues.Place.LEAST && descending;
        key.write(isLast ? ~MISSING : MISSING);
    }

    /** Appends a value's key. */
    static void append(ByteArrayOutputStream key, Object value, boolean descending) throws Failure {
        byte[] bytes = bytesOf(value);
        for (byte octet : bytes) {
            key.write(descending ? ~octet : octet);
        }
    }

    private static byte[] bytesOf(Object value) throws Failure {
        if (value instanceof Integer number) {
            return ByteBuffer.allocate(4).putInt(number ^ Integer.MIN_VALUE).array();
        } else if (value instanceof Long number) {
            return ByteBuffer.allocate(8).putLong(number ^ Long.MIN_VALUE).array();
        } else if (value instanceof Float number) {
            int bits = Float.floatToIntBits(number);
            return ByteBuffer.allocate(4).putInt(bits ^ (bits >> 31 | Integer.MIN_VALUE)).array();
        } else if (value instanceof Double number) {
            long bits = Double.doubleToLongBits(number);
            return ByteBuffer.allocate(8).putLong(bits ^ (bits >> 63 | Long.MIN_VALUE)).array();
        } else if (value instanceof CharSequence text) {
            return escaped(text.toString().getBytes(StandardCharsets.UTF_8));
        }
        throw new Failure(Reason.VALUE, 400, "a sort value is " + (value == null ? "missing" : "of " + value.getClass())
                + "; numbers and texts are folded");
    }

    /** After a first byte, the bytes with an end that is less than every byte: 0 becomes 0 255, and the end is 0 0. */
    private static byte[] escaped(byte[] bytes) {
        ByteArrayOutputStream out = new ByteArrayOutputStream(bytes.length + 3);
        out.write(PRESENT);
        for (byte octet : bytes) {
            out.write(octet);
            if (octet == 0) {
                out.write(0xFF);
            }
        }
        out.write(0);
        out.write(0);
        return out.toByteArray();
    }
}
