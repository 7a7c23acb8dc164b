package treefold.push;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Writes a protobuf message, field by field. A field with its default value is left out. */
final class MessageWriter {
    private static final int VARINT = 0;
    private static final int FIXED64 = 1;
    private static final int BYTES = 2;

    private byte[] bytes = new byte[64];
    private int length;

    MessageWriter number(int field, long value) {
        if (value != 0) {
            key(field, VARINT);
            varint(value);
        }
        return this;
    }

    MessageWriter flag(int field, boolean value) {
        return number(field, value ? 1 : 0);
    }

    MessageWriter real(int field, double value) {
        long bits = Double.doubleToRawLongBits(value);
        if (bits != 0) {
            key(field, FIXED64);
            for (int shift = 0; shift < 64; shift += 8) {
                octet((int) (bits >>> shift));
            }
        }
        return this;
    }

    MessageWriter text(int field, String value) {
        return bytes(field, value.getBytes(StandardCharsets.UTF_8));
    }

    MessageWriter bytes(int field, byte[] value) {
        return value.length == 0 ? this : piece(field, value, value.length);
    }

    /** A row of numbers, packed. */
    MessageWriter packed(int field, int[] row) {
        MessageWriter packed = new MessageWriter();
        for (int value : row) {
            packed.varint(Integer.toUnsignedLong(value));
        }
        return packed.length == 0 ? this : piece(field, packed.bytes, packed.length);
    }

    /** A message within this one. It is written even if it has no fields, because its presence may mean something. */
    MessageWriter message(int field, MessageWriter inner) {
        return piece(field, inner.bytes, inner.length);
    }

    byte[] toByteArray() {
        return Arrays.copyOf(bytes, length);
    }

    private MessageWriter piece(int field, byte[] value, int count) {
        key(field, BYTES);
        varint(count);
        room(count);
        System.arraycopy(value, 0, bytes, length, count);
        length += count;
        return this;
    }

    private void key(int field, int type) {
        varint((long) field << 3 | type);
    }

    private void varint(long value) {
        long rest = value;
        while ((rest & ~0x7FL) != 0) {
            octet((int) (rest & 0x7F) | 0x80);
            rest >>>= 7;
        }
        octet((int) rest);
    }

    private void octet(int value) {
        room(1);
        bytes[length++] = (byte) value;
    }

    private void room(int count) {
        if (bytes.length - length < count) {
            bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, length + count));
        }
    }
}
