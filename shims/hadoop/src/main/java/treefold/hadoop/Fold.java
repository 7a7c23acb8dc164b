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
        MERGE,
        /** The job's combiner, which runs beside the relays, gets them. */
        COMBINE
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
        String codecName = codec == null ? "" : codec.getClass().getName();
        if (kind == Kind.COMBINE) {
            return new Fold(kind, Keys.KEPT, Values.KEPT, codecName);
        }
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
        return new Fold(kind, keys, values, codecName);
    }

    /** The ready reduce by which relays fold what agents push. */
    String reduce() {
        return kind == Kind.COMBINE ? "append" : "merge-sorted";
    }

    /** The class of the job's combiner, of either API; empty if it has none. */
    static String combiner(JobConf job) {
        return job.get(MRJobConfig.COMBINE_CLASS_ATTR, job.get("mapred.combiner.class", ""));
    }

    private static Kind kind(JobConf job) throws Plain {
        String named = job.getTrimmed(REDUCE_KEY, "auto");
        String combiner = combiner(job);
        boolean hasCombiners = !job.getTrimmed(Settings.COMBINERS_KEY, "").isEmpty();
        switch (named) {
            case "sum":
                return Kind.SUM;
            case "merge":
                return Kind.MERGE;
            case "combine":
                if (combiner.isEmpty()) {
                    throw new Plain(REDUCE_KEY + " is combine, and the job has no combiner");
                }
                if (!hasCombiners) {
                    throw new Plain(REDUCE_KEY + " is combine, and " + Settings.COMBINERS_KEY + " is not set");
                }
                return Kind.COMBINE;
            case "none":
                throw new Plain(REDUCE_KEY + " is none");
            case "auto":
                if (SUMS.contains(combiner)) {
                    return Kind.SUM;
                }
                if (hasCombiners && !combiner.isEmpty()) {
                    return Kind.COMBINE;
                }
                throw new Plain((combiner.isEmpty() ? "the job has no combiner" : "the combiner " + combiner
                        + " is not known to add numbers, and " + Settings.COMBINERS_KEY + " is not set") + "; set " + REDUCE_KEY
                        + " if the job's reduce allows it");
            default:
                throw new Plain(REDUCE_KEY + " is \"" + named + "\"; expected auto, sum, merge, combine or none");
        }
    }
}
