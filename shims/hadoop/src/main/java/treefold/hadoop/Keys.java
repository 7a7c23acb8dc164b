package treefold.hadoop;

import java.io.DataOutput;
import java.io.IOException;
import java.util.Arrays;
import java.util.Optional;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.WritableUtils;

/**
 * The classes of keys that relays merge. Relays order keys by their bytes, so each class has an encoding whose bytes have the
 * order of Hadoop's default comparator, and from which the key is restored.
 */
enum Keys {
    /** The text's bytes, without their length. */
    TEXT(Text.class),
    /** The bytes, without their length. */
    BYTES(BytesWritable.class),
    /** Four bytes; the inverted sign puts negative numbers first. */
    INT(IntWritable.class),
    /** Eight bytes, in the same way. */
    LONG(LongWritable.class),
    /** Keys of any class, as they are serialized. Their bytes have no order; a combiner merges them by the job's own. */
    KEPT(null);

    private static final int BYTES_LENGTH = 4;
    private static final int SIGN = 0x80;

    private final Class<?> type;

    Keys(Class<?> type) {
        this.type = type;
    }

    static Optional<Keys> of(Class<?> type) {
        return Arrays.stream(values()).filter(keys -> keys.type == type).findFirst();
    }

    /**
     * Encodes a serialized key in place. Returns the place at which the encoding begins; it ends with the key.
     *
     * @throws IOException if the bytes are no key of this class
     */
    int encode(byte[] key, int length) throws IOException {
        int begin = switch (this) {
            case TEXT -> length == 0 ? 1 : WritableUtils.decodeVIntSize(key[0]);
            case BYTES -> BYTES_LENGTH;
            case INT, LONG, KEPT -> 0;
        };
        int expected = this == INT ? Integer.BYTES : Long.BYTES;
        boolean isNumber = this == INT || this == LONG;
        if (isNumber ? length != expected : length < begin) {
            throw new IOException("a key has " + length + " bytes, and is no " + type.getSimpleName());
        }
        if (isNumber) {
            key[0] ^= (byte) SIGN;
        }
        return begin;
    }

    /** Writes the serialized key of an encoding. */
    void restore(byte[] from, int at, int length, DataOutput out) throws IOException {
        switch (this) {
            case TEXT -> {
                WritableUtils.writeVInt(out, length);
                out.write(from, at, length);
            }
            case BYTES -> {
                out.writeInt(length);
                out.write(from, at, length);
            }
            case INT, LONG -> {
                if (length != (this == INT ? Integer.BYTES : Long.BYTES)) {
                    throw new IOException("a folded key has " + length + " bytes, and is no " + type.getSimpleName());
                }
                out.writeByte(from[at] ^ SIGN);
                out.write(from, at + 1, length - 1);
            }
            case KEPT -> out.write(from, at, length);
        }
    }
}
