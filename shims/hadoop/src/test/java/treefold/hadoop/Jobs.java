package treefold.hadoop;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.mapreduce.lib.reduce.LongSumReducer;

/**
 * The jobs of NetAgg's experiments (§4.2.2). Sums are of whole numbers, so that no order of additions changes the output: money
 * in cents, ranks and weights in billionths.
 */
public enum Jobs {
    /** WordCount: counts each word of the text. */
    WC(WordMapper.class, SumReducer.class, "sum"),
    /** AdPredictor: adds the messages of impressions to the weight of each of their features. */
    AP(AdMapper.class, SumReducer.class, "sum"),
    /** PageRank: one iteration, over lines of a page, its rank and its links. */
    PR(RankMapper.class, RankReducer.class, "sum"),
    /** UserVisits: adds the revenue of each source address. */
    UV(VisitMapper.class, SumReducer.class, "sum"),
    /** TeraSort: sorts records of a key of 10 bytes and 90 others. */
    TS(SortMapper.class, SortReducer.class, "merge");

    /** The unit of fixed-point numbers. */
    static final long BILLION = 1_000_000_000;

    private final Class<? extends Mapper<LongWritable, Text, Text, ?>> mapper;
    private final Class<? extends Reducer<Text, ?, Text, ?>> reducer;
    private final String fold;

    Jobs(Class<? extends Mapper<LongWritable, Text, Text, ?>> mapper, Class<? extends Reducer<Text, ?, Text, ?>> reducer,
            String fold) {
        this.mapper = mapper;
        this.reducer = reducer;
        this.fold = fold;
    }

    /** What the job sets as {@code treefold.shuffle.reduce}. */
    public String fold() {
        return fold;
    }

    /** Makes the job. Sums are combined at the maps. */
    public Job job(Configuration conf, Path input, Path output, int reducers) throws IOException {
        Job job = Job.getInstance(conf, name());
        job.setJarByClass(Jobs.class);
        job.setMapperClass(mapper);
        job.setReducerClass(reducer);
        job.setOutputKeyClass(Text.class);
        job.setOutputValueClass(this == TS ? Text.class : LongWritable.class);
        if (this != TS) {
            job.setCombinerClass(LongSumReducer.class);
        }
        job.setNumReduceTasks(reducers);
        FileInputFormat.addInputPath(job, input);
        FileOutputFormat.setOutputPath(job, output);
        return job;
    }

    /** Emits each word of a line once. */
    public static final class WordMapper extends Mapper<LongWritable, Text, Text, LongWritable> {
        /** The first attempt of this map fails. */
        static final String FAILS = "treefold.test.map-fails";

        private final LongWritable one = new LongWritable(1);
        private final Text word = new Text();

        @Override
        protected void setup(Context context) throws IOException {
            boolean isFirst = context.getTaskAttemptID().getId() == 0;
            if (isFirst && context.getTaskAttemptID().getTaskID().getId() == context.getConfiguration().getInt(FAILS, -1)) {
                throw new IOException("this attempt was told to fail");
            }
        }

        @Override
        protected void map(LongWritable at, Text line, Context context) throws IOException, InterruptedException {
            for (String part : line.toString().split(" ")) {
                word.set(part);
                context.write(word, one);
            }
        }
    }

    /** Adds. */
    public static class SumReducer extends Reducer<Text, LongWritable, Text, LongWritable> {
        private final LongWritable result = new LongWritable();

        /** The result for a sum. */
        protected long of(long sum) {
            return sum;
        }

        @Override
        protected void reduce(Text key, Iterable<LongWritable> values, Context context)
                throws IOException, InterruptedException {
            long sum = 0;
            for (LongWritable value : values) {
                sum += value.get();
            }
            result.set(of(sum));
            context.write(key, result);
        }
    }

    /** Emits the revenue of a visit: source, page, date, cents. */
    public static final class VisitMapper extends Mapper<LongWritable, Text, Text, LongWritable> {
        private final Text source = new Text();
        private final LongWritable cents = new LongWritable();

