package treefold.solr;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Keys have the order of their values, packets are those of docs/protocol.md, and counts are lines that relays can add. */
final class SortKeyTest {
    private static byte[] key(boolean descending, Object... values) throws Failure {
        ByteArrayOutputStream key = new ByteArrayOutputStream();
        for (Object value : values) {
            SortKey.append(key, value, descending);
        }
        return key.toByteArray();
    }

    /** Compares the keys of all pairs with the pairs themselves. Each pair has a second clause after it. */
    @SafeVarargs
    private static <T extends Comparable<T>> void assertOrdered(T... values) throws Failure {
        for (T one : values) {
            for (T other : values) {
                int expected = Integer.signum(one.compareTo(other));
                int ascending = Arrays.compareUnsigned(key(false, one, 1), key(false, other, 1));
                int descending = Arrays.compareUnsigned(key(true, one, 1), key(true, other, 1));
                assertEquals(expected, Integer.signum(ascending), one + " and " + other);
                assertEquals(-expected, Integer.signum(descending), one + " and " + other);
            }
        }
    }

    @Test
    void keys_have_the_order_of_numbers_and_texts() throws Exception {
        assertOrdered(Integer.MIN_VALUE, -2, -1, 0, 1, 255, 256, Integer.MAX_VALUE);
        assertOrdered(Long.MIN_VALUE, -1L, 0L, 1L, 1L << 53, (1L << 53) + 1, Long.MAX_VALUE);
        assertOrdered(Float.NEGATIVE_INFINITY, -1.5f, -Float.MIN_VALUE, -0f, 0f, Float.MIN_VALUE, 1.5f, Float.POSITIVE_INFINITY);
        assertOrdered(Double.NEGATIVE_INFINITY, -1.5, -0.0, 0.0, Double.MIN_VALUE, 1e300, Double.POSITIVE_INFINITY);
        assertOrdered("", "\0", "\0\0", "\0\1", "a", "a\0", "a\0b", "a\1", "aa", "ab", "b", "é");
    }

    private static byte[] missing(MissingValues.Place place, boolean descending) {
        ByteArrayOutputStream key = new ByteArrayOutputStream();
        SortKey.appendMissing(key, place, descending);
        return key.toByteArray();
    }

    @Test
    void keys_of_missing_texts_are_first_or_last_as_the_schema_says() throws Exception {
        for (boolean descending : new boolean[] {true, false}) {
            for (String text : new String[] {"", "\0", "a", "\uFFFF"}) {
                byte[] present = key(descending, text);
                assertTrue(Arrays.compareUnsigned(missing(MissingValues.Place.FIRST, descending), present) < 0, text);
                assertTrue(Arrays.compareUnsigned(missing(MissingValues.Place.LAST, descending), present) > 0, text);
                int least = Arrays.compareUnsigned(missing(MissingValues.Place.LEAST, descending), present);
                assertTrue(descending ? least > 0 : least < 0, text);
            }
        }
    }

    @Test
    void missing_values_and_other_types_are_refused() {
        assertThrows(Failure.class, () -> key(false, (Object) null));
        assertThrows(Failure.class, () -> key(false, new byte[0]));
    }

    @Test
    void sorts_are_read_as_solr_reads_them() throws Exception {
        assertEquals(List.of(new SortKey.Clause("score", true)), SortKey.parse(null));
        assertEquals(List.of(new SortKey.Clause("n", false), new SortKey.Clause("sum(a,b)", true)),
                SortKey.parse("n asc, sum(a,b) DESC"));
        for (String wrong : List.of("n", "n up", ",", "_docid_ asc", "n asc,")) {
            assertThrows(Failure.class, () -> SortKey.parse(wrong), wrong);
        }
        assertThrows(Failure.class, () -> SortKey.parse("n asc,".repeat(16) + "n asc"));
    }

    @Test
    void packets_are_read_as_they_are_written_and_others_are_refused() throws Exception {
        List<byte[]> rows = List.of(new byte[0], "a".getBytes(StandardCharsets.UTF_8), new byte[300]);
        byte[] packet = Packets.rows(rows);
        List<byte[]> read = Packets.readRows(packet);
        assertEquals(3, read.size());
        for (int row = 0; row < 3; row++) {
            assertArrayEquals(rows.get(row), read.get(row));
        }
        assertEquals(0, Packets.readRows(Packets.rows(List.of())).size());
        assertEquals(1.5, Packets.readNumber(Packets.number(1.5)));
        for (int length = 1; length < packet.length; length++) {
            byte[] cut = Arrays.copyOf(packet, length);
            assertThrows(Failure.class, () -> Packets.readRows(cut), "the first " + length + " bytes");
        }
        Random random = new Random(1);
        for (int round = 0; round < 20_000; round++) {
            byte[] wrong = packet.clone();
            wrong[random.nextInt(60)] = (byte) random.nextInt();
            try {
                Packets.readRows(wrong);
            } catch (Failure expected) {
                // It is another format, or the rows have other bytes.
            }
        }
    }

    @Test
    void counts_are_sorted_lines_whose_terms_come_back() throws Exception {
        Counts counts = Counts.read("f:cat:a%09b\t3\nf:cat:c+d\t1\nf:catalog:x\t9\nfound\t7\nm:cat\t2\ns:00:n\t0\n"
                .getBytes(StandardCharsets.US_ASCII));
        List<String> terms = new ArrayList<>();
        counts.terms("cat", (term, count) -> terms.add(term + "=" + count));
        assertEquals(List.of("a\tb=3", "c d=1"), terms);
        assertEquals(2, counts.missing("cat"));
        assertEquals(7, counts.get("found"));
        assertEquals(List.of("n"), counts.sortNames());
        assertThrows(Failure.class, () -> Counts.read("found 7\n".getBytes(StandardCharsets.US_ASCII)));
    }
}
