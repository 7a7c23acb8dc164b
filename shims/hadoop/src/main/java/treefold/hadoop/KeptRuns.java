package treefold.hadoop;

import java.io.IOException;
import java.util.List;
import java.util.PriorityQueue;
import org.apache.hadoop.io.DataInputBuffer;
import org.apache.hadoop.io.RawComparator;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.apache.hadoop.util.Progress;

/** Sorted runs, merged by a job's own order of keys. */
final class KeptRuns implements RawKeyValueIterator {
    private final PriorityQueue<KeptRun> rest;
    private KeptRun least;
    private final DataInputBuffer key = new DataInputBuffer();
    private final DataInputBuffer value = new DataInputBuffer();
    private final Progress progress = new Progress();

    KeptRuns(List<KeptRun> runs, RawComparator<?> order) throws IOException {
        rest = new PriorityQueue<>(Math.max(1, runs.size()), (one, other) ->
                order.compare(one.bytes, one.keyAt, one.keyLength, other.bytes, other.keyAt, other.keyLength));
        for (KeptRun run : runs) {
            if (run.next()) {
                rest.add(run);
            }
        }
    }

    @Override
    public boolean next() throws IOException {
        if (least != null && least.next()) {
            rest.add(least);
        }
        least = rest.poll();
        if (least == null) {
            return false;
        }
        key.reset(least.bytes, least.keyAt, least.keyLength);
        value.reset(least.bytes, least.valueAt, least.valueLength);
        return true;
    }

    @Override
    public DataInputBuffer getKey() {
        return key;
    }

    @Override
    public DataInputBuffer getValue() {
        return value;
    }

    @Override
    public Progress getProgress() {
        return progress;
    }

    @Override
    public void close() { }
}
