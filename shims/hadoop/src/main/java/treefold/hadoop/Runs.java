package treefold.hadoop;

import java.io.ByteArrayInputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.mapred.IFileInputStream;

/**
 * Merges the map outputs of an order in groups that fit the memory, and adds the numbers of equal keys of a group. An output
 * that is larger than a group is merged with no other, and read as it comes. Each group gives the slices a sorted run; relays
 * merge the runs. If a combiner does that, each output is a run of its own, because only the job's own code has its order.
 */
final class Runs {
    /** Bytes of map outputs, as they are sent, in a group. */
    static final int HELD_BYTES_MAX = 16 << 20;
    /** Map outputs in a group. */
    static final int HELD_MAX = 256;
    private static final int STEP_BYTES = 1 << 20;

    private final Fold fold;
    private final CompressionCodec codec;
    private final Configuration conf;
    private final Slices slices;
    private final List<byte[]> held = new ArrayList<>();
    private long heldBytes;

    /**
     * Begins an order.
     *
     * @param codec decompresses the outputs; null if they are not compressed
     */
    Runs(Fold fold, CompressionCodec codec, Configuration conf, Slices slices) {
        this.fold = fold;
        this.codec = codec;
        this.conf = conf;
        this.slices = slices;
    }

    /** Takes all outputs of a part of the order. */
    void take(Outputs outputs) throws IOException, InterruptedException {
        for (Outputs.Output output = outputs.next(); output != null; output = outputs.next()) {
            if (output.bytes() > HELD_BYTES_MAX) {
                merge(List.of(cursor(outputs.stream(), output.bytes())));
                continue;
            }
            if (heldBytes + output.bytes() > HELD_BYTES_MAX || held.size() == HELD_MAX) {
                flush();
            }
            held.add(read(outputs.stream(), (int) output.bytes()));
            heldBytes += output.bytes();
        }
    }

    /** Pushes the group that is held. */
    void flush() throws IOException, InterruptedException {
        List<Cursor> cursors = new ArrayList<>();
        for (byte[] bytes : held) {
            cursors.add(cursor(new ByteArrayInputStream(bytes), bytes.length));
        }
        merge(cursors);
        held.clear();
        heldBytes = 0;
    }

    /** Reads so many bytes. Memory grows with the bytes that have arrived. */
    private static byte[] read(InputStream from, int length) throws IOException {
        byte[] bytes = new byte[Math.min(length, STEP_BYTES)];
        int filled = 0;
        while (filled < length) {
            if (filled == bytes.length) {
                bytes = Arrays.copyOf(bytes, (int) Math.min(length, 2L * bytes.length));
            }
            int count = from.read(bytes, filled, bytes.length - filled);
            if (count < 0) {
                throw new IOException("a map output of " + length + " bytes ends after " + filled);
            }
            filled += count;
        }
        return bytes;
    }

    private Cursor cursor(InputStream from, long length) throws IOException {
        InputStream checked = new IFileInputStream(new Unclosed(from), length, conf);
        return new Cursor(codec == null ? checked : codec.createInputStream(checked), fold);
    }

    /** A stream that stays open: other outputs follow in it. */
    private static final class Unclosed extends FilterInputStream {
        Unclosed(InputStream in) {
            super(in);
        }

        @Override
        public void close() { }
    }

    private void merge(List<Cursor> cursors) throws IOException, InterruptedException {
        try {
            if (fold.kind() == Fold.Kind.COMBINE) {
                for (Cursor cursor : cursors) {
                    slices.cut();
                    while (cursor.next()) {
                        slices.add(cursor.entry);
                    }
                }
            } else {
                slices.cut();
                mergeOpen(cursors);
            }
        } finally {
            for (Cursor cursor : cursors) {
                cursor.close();
            }
        }
    }

    private void mergeOpen(List<Cursor> cursors) throws IOException, InterruptedException {
        PriorityQueue<Cursor> rest = new PriorityQueue<>(Math.max(1, cursors.size()),
                Comparator.comparing((Cursor cursor) -> cursor.entry, Entry::compareKey));
        for (Cursor cursor : cursors) {
            if (cursor.next()) {
                rest.add(cursor);
            }
        }
        boolean isSum = fold.kind() == Fold.Kind.SUM;
        Entry sum = new Entry();
        boolean hasSum = false;
        while (!rest.isEmpty()) {
            Cursor least = rest.poll();
            if (!isSum) {
                slices.add(least.entry);
            } else if (hasSum && sum.compareKey(least.entry) == 0) {
                sum.add(least.entry);
            } else {
                if (hasSum) {
                    slices.add(sum);
                }
                sum.copy(least.entry);
                hasSum = true;
            }
            if (least.next()) {
                rest.add(least);
            }
        }
        if (hasSum) {
            slices.add(sum);
        }
    }
}
