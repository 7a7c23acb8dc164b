package treefold.hadoop;

import java.io.IOException;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.DataInputBuffer;
import org.apache.hadoop.io.RawComparator;
import org.apache.hadoop.mapred.IFile;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.Merger;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.apache.hadoop.mapred.ShuffleConsumerPlugin;

/** The folded runs of a reducer, one for each slice, in files of its task as Hadoop's own shuffle has them. */
final class Segments<K, V> {
    private static final int SHARE_OF_SIZE = 2;
    /** Hadoop's merge needs a factor of two. */
    private static final int FACTOR_LEAST = 2;
    /** Slices that are merged at a time. */
    private static final int FACTOR_MOST = 64;

    private final ShuffleConsumerPlugin.Context<K, V> context;
    private final Fold fold;
    private final FileSystem local;
    private final Class<K> keyClass;
    private final Class<V> valueClass;
    /** The file of each slice that has come. */
    private final Path[] files;
    private final AtomicLong bytes = new AtomicLong();

    @SuppressWarnings("unchecked")
    Segments(ShuffleConsumerPlugin.Context<K, V> context, Fold fold, int slices) throws IOException {
        this.context = context;
        this.fold = fold;
        this.local = FileSystem.getLocal(context.getJobConf()).getRaw();
        this.keyClass = (Class<K>) context.getJobConf().getMapOutputKeyClass();
        this.valueClass = (Class<V>) context.getJobConf().getMapOutputValueClass();
        this.files = new Path[slices];
    }

    /** The first slices that have not come, at most so many of a window; empty if all have. */
    synchronized Optional<Wanted> wanted(int window) {
        int from = 0;
        while (from < files.length && files[from] != null) {
            from++;
        }
        if (from == files.length) {
            return Optional.empty();
        }
        long bits = 0;
        for (int slice = from; slice < Math.min(files.length, from + window); slice++) {
            bits |= files[slice] == null ? 1L << slice - from : 0;
        }
        return Optional.of(new Wanted(files.length, from, bits));
    }

    /** Bytes of all folded runs, as they came. */
    long bytes() {
        return bytes.get();
    }

    /** Stores the folded run of a slice. */
    void store(int slice, byte[] run) throws IOException {
        JobConf job = context.getJobConf();
        String name = "treefold-" + context.getReduceId() + "-slice-" + slice;
        Path file = context.getLocalDirAllocator().getLocalPathForWrite(name, run.length + run.length / SHARE_OF_SIZE, job);
        IFile.Writer<K, V> writer = new IFile.Writer<>(job, local.create(file, true), keyClass, valueClass, null, null, true);
        try {
            append(run, writer);
        } finally {
            writer.close();
        }
        bytes.addAndGet(run.length);
        synchronized (this) {
            files[slice] = file;
        }
    }

    private void append(byte[] run, IFile.Writer<K, V> writer) throws IOException {
        DataInputBuffer keyIn = new DataInputBuffer();
        DataInputBuffer valueIn = new DataInputBuffer();
        if (fold.kind() != Fold.Kind.COMBINE) {
            Packets.read(run, fold, (key, value) -> {
                keyIn.reset(key.getData(), key.getLength());
                valueIn.reset(value.getData(), value.getLength());
                writer.append(keyIn, valueIn);
            });
            return;
        }
        RawComparator<?> order = context.getJobConf().getOutputKeyComparator();
        int lastAt = 0;
        int lastLength = 0;
        boolean isFirst = true;
        for (KeptRun each : KeptRun.all(run)) {
            while (each.next()) {
                if (!isFirst && order.compare(run, lastAt, lastLength, run, each.keyAt, each.keyLength) > 0) {
                    throw new IOException("the combiner changes keys so that their order is another");
                }
                isFirst = false;
                lastAt = each.keyAt;
                lastLength = each.keyLength;
                keyIn.reset(run, each.keyAt, each.keyLength);
                valueIn.reset(run, each.valueAt, each.valueLength);
                writer.append(keyIn, valueIn);
            }
        }
    }

    /** Merges all slices into the reducer's one run, over further files if there are many. The files are deleted as they are read. */
    @SuppressWarnings("unchecked")
    RawKeyValueIterator merge() throws IOException {
        JobConf job = context.getJobConf();
        RawComparator<K> order = (RawComparator<K>) job.getOutputKeyComparator();
        return Merger.merge(job, local, keyClass, valueClass, null, files, true,
                Math.min(Math.max(files.length, FACTOR_LEAST), FACTOR_MOST),
                new Path(context.getReduceId().toString()), order, context.getReporter(), context.getSpilledRecordsCounter(),
                null, context.getMergePhase());
    }

    /** Deletes the files. */
    synchronized void delete() {
        for (int slice = 0; slice < files.length; slice++) {
            if (files[slice] != null) {
                try {
                    local.delete(files[slice], false);
                } catch (IOException error) {
                    // The task's folder is deleted with the task.
                }
                files[slice] = null;
            }
        }
    }
}
