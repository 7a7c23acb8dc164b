package treefold.hadoop;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.DoubleWritable;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.mapreduce.lib.reduce.LongSumReducer;

/**
 * The jobs of NetAgg's experiments (§4.2.2), written for the tests. WordCount and UserVisits add whole numbers. AdPredictor and
 * PageRank add floating-point numbers, by combiners of their own, which relays and shuffle do not know.
 */
public enum Jobs {
    /** WordCount: counts each word of the text. */
    WC(WordMapper.class, SumReducer.class, "sum"),
    /** AdPredictor: multiplies the messages of impressions about the weight of each of their features. */
    AP(AdMapper.class, BeliefReducer.class, "auto"),
    /** PageRank: one iteration, over lines of a page, its rank and its links. */
    PR(RankMapper.class, RankReducer.class, "auto"),
    /** UserVisits: adds the revenue of each source address. */
    UV(VisitMapper.class, SumReducer.class, "sum"),
    /** TeraSort: sorts records of a key of 10 bytes and 90 others. */
    TS(SortMapper.class, SortReducer.class, "merge");

    private final Class<? extends Mapper<LongWritable, Text, Text, ?>> mapper;
    private final Class<? extends Reducer<Text, ?, Text, ?>> reducer;
    private final String fold;

    Jobs(Class<? extends Mapper<LongWritable, Text, Text, ?>> mapper, Class<? extends Reducer<Text, ?, Text, ?>> reducer,
            String fold) {
        this.mapper = mapper;
        this.reducer = reducer;
        this.fold = fold;
    }

    /** The job's value of {@code treefold.shuffle.reduce}. */
    public String fold() {
        return fold;
    }

    /** True if the output has floating-point numbers, whose last digits depend on the order of additions. */
    public boolean hasFloats() {
        return this == AP || this == PR;
    }

