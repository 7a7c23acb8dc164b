package treefold.hadoop;

import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

/** The entries of a packet of kept values, in its order and without a copy. Keys and values are as they were serialized. */
final class KeptRun {
    /** Packets in a slice: each map output has at least one. */
    static final int RUNS_MAX = 65_536;

    /** The array of the entry at this place. */
    final byte[] bytes;
    int keyAt;
    int keyLength;
    int valueAt;
    int valueLength;

    private final ByteBuffer keys;
    private final ByteBuffer values;
    private int left;

    private KeptRun(byte[] bytes, ByteBuffer keys, ByteBuffer values, int count) {
        this.bytes = bytes;
        this.keys = keys;
        this.values = values;
        this.left = count;
    }

    /**
     * The packets that follow each other in an array.
     *
     * @throws IOException if they are no packets of {@code blobs blobs}, or too many
     */
    static List<KeptRun> all(byte[] bytes) throws IOException {
        List<KeptRun> runs = new ArrayList<>();
        ByteBuffer rest = buffer(bytes);
        try {
            while (rest.hasRemaining()) {
                if (runs.size() == RUNS_MAX) {
                    throw new IOException("a slice has more than " + RUNS_MAX + " runs");
                }
                expect(rest.get() == Packets.FIELDS);
                int count = count(rest);
                ByteBuffer keys = field(rest, bytes);
                expect(count(rest) == count);
                runs.add(new KeptRun(bytes, keys, field(rest, bytes), count));
            }
        } catch (BufferUnderflowException error) {
            throw new IOException("a run of a slice ends too early", error);
        }
        return runs;
    }

    private static ByteBuffer buffer(byte[] bytes) {
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static int count(ByteBuffer rest) throws IOException {
        expect(rest.get() == Packets.BLOBS);
        int count = rest.getInt();
        expect(count >= 0);
        return count;
    }

    private static ByteBuffer field(ByteBuffer rest, byte[] bytes) throws IOException {
        int length = rest.getInt();
        expect(length >= 0 && length <= rest.remaining());
        ByteBuffer field = buffer(bytes);
        field.limit(rest.position() + length).position(rest.position());
        rest.position(rest.position() + length);
        return field;
    }

    /**
     * Goes to the next entry. Returns false after the last one.
     *
     * @throws IOException if the packet does not have as many entries as it says
     */
    boolean next() throws IOException {
        if (left == 0) {
            expect(!keys.hasRemaining() && !values.hasRemaining());
            return false;
        }
        left--;
        keyLength = length(keys);
        keyAt = skip(keys, keyLength);
        valueLength = length(values);
        valueAt = skip(values, valueLength);
        return true;
    }

    private static int length(ByteBuffer field) throws IOException {
        expect(field.remaining() >= Integer.BYTES);
        int length = field.getInt();
        expect(length >= 0 && length <= field.remaining());
        return length;
    }

    private static int skip(ByteBuffer field, int length) {
        int at = field.position();
        field.position(at + length);
        return at;
    }

    private static void expect(boolean holds) throws IOException {
        if (!holds) {
            throw new IOException("a slice has bytes that are no run of keys and values");
        }
    }
}
