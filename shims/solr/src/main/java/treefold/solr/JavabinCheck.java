package treefold.solr;

import java.io.IOException;
import org.apache.solr.common.util.JavaBinCodec;

/**
 * Checks javabin before it is decoded. Solr's codec recurses as deep as values are nested and allocates as much as a length
 * says, so a hostile peer could exhaust the stack or the memory with a few bytes. This walk allocates nothing: every length
 * is compared with the bytes that remain, and nesting and values are counted.
 */
final class JavabinCheck {
    /** Depth of values within values. */
    static final int NESTING_MAX = 64;
    /** Values of one reply, among them names of fields. An empty list needs a byte here and some forty in memory. */
    static final int VALUES_MAX = 8 << 20;

    private static final int VERSION = 2;
    private static final int SIZE_BITS = 0x1F;
    private static final int END = JavaBinCodec.END;

    private final byte[] bytes;
    private int at;
    private int values;

    private JavabinCheck(byte[] bytes) {
        this.bytes = bytes;
    }

    /**
     * Checks a reply.
     *
     * @throws IOException if decoding it would not end well
     */
    static void check(byte[] bytes) throws IOException {
        JavabinCheck check = new JavabinCheck(bytes);
        if (check.next() != VERSION) {
            throw new IOException("it does not begin with version " + VERSION);
        }
        check.value(0);
    }

    private int next() throws IOException {
        if (at == bytes.length) {
            throw new IOException("it ends early");
        }
        return bytes[at++] & 0xFF;
    }

    private void skip(int count) throws IOException {
        if (count < 0 || count > bytes.length - at) {
            throw new IOException("a length is " + Integer.toUnsignedString(count) + ", and " + (bytes.length - at)
                    + " bytes remain");
        }
        at += count;
    }

    /** A number of seven bits a byte. */
    private long variable(int bytesMax) throws IOException {
        long number = 0;
        for (int count = 0; count < bytesMax; count++) {
            int next = next();
            number |= (long) (next & 0x7F) << (7 * count);
            if (next < 0x80) {
                return number;
            }
        }
        throw new IOException("a number has more than " + bytesMax + " bytes");
    }

    private int size(int tag) throws IOException {
        int size = tag & SIZE_BITS;
        return size == SIZE_BITS ? (int) (size + variable(5)) : size;
    }

    private void values(long count, int depth) throws IOException {
        if (count < 0 || count > bytes.length - at) {
            throw new IOException("it has " + count + " values within a value, and " + (bytes.length - at) + " bytes remain");
        }
        for (long done = 0; done < count; done++) {
            value(depth);
        }
    }

    /** Walks over a value. Returns its tag. */
    private int value(int depth) throws IOException {
        if (depth > NESTING_MAX) {
            throw new IOException("values are nested deeper than " + NESTING_MAX);
        }
        if (++values > VALUES_MAX) {
            throw new IOException("it has more than " + VALUES_MAX + " values");
        }
        int tag = next();
        switch (tag >>> 5) {
            case (JavaBinCodec.STR & 0xFF) >>> 5 -> skip(size(tag));
            case (JavaBinCodec.SINT & 0xFF) >>> 5, (JavaBinCodec.SLONG & 0xFF) >>> 5 -> small(tag);
            case (JavaBinCodec.ARR & 0xFF) >>> 5 -> values(size(tag), depth + 1);
            case (JavaBinCodec.ORDERED_MAP & 0xFF) >>> 5, (JavaBinCodec.NAMED_LST & 0xFF) >>> 5 ->
                values(2L * size(tag), depth + 1);
            case (JavaBinCodec.EXTERN_STRING & 0xFF) >>> 5 -> {
                if (size(tag) == 0) {
                    skip(size(next()));
                }
            }
            default -> tagged(tag, depth + 1);
        }
        return tag;
    }

    private void small(int tag) throws IOException {
        if ((tag & 0x10) != 0) {
            variable(10);
        }
    }

    private void tagged(int tag, int depth) throws IOException {
        switch (tag) {
            case JavaBinCodec.NULL, JavaBinCodec.BOOL_TRUE, JavaBinCodec.BOOL_FALSE, JavaBinCodec.END -> { }
            case JavaBinCodec.BYTE -> skip(1);
            case JavaBinCodec.SHORT -> skip(2);
            case JavaBinCodec.INT, JavaBinCodec.FLOAT -> skip(4);
            case JavaBinCodec.DOUBLE, JavaBinCodec.LONG, JavaBinCodec.DATE -> skip(8);
            case JavaBinCodec.BYTEARR -> skip((int) variable(5));
            case JavaBinCodec.MAP -> values(2 * variable(5), depth);
            case JavaBinCodec.MAP_ENTRY, JavaBinCodec.ENUM_FIELD_VALUE, JavaBinCodec.SOLRDOCLST -> values(2, depth);
            case JavaBinCodec.SOLRDOC -> document(depth);
            case JavaBinCodec.ITERATOR -> untilEnd(1, depth);
            case JavaBinCodec.MAP_ENTRY_ITER -> untilEnd(2, depth);
            default -> throw new IOException("a value has the unknown type " + tag);
        }
    }

    private void document(int depth) throws IOException {
        int fields = size(next());
        if (fields < 0 || fields > bytes.length - at) {
            throw new IOException("a document has " + fields + " fields, and " + (bytes.length - at) + " bytes remain");
        }
        for (int field = 0; field < fields; field++) {
            // A child document has no name.
            if (value(depth) != JavaBinCodec.SOLRDOC) {
                value(depth);
            }
        }
    }

    private void untilEnd(int step, int depth) throws IOException {
        while (value(depth) != END) {
            values(step - 1L, depth);
        }
    }
}
