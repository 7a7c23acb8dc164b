package treefold.hadoop;

import java.io.DataInput;
import java.io.IOException;
import java.util.Arrays;

/** A key, encoded by {@link Keys}, with its number or its value. Its arrays are used again for the next entry. */
final class Entry {
    private static final int FIRST_BYTES = 256;

    byte[] key = new byte[FIRST_BYTES];
    /** The encoded key is from here to its end. */
    int keyAt;
    int keyEnd;
    /** Kept as it is. */
    byte[] value = new byte[FIRST_BYTES];
    int valueLength;
    /** Only if numbers are added. */
    long number;

    int keyLength() {
        return keyEnd - keyAt;
    }

    /** Reads an entry of a map output, whose key and value have these lengths. */
    void read(DataInput from, int keyLength, int length, Fold fold) throws IOException {
        key = grown(key, keyLength);
        from.readFully(key, 0, keyLength);
        keyAt = fold.keys().encode(key, keyLength);
        keyEnd = keyLength;
        value = grown(value, length);
        from.readFully(value, 0, length);
        valueLength = length;
        number = fold.kind() == Fold.Kind.SUM ? fold.values().number(value, length) : 0;
    }

    /** Makes this a copy of another entry. */
    void copy(Entry other) {
        key = grown(key, other.keyLength());
        System.arraycopy(other.key, other.keyAt, key, 0, other.keyLength());
        keyAt = 0;
        keyEnd = other.keyLength();
        value = grown(value, other.valueLength);
        System.arraycopy(other.value, 0, value, 0, other.valueLength);
        valueLength = other.valueLength;
        number = other.number;
    }

    private static byte[] grown(byte[] bytes, int length) {
        return bytes.length >= length ? bytes : new byte[Math.max(length, 2 * bytes.length)];
    }

    /** Adds the number of an entry with the same key. */
    void add(Entry same) throws IOException {
        try {
            number = Math.addExact(number, same.number);
        } catch (ArithmeticException error) {
            throw new IOException("the sum of a key does not fit 64 bits", error);
        }
    }

    /** The order of the keys. */
    int compareKey(Entry other) {
        return Arrays.compareUnsigned(key, keyAt, keyEnd, other.key, other.keyAt, other.keyEnd);
    }
}