    /** Makes the job. All but TeraSort combine at the maps. */
    public Job job(Configuration conf, Path input, Path output, int reducers) throws IOException {
        Job job = Job.getInstance(conf, name());
        job.setJarByClass(Jobs.class);
        job.setMapperClass(mapper);
        job.setReducerClass(reducer);
        job.setMapOutputKeyClass(Text.class);
        job.setOutputKeyClass(Text.class);
        switch (this) {
            case AP -> {
                job.setMapOutputValueClass(Belief.class);
                job.setOutputValueClass(Text.class);
                job.setCombinerClass(BeliefCombiner.class);
            }
            case PR -> {
                job.setMapOutputValueClass(DoubleWritable.class);
                job.setOutputValueClass(DoubleWritable.class);
                job.setCombinerClass(RankCombiner.class);
            }
            case TS -> {
                job.setMapOutputValueClass(Text.class);
                job.setOutputValueClass(Text.class);
            }
            default -> {
                job.setMapOutputValueClass(LongWritable.class);
                job.setOutputValueClass(LongWritable.class);
                job.setCombinerClass(LongSumReducer.class);
            }
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
    public static final class SumReducer extends Reducer<Text, LongWritable, Text, LongWritable> {
        private final LongWritable result = new LongWritable();

        @Override
        protected void reduce(Text key, Iterable<LongWritable> values, Context context)
                throws IOException, InterruptedException {
            long sum = 0;
            for (LongWritable value : values) {
                sum += value.get();
            }
            result.set(sum);
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
    public static final class RankMapper extends Mapper<LongWritable, Text, Text, DoubleWritable> {
        private final Text link = new Text();
        private final DoubleWritable share = new DoubleWritable();

        @Override
        protected void map(LongWritable at, Text line, Context context) throws IOException, InterruptedException {
            String[] fields = line.toString().split(" ");
            share.set(Double.parseDouble(fields[1]) / (fields.length - 2));
            for (int next = 2; next < fields.length; next++) {
                link.set(fields[next]);
                context.write(link, share);
            }
        }
    }

    private static double sum(Iterable<DoubleWritable> values) {
        double sum = 0;
        for (DoubleWritable value : values) {
            sum += value.get();
        }
        return sum;
    }

    /** Adds the parts of a page's rank. */
    public static final class RankCombiner extends Reducer<Text, DoubleWritable, Text, DoubleWritable> {
        private final DoubleWritable result = new DoubleWritable();

        @Override
        protected void reduce(Text key, Iterable<DoubleWritable> values, Context context)
                throws IOException, InterruptedException {
            result.set(sum(values));
            context.write(key, result);
        }
    }

    /** Makes the new rank, with a damping factor of 0.85. */
    public static final class RankReducer extends Reducer<Text, DoubleWritable, Text, DoubleWritable> {
        private final DoubleWritable result = new DoubleWritable();

        @Override
        protected void reduce(Text key, Iterable<DoubleWritable> values, Context context)
                throws IOException, InterruptedException {
            result.set(0.15 + 0.85 * sum(values));
            context.write(key, result);
        }
    }

    /** A normal distribution in its natural parameters, so that a product of distributions is a sum. */
    public static final class Belief implements Writable {
        double precision;
        double precisionMean;

        @Override
        public void write(DataOutput out) throws IOException {
            out.writeDouble(precision);
            out.writeDouble(precisionMean);
        }

        @Override
        public void readFields(DataInput in) throws IOException {
            precision = in.readDouble();
            precisionMean = in.readDouble();
        }

        /** Makes this the product of others. */
        Belief product(Iterable<Belief> others) {
            precision = 0;
            precisionMean = 0;
            for (Belief other : others) {
                precision += other.precision;
                precisionMean += other.precisionMean;
            }
            return this;
        }
    }

    /** Multiplies the messages about a feature. */
    public static final class BeliefCombiner extends Reducer<Text, Belief, Text, Belief> {
        private final Belief product = new Belief();

        @Override
        protected void reduce(Text feature, Iterable<Belief> messages, Context context)
                throws IOException, InterruptedException {
            context.write(feature, product.product(messages));
        }
    }

    /** Makes the mean and the variance of a feature's weight, from a prior of mean 0 and variance 1. */
    public static final class BeliefReducer extends Reducer<Text, Belief, Text, Text> {
        private final Belief product = new Belief();
        private final Text posterior = new Text();

        @Override
        protected void reduce(Text feature, Iterable<Belief> messages, Context context)
                throws IOException, InterruptedException {
            double variance = 1 / (1 + product.product(messages).precision);
            posterior.set(variance * product.precisionMean + "\t" + variance);
            context.write(feature, posterior);
        }
    }

    /**
     * Emits the messages of an impression: a click or none, and its features. They are those of Bayesian probit regression, from
     * a prior of variance 1 for each feature's weight: the posterior divided by the prior.
     */
    public static final class AdMapper extends Mapper<LongWritable, Text, Text, Belief> {
        private static final double SCALE = 0.05;

        private final Text feature = new Text();
        private final Belief message = new Belief();

        @Override
        protected void map(LongWritable at, Text line, Context context) throws IOException, InterruptedException {
            String[] fields = line.toString().split(" ");
            double click = fields[0].equals("1") ? 1 : -1;
            int features = fields.length - 1;
            double variance = SCALE * SCALE + features;
            double margin = click * mean(fields) / Math.sqrt(variance);
            double gain = density(margin) / Math.max(below(margin), 1e-9);
            double shrink = gain * (gain + margin);
            double newVariance = 1 - shrink / variance;
            for (int next = 1; next < fields.length; next++) {
                double mean = mean(fields[next]);
                message.precision = 1 / newVariance - 1;
                message.precisionMean = (mean + click * gain / Math.sqrt(variance)) / newVariance - mean;
                feature.set(fields[next]);
                context.write(feature, message);
            }
        }

        private static double mean(String[] fields) {
            double mean = 0;
            for (int next = 1; next < fields.length; next++) {
                mean += mean(fields[next]);
            }
            return mean;
        }

        /** The prior's mean of a feature, a small bias. */
        private static double mean(String feature) {
            return (feature.hashCode() % 1_000) / 100_000.0;
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
