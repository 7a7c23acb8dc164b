package treefold.push;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Reads a protobuf message, field by field. Fields that the caller does not read are skipped, because a later version may
 * add some.
 *
 * <p>It reserves no memory by a number that it reads: a row has at most as many entries as its bytes.
 */
final class MessageReader {
    private static final int VARINT = 0;
    private static final int FIXED64 = 1;
    private static final int BYTES = 2;
    private static final int FIXED32 = 5;
    private static final int VARINT_BYTES_MAX = 10;

    private final byte[] bytes;
    private final int end;
    private int at;
    private int field;
    private int type;
    /** The value of a field with a number; otherwise the length of its bytes, which begin at {@link #at}. */
    private long value;

    MessageReader(byte[] bytes) {
        this(bytes, 0, bytes.length);
    }

    private MessageReader(byte[] bytes, int from, int end) {
        this.bytes = bytes;
        this.at = from;
        this.end = end;
    }

    /** Goes to the next field. Returns false if there is none. */
    boolean next() throws MalformedException {
        if (type == BYTES) {
            at += (int) value;
            type = VARINT;
        }
        if (at == end) {
            return false;
        }
        long key = varint();
        type = (int) (key & 7);
        if (key >>> 3 == 0 || key >>> 3 > Integer.MAX_VALUE) {
            throw malformed("has the field number " + Long.toUnsignedString(key >>> 3));
        }
        field = (int) (key >>> 3);
        switch (type) {
            case VARINT -> value = varint();
            case FIXED64 -> value = fixed(8);
            case FIXED32 -> value = fixed(4);
            case BYTES -> {
                value = varint();
                if (value < 0 || value > end - at) {
                    throw malformed("has " + Long.toUnsignedString(value) + " bytes, and " + (end - at) + " are there");
                }
            }
            default -> throw malformed("has the unknown type " + type);
        }
        return true;
    }

    int field() {
        return field;
    }

    long number() throws MalformedException {
        is(VARINT);
        return value;
    }

    /** A number of 32 bits without sign that fits in an int. */
    int count() throws MalformedException {
        is(VARINT);
        if (value < 0 || value > Integer.MAX_VALUE) {
            throw malformed("is " + Long.toUnsignedString(value) + "; at most " + Integer.MAX_VALUE);
        }
        return (int) value;
    }

    boolean flag() throws MalformedException {
        return number() != 0;
    }

    byte[] bytes() throws MalformedException {
        is(BYTES);
        return Arrays.copyOfRange(bytes, at, at + (int) value);
    }

    String text() throws MalformedException {
        is(BYTES);
        try {
            ByteBuffer part = ByteBuffer.wrap(bytes, at, (int) value);
            return StandardCharsets.UTF_8.newDecoder().decode(part).toString();
        } catch (CharacterCodingException error) {
            throw malformed("is not UTF-8");
        }
    }

    /** A row of packed numbers of 32 bits. */
    int[] packed() throws MalformedException {
        MessageReader row = message();
        int[] numbers = new int[Math.min(16, row.end - row.at)];
        int length = 0;
        while (row.at < row.end) {
            long number = row.varint();
            if (number >>> 32 != 0) {
                throw malformed("has an entry above 32 bits");
            }
            if (length == numbers.length) {
                numbers = Arrays.copyOf(numbers, 2 * length);
            }
            numbers[length++] = (int) number;
        }
        return Arrays.copyOf(numbers, length);
    }

    MessageReader message() throws MalformedException {
        is(BYTES);
        return new MessageReader(bytes, at, at + (int) value);
    }

    private void is(int wanted) throws MalformedException {
        if (type != wanted) {
            throw malformed("has the type " + type + "; expected " + wanted);
        }
    }

    private long fixed(int count) throws MalformedException {
        if (end - at < count) {
            throw malformed("ends early");
        }
        long number = 0;
        for (int index = 0; index < count; index++) {
            number |= (bytes[at++] & 0xFFL) << (8 * index);
        }
        return number;
    }

    private long varint() throws MalformedException {
        long number = 0;
        for (int index = 0; index < VARINT_BYTES_MAX; index++) {
            if (at == end) {
                throw malformed("ends early");
            }
            byte octet = bytes[at++];
            number |= (octet & 0x7FL) << (7 * index);
            if (octet >= 0) {
                if (index == VARINT_BYTES_MAX - 1 && octet > 1) {
                    break;
                }
                return number;
            }
        }
        throw malformed("has a number above 64 bits");
    }

    private MalformedException malformed(String problem) {
        return new MalformedException("field " + field, problem);
    }
}
