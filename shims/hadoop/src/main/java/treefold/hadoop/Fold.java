package treefold.hadoop;

import java.util.Set;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapreduce.CryptoUtils;
import org.apache.hadoop.mapreduce.MRConfig;
import org.apache.hadoop.mapreduce.MRJobConfig;

/**
 * How the map outputs of a job are folded.
 *
 * @param kind the treatment of equal keys
 * @param keys the class of the keys
 * @param values the class of the values
 * @param codec the class that compresses map outputs; empty if they are not compressed
 */
record Fold(Kind kind, Keys keys, Values values, String codec) {
    /** The ready reduce of all kinds. */
    static final String REDUCE = "merge-sorted";
    static final String REDUCE_KEY = "treefold.shuffle.reduce";

    /** Combiners of Hadoop that add whole numbers. */
    private static final Set<String> SUMS = Set.of(
            "org.apache.hadoop.mapreduce.lib.reduce.IntSumReducer",
            "org.apache.hadoop.mapreduce.lib.reduce.LongSumReducer",
            "org.apache.hadoop.mapred.lib.LongSumReducer");

    /** The treatment of entries with equal keys. */
    enum Kind {
        /** Their numbers are added. */
        SUM,
        /** All of them are kept. */
        MERGE
    }

    /**
     * The fold of a job.
     *
     * @param codec the codec of its map outputs; null if they are not compressed
     * @throws Plain if it cannot be folded
     */
    static Fold of(JobConf job, CompressionCodec codec) throws Plain {
        if (CryptoUtils.isEncryptedSpillEnabled(job)) {
            throw new Plain("map outputs are encrypted (" + MRJobConfig.MR_ENCRYPTED_INTERMEDIATE_DATA + ")");
        }
        if (job.getBoolean(MRConfig.SHUFFLE_SSL_ENABLED_KEY, false)) {
            throw new Plain("the shuffle is encrypted (" + MRConfig.SHUFFLE_SSL_ENABLED_KEY + ")");
        }
        Kind kind = kind(job);
        String comparator = job.get(MRJobConfig.KEY_COMPARATOR);
        if (comparator != null) {
            throw new Plain("keys are ordered by " + comparator + ", not by their own class");
        }
        Class<?> keyClass = job.getMapOutputKeyClass();
        Keys keys = Keys.of(keyClass).orElseThrow(() -> new Plain("keys are of the class " + keyClass.getName()
                + "; Text, BytesWritable, IntWritable and LongWritable fold"));
        Class<?> valueClass = job.getMapOutputValueClass();
        Values values = kind == Kind.MERGE ? Values.KEPT : Values.ofNumbers(valueClass)
                .orElseThrow(() -> new Plain("values are of the class " + valueClass.getName()
                        + "; IntWritable, LongWritable, VIntWritable and VLongWritable can be added"));
        return new Fold(kind, keys, values, codec == null ? "" : codec.getClass().getName());
    }

    private static Kind kind(JobConf job) throws Plain {
        String named = job.getTrimmed(REDUCE_KEY, "auto");
        switch (named) {
            case "sum":
                return Kind.SUM;
            case "merge":
                return Kind.MERGE;
            case "none":
                throw new Plain(REDUCE_KEY + " is none");
            case "auto":
                String combiner = job.get(MRJobConfig.COMBINE_CLASS_ATTR, job.get("mapred.combiner.class", ""));
                if (SUMS.contains(combiner)) {
                    return Kind.SUM;
                }
                throw new Plain((combiner.isEmpty() ? "the job has no combiner" : "the combiner " + combiner
                        + " is not known to add numbers") + "; set " + REDUCE_KEY + " if the job's reduce allows it");
            default:
                throw new Plain(REDUCE_KEY + " is \"" + named + "\"; expected auto, sum, merge or none");
        }
    }
}
