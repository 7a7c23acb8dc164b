package treefold.hadoop;

import java.io.EOFException;
import java.io.IOException;
import java.util.List;
import org.apache.hadoop.io.DataOutputBuffer;
import org.apache.hadoop.io.RawComparator;
import org.apache.hadoop.io.serializer.SerializationFactory;
import org.apache.hadoop.io.serializer.Serializer;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapreduce.Counter;
import org.apache.hadoop.mapreduce.Counters;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.apache.hadoop.mapreduce.RecordWriter;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.StatusReporter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.lib.reduce.WrappedReducer;
import org.apache.hadoop.mapreduce.task.ReduceContextImpl;
import org.apache.hadoop.util.ReflectionUtils;

/**
 * Runs a job's own combiner, of either API, over the merged runs of a slice: with the job's classes, comparators and properties,
 * as Hadoop does at the maps. Counters and the status of the combiner are lost.
 */
final class Combining<K, V> {
    private final JobConf job;
    private final TaskAttemptID attempt;
    private final RawComparator<K> order;
    private final RawComparator<K> grouping;
    private final Class<K> keyClass;
    private final Class<V> valueClass;

    /**
     * Loads the job's classes by the class loader of its properties.
     *
     * @throws RuntimeException if one is missing or of another kind
     */
    @SuppressWarnings("unchecked")
    Combining(JobConf job, TaskAttemptID attempt) {
        this.job = job;
        this.attempt = attempt;
        this.order = job.getOutputKeyComparator();
        this.grouping = job.getCombinerKeyGroupingComparator();
        this.keyClass = (Class<K>) job.getMapOutputKeyClass();
        this.valueClass = (Class<V>) job.getMapOutputValueClass();
    }

    /**
     * Combines the runs of a slice.
     *
     * @param bytesMax the most bytes of the result
     * @return one packet; empty if there are no entries
     * @throws IOException if the runs are malformed, the combiner fails, or the result is too large
     */
    byte[] combine(List<KeptRun> runs, int bytesMax) throws IOException, InterruptedException {
        Output output = new Output(bytesMax);
        try {
            KeptRuns merged = new KeptRuns(runs, order);
            if (job.getCombinerClass() != null) {
                runOld(merged, output);
            } else {
                runNew(merged, output);
            }
        } catch (EOFException error) {
            throw new IOException("a key or a value has fewer bytes than its class", error);
        } catch (RuntimeException | LinkageError | StackOverflowError error) {
            throw new IOException("the combiner failed: " + error, error);
        }
        return output.packet.isEmpty() ? new byte[0] : output.packet.take();
    }

    private ReduceContextImpl<K, V, K, V> context(RawKeyValueIterator input, Output output)
            throws IOException, InterruptedException {
        Lost status = new Lost();
        return new ReduceContextImpl<>(job, attempt, input, status.getCounter("", "keys"), status.getCounter("", "values"),
                output, null, status, grouping, keyClass, valueClass);
    }

    @SuppressWarnings("unchecked")
    private void runNew(RawKeyValueIterator input, Output output) throws IOException, InterruptedException {
        Class<?> named = job.getClass(MRJobConfig.COMBINE_CLASS_ATTR, null, Reducer.class);
        if (named == null) {
            throw new IOException("the job has no combiner");
        }
        Reducer<K, V, K, V> combiner = (Reducer<K, V, K, V>) ReflectionUtils.newInstance(named, job);
        combiner.run(new WrappedReducer<K, V, K, V>().getReducerContext(context(input, output)));
    }

    @SuppressWarnings("unchecked")
    private void runOld(RawKeyValueIterator input, Output output) throws IOException, InterruptedException {
        org.apache.hadoop.mapred.Reducer<K, V, K, V> combiner =
                ReflectionUtils.newInstance(job.getCombinerClass(), job);
        ReduceContextImpl<K, V, K, V> groups = context(input, output);
        try {
            while (groups.nextKey()) {
                combiner.reduce(groups.getCurrentKey(), groups.getValues().iterator(), output::write, Reporter.NULL);
            }
        } finally {
            combiner.close();
        }
    }

    /** Serializes the combiner's output. */
    private final class Output extends RecordWriter<K, V> {
        final Packets.Writer packet = new Packets.Writer(Fold.Kind.COMBINE);
        private final int bytesMax;
        private final DataOutputBuffer key = new DataOutputBuffer();
        private final DataOutputBuffer value = new DataOutputBuffer();
        private final Serializer<K> keys;
        private final Serializer<V> values;

        Output(int bytesMax) throws IOException {
            SerializationFactory factory = new SerializationFactory(job);
            this.bytesMax = bytesMax - Packets.HEAD_BYTES;
            keys = factory.getSerializer(keyClass);
            values = factory.getSerializer(valueClass);
            keys.open(key);
            values.open(value);
        }

        @Override
        public void write(K newKey, V newValue) throws IOException {
            key.reset();
            value.reset();
            keys.serialize(newKey);
            values.serialize(newValue);
            if (packet.bytes() + 2L * Integer.BYTES + key.getLength() + value.getLength() > bytesMax) {
                throw new IOException("the combined slice has more than " + bytesMax + " bytes; use more slices");
            }
            packet.add(key.getData(), 0, key.getLength(), value.getData(), value.getLength());
        }

        @Override
        public void close(TaskAttemptContext context) { }
    }

    /** A status that nobody reads. */
    private static final class Lost extends StatusReporter {
        private final Counters counters = new Counters();

        @Override
        public Counter getCounter(Enum<?> name) {
            return counters.findCounter(name);
        }

        @Override
        public Counter getCounter(String group, String name) {
            return counters.findCounter(group, name);
        }

        @Override
        public void progress() { }

        @Override
        public float getProgress() {
            return 0;
        }

        @Override
        public void setStatus(String status) { }
    }
}
