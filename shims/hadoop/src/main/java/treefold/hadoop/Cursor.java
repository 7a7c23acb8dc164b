package treefold.hadoop;

import java.io.Closeable;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.io.WritableUtils;

/** A place in a map output: the entries of a decompressed IFile, one after the other, in the job's order. */
final class Cursor implements Closeable {
    /** Longest key or value; a job with a longer one uses the plain shuffle. */
    static final int FIELD_BYTES_MAX = 16 << 20;
    private static final int END = -1;

    /** The entry at this place. */
    final Entry entry = new Entry();
    private final DataInputStream from;
    private final Fold fold;

    Cursor(InputStream from, Fold fold) {
        this.from = new DataInputStream(from);
        this.fold = fold;
    }

    /** Goes to the next entry. Returns false after the last one. */
    boolean next() throws IOException {
        int keyLength = WritableUtils.readVInt(from);
        int length = WritableUtils.readVInt(from);
        if (keyLength == END && length == END) {
            // The checksum has been verified with the last byte.
            if (from.read() >= 0) {
                throw new IOException("a map output goes on after its end");
            }
            return false;
        }
        if (keyLength < 0 || keyLength > FIELD_BYTES_MAX || length < 0 || length > FIELD_BYTES_MAX) {
            throw new IOException("a key and a value have " + keyLength + " and " + length + " bytes; at most "
                    + FIELD_BYTES_MAX);
        }
        entry.read(from, keyLength, length, fold);
        return true;
    }

    /** Gives back the decompressor, if there is one. */
    @Override
    public void close() throws IOException {
        from.close();
    }
}
