package treefold.hadoop;

import java.io.ByteArrayOutputStream;
import java.io.DataOutput;
import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.hadoop.io.DataOutputBuffer;

/**
 * Sorted runs as typed packets, the payloads of the reduce {@code merge-sorted}: {@code blobs i64s} if numbers are added,
 * {@code blobs blobs} if values are kept. Combiners get many of the latter, one behind the other ({@link KeptRun}).
 * docs/protocol.md has the bytes.
 */
final class Packets {
    private static final byte I64S = 0x11;
    static final byte BLOBS = 0x16;
    static final int FIELDS = 2;

    /** Bytes of a packet of kept values beside its entries. */
    static final int HEAD_BYTES = 1 + FIELDS * (1 + 2 * Integer.BYTES);

    private Packets() { }

    /** A packet under construction. */
    static final class Writer {
        private final Growing keys = new Growing();
        private final Growing values = new Growing();
        private final boolean isSum;
        private int count;

        Writer(Fold.Kind kind) {
            this.isSum = kind == Fold.Kind.SUM;
        }

        boolean isEmpty() {
            return count == 0;
        }

        /** Bytes of all entries. */
        int bytes() {
            return keys.size() + values.size();
        }

        void add(Entry entry) {
            if (!isSum) {
                add(entry.key, entry.keyAt, entry.keyLength(), entry.value, entry.valueLength);
                return;
            }
            keys.number(entry.keyLength());
            keys.write(entry.key, entry.keyAt, entry.keyLength());
            values.number((int) entry.number);
            values.number((int) (entry.number >>> Integer.SIZE));
            count++;
        }

        /** Adds a key and a value that is kept. */
        void add(byte[] key, int keyAt, int keyLength, byte[] value, int valueLength) {
            keys.number(keyLength);
            keys.write(key, keyAt, keyLength);
            values.number(valueLength);
            values.write(value, 0, valueLength);
            count++;
        }

        /** The packet. The writer is empty afterwards. */
        byte[] take() {
            int heads = HEAD_BYTES - (isSum ? Integer.BYTES : 0);
            ByteBuffer packet = ByteBuffer.allocate(heads + bytes()).order(ByteOrder.LITTLE_ENDIAN);
            packet.put((byte) FIELDS).put(BLOBS).putInt(count).putInt(keys.size());
            packet.put(keys.array(), 0, keys.size());
            packet.put(isSum ? I64S : BLOBS).putInt(count);
            if (!isSum) {
                packet.putInt(values.size());
            }
            packet.put(values.array(), 0, values.size());
            keys.reset();
            values.reset();
            count = 0;
            return packet.array();
        }
    }

    /** Bytes that grow, and whose array is not copied. */
    private static final class Growing extends ByteArrayOutputStream {
        byte[] array() {
            return buf;
        }

        void number(int number) {
            write(number);
            write(number >> 8);
            write(number >> 16);
            write(number >> 24);
        }
    }

    /** Takes the serialized entries of a packet. */
    interface Taking {
        void take(DataOutputBuffer key, DataOutputBuffer value) throws IOException;
    }

    /**
     * Reads the entries of a packet, in its order. An empty packet has none.
     *
     * @throws IOException if it is no such packet
     */
    static void read(byte[] bytes, Fold fold, Taking taking) throws IOException {
        if (bytes.length == 0) {
            return;
        }
        try {
            ByteBuffer keys = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
            boolean isSum = fold.kind() == Fold.Kind.SUM;
            expect(keys.get() == FIELDS && keys.get() == BLOBS);
            int count = keys.getInt();
            int keyBytes = keys.getInt();
            expect(count >= 0 && keyBytes >= 0 && keyBytes <= keys.remaining());
            ByteBuffer values = keys.duplicate().order(ByteOrder.LITTLE_ENDIAN);
            values.position(keys.position() + keyBytes);
            keys.limit(values.position());
            expect(values.get() == (isSum ? I64S : BLOBS) && values.getInt() == count);
            expect(isSum || values.getInt() == values.remaining());
            DataOutputBuffer key = new DataOutputBuffer();
            DataOutputBuffer value = new DataOutputBuffer();
            for (int entry = 0; entry < count; entry++) {
                key.reset();
                value.reset();
                int length = length(keys);
                fold.keys().restore(bytes, keys.position(), length, key);
                keys.position(keys.position() + length);
                if (isSum) {
                    fold.values().restore(values.getLong(), value);
                } else {
                    keep(bytes, values, value);
                }
                taking.take(key, value);
            }
            expect(!keys.hasRemaining() && !values.hasRemaining());
        } catch (BufferUnderflowException error) {
            throw new IOException("the folded run ends too early", error);
        }
    }

    private static void keep(byte[] bytes, ByteBuffer values, DataOutput value) throws IOException {
        int length = length(values);
        value.write(bytes, values.position(), length);
        values.position(values.position() + length);
    }

    private static int length(ByteBuffer from) throws IOException {
        int length = from.getInt();
        expect(length >= 0 && length <= from.remaining());
        return length;
    }

    private static void expect(boolean holds) throws IOException {
        if (!holds) {
            throw new IOException("the folded run is no packet of keys and values");
        }
    }
}