        @Override
        protected void map(LongWritable at, Text line, Context context) throws IOException, InterruptedException {
            String[] fields = line.toString().split("\\|");
            source.set(fields[0]);
            cents.set(Long.parseLong(fields[3]));
            context.write(source, cents);
        }
    }

    /** Emits a part of a page's rank to each page that it links to. */
    public static final class RankMapper extends Mapper<LongWritable, Text, Text, LongWritable> {
        private final Text link = new Text();
        private final LongWritable share = new LongWritable();

        @Override
        protected void map(LongWritable at, Text line, Context context) throws IOException, InterruptedException {
            String[] fields = line.toString().split(" ");
            share.set(Long.parseLong(fields[1]) / (fields.length - 2));
            for (int next = 2; next < fields.length; next++) {
                link.set(fields[next]);
                context.write(link, share);
            }
        }
    }

    /** Makes the new rank, with a damping factor of 0.85. */
    public static final class RankReducer extends SumReducer {
        @Override
        protected long of(long sum) {
            return BILLION / 100 * 15 + sum / 100 * 85;
        }
    }

    /**
     * Emits the messages of an impression: a click or none, and its features. The update of the mean and of the precision of
     * each feature's weight are those of Bayesian probit regression, from a prior of mean 0 and variance 1.
     */
    public static final class AdMapper extends Mapper<LongWritable, Text, Text, LongWritable> {
        private static final double SCALE = 0.05;

        private final Text feature = new Text();
        private final LongWritable message = new LongWritable();

        @Override
        protected void map(LongWritable at, Text line, Context context) throws IOException, InterruptedException {
            String[] fields = line.toString().split(" ");
            double click = fields[0].equals("1") ? 1 : -1;
            int features = fields.length - 1;
            double variance = SCALE * SCALE + features;
            double margin = click * mean(fields) / Math.sqrt(variance);
            double gain = density(margin) / Math.max(below(margin), 1e-9);
            double shrink = gain * (gain + margin);
            for (int next = 1; next < fields.length; next++) {
                emit(fields[next] + "/mean", click * gain / Math.sqrt(variance), context);
                emit(fields[next] + "/precision", shrink / (variance - shrink), context);
            }
        }

        /** The prior's mean, a small bias of each feature. */
        private static double mean(String[] fields) {
            double mean = 0;
            for (int next = 1; next < fields.length; next++) {
                mean += (fields[next].hashCode() % 1_000) / 100_000.0;
            }
            return mean;
        }

        private static double density(double at) {
            return Math.exp(-at * at / 2) / Math.sqrt(2 * Math.PI);
        }

        /** The normal distribution, by Simpson's rule: the work of the job. */
        private static double below(double at) {
            double step = at / 64;
            double sum = 0;
            for (int part = 0; part < 64; part += 2) {
                sum += density(part * step) + 4 * density((part + 1) * step) + density((part + 2) * step);
            }
            return 0.5 + sum * step / 3;
        }

        private void emit(String name, double value, Context context) throws IOException, InterruptedException {
            feature.set(name);
            message.set(Math.round(value * BILLION));
            context.write(feature, message);
        }
    }

    /** Emits a record by its key. */
    public static final class SortMapper extends Mapper<LongWritable, Text, Text, Text> {
        /** Bytes of a record's key. */
        static final int KEY_BYTES = 10;

        private final Text key = new Text();
        private final Text rest = new Text();

        @Override
        protected void map(LongWritable at, Text line, Context context) throws IOException, InterruptedException {
            key.set(line.getBytes(), 0, KEY_BYTES);
            rest.set(line.getBytes(), KEY_BYTES, line.getLength() - KEY_BYTES);
            context.write(key, rest);
        }
    }

    /** Keeps all records. */
    public static final class SortReducer extends Reducer<Text, Text, Text, Text> { }
}
