package treefold.hadoop;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.DataOutput;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Optional;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.VIntWritable;
import org.apache.hadoop.io.VLongWritable;
import org.apache.hadoop.io.WritableUtils;

/** The kinds of values: whole numbers, which may be added, and bytes, which are kept as they are. */
enum Values {
    INT(IntWritable.class),
    LONG(LongWritable.class),
    VINT(VIntWritable.class),
    VLONG(VLongWritable.class),
    /** Values of any class. */
    KEPT(null);

    private final Class<?> type;

    Values(Class<?> type) {
        this.type = type;
    }

    /** The kind of a class of whole numbers. */
    static Optional<Values> ofNumbers(Class<?> type) {
        return Arrays.stream(values()).filter(values -> values.type == type).findFirst();
    }

    /**
     * The number of a serialized value.
     *
     * @throws IOException if the bytes are no value of this class
     */
    long number(byte[] value, int length) throws IOException {
        int expected = switch (this) {
            case INT -> Integer.BYTES;
            case LONG -> Long.BYTES;
            default -> length == 0 ? 1 : WritableUtils.decodeVIntSize(value[0]);
        };
        if (length != expected) {
            throw new IOException("a value has " + length + " bytes, and is no " + type.getSimpleName());
        }
        return switch (this) {
            case INT -> ByteBuffer.wrap(value).getInt();
            case LONG -> ByteBuffer.wrap(value).getLong();
            default -> WritableUtils.readVLong(new DataInputStream(new ByteArrayInputStream(value, 0, length)));
        };
    }

    /**
     * Writes the serialized value of a number.
     *
     * @throws IOException if the number does not fit the class
     */
    void restore(long number, DataOutput out) throws IOException {
        boolean isShort = this == INT || this == VINT;
        if (isShort && number != (int) number) {
            throw new IOException("the sum " + number + " does not fit " + type.getSimpleName());
        }
        switch (this) {
            case INT -> out.writeInt((int) number);
            case LONG -> out.writeLong(number);
            default -> WritableUtils.writeVLong(out, number);
        }
    }
}
