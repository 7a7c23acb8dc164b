package treefold.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.hadoop.io.DataOutputBuffer;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.MapReduceBase;
import org.apache.hadoop.mapred.OutputCollector;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The job's own combiner over runs, and the orders that name it. */
final class CombiningTest {
    private static final int BYTES_MAX = 1 << 20;

    @TempDir
    Path folder;

    /** Keeps the greatest value of each key. Counts, and reads a property of the job. */
    public static final class Greatest extends Reducer<Text, LongWritable, Text, LongWritable> {
        static final String FACTOR = "treefold.test.factor";

        @Override
        protected void reduce(Text key, Iterable<LongWritable> values, Context context)
                throws IOException, InterruptedException {
            long greatest = Long.MIN_VALUE;
            for (LongWritable value : values) {
                greatest = Math.max(greatest, value.get());
            }
            context.getCounter("group", "keys").increment(1);
            context.progress();
            context.write(key, new LongWritable(greatest * context.getConfiguration().getInt(FACTOR, 1)));
        }
    }

    /** The same, for Hadoop's old API. */
    public static final class OldGreatest extends MapReduceBase
            implements org.apache.hadoop.mapred.Reducer<Text, LongWritable, Text, LongWritable> {
        private int factor;

        @Override
        public void configure(JobConf job) {
            factor = job.getInt(Greatest.FACTOR, 1);
        }

        @Override
        public void reduce(Text key, Iterator<LongWritable> values, OutputCollector<Text, LongWritable> output,
                Reporter reporter) throws IOException {
            long greatest = Long.MIN_VALUE;
            while (values.hasNext()) {
                greatest = Math.max(greatest, values.next().get());
            }
            output.collect(key, new LongWritable(greatest * factor));
        }
    }

    /** Fails. */
    public static final class Failing extends Reducer<Text, LongWritable, Text, LongWritable> {
        @Override
        protected void reduce(Text key, Iterable<LongWritable> values, Context context) {
            throw new IllegalStateException("no");
        }
    }

    private static byte[] serialized(Writable writable) throws IOException {
        DataOutputBuffer out = new DataOutputBuffer();
        writable.write(out);
        return Arrays.copyOf(out.getData(), out.getLength());
    }

    private static byte[] packet(Map<String, Long> entries) throws IOException {
        Packets.Writer writer = new Packets.Writer(Fold.Kind.COMBINE);
        for (Map.Entry<String, Long> entry : entries.entrySet()) {
            byte[] key = serialized(new Text(entry.getKey()));
            byte[] value = serialized(new LongWritable(entry.getValue()));
            writer.add(key, 0, key.length, value, value.length);
        }
        return writer.take();
    }

    private static Map<String, Long> read(byte[] packets) throws IOException {
        Map<String, Long> entries = new java.util.LinkedHashMap<>();
        for (KeptRun run : KeptRun.all(packets)) {
            while (run.next()) {
                Text key = new Text();
                key.readFields(new DataInputStream(new ByteArrayInputStream(run.bytes, run.keyAt, run.keyLength)));
                long value = new DataInputStream(new ByteArrayInputStream(run.bytes, run.valueAt, run.valueLength)).readLong();
                assertEquals(null, entries.put(key.toString(), value));
            }
        }
        return entries;
    }

    private static byte[] combine(JobConf job, byte[] runs) throws Exception {
        job.setMapOutputKeyClass(Text.class);
        job.setMapOutputValueClass(LongWritable.class);
        return new Combining<>(job, TaskAttemptID.forName("attempt_1_0001_r_000000_0")).combine(KeptRun.all(runs), BYTES_MAX);
    }

    private static JobConf job(Class<?> combiner) {
        JobConf job = new JobConf();
        job.set(MRJobConfig.COMBINE_CLASS_ATTR, combiner.getName());
        return job;
    }

    @Test
    void combiners_of_both_apis_get_all_values_of_a_key_in_the_jobs_order() throws Exception {
        JobConf old = new JobConf();
        old.setCombinerClass(OldGreatest.class);
        for (JobConf job : List.of(job(Greatest.class), old)) {
            job.setInt(Greatest.FACTOR, 3);
            job.setClass(MRJobConfig.KEY_COMPARATOR, HadoopTest.Backwards.class, org.apache.hadoop.io.RawComparator.class);
            Random random = new Random(5);
            Map<String, Long> expected = new TreeMap<>(Comparator.reverseOrder());
            ByteArrayOutputStream runs = new ByteArrayOutputStream();
            for (int run = 0; run < 7; run++) {
                Map<String, Long> entries = new TreeMap<>(Comparator.reverseOrder());
                for (int entry = 0; entry < 300; entry++) {
                    entries.put("key" + random.nextInt(500), random.nextLong() >> 8);
                }
                runs.write(packet(entries));
                entries.forEach((key, value) -> expected.merge(key, value, Math::max));
            }
            expected.replaceAll((key, value) -> 3 * value);
            Map<String, Long> combined = read(combine(job, runs.toByteArray()));
            assertEquals(expected, combined);
            assertEquals(List.copyOf(expected.keySet()), List.copyOf(combined.keySet()));
        }
    }

    @Test
    void nothing_combines_to_nothing() throws Exception {
        assertArrayEquals(new byte[0], combine(job(Greatest.class), new byte[0]));
        assertArrayEquals(new byte[0], combine(job(Greatest.class), packet(Map.of())));
    }

    @Test
    void combiner_that_fails_or_returns_too_much_is_an_error() throws Exception {
        byte[] runs = packet(Map.of("a", 1L));
        assertEquals("the combiner failed: java.lang.IllegalStateException: no",
                assertThrows(IOException.class, () -> combine(job(Failing.class), runs)).getMessage());
        byte[] large = packet(Map.of("a".repeat(BYTES_MAX), 1L));
        assertTrue(assertThrows(IOException.class, () -> combine(job(Greatest.class), large)).getMessage()
                .startsWith("the combined slice has more than"));
    }

    @Test
    void malformed_runs_are_errors() throws Exception {
        byte[] runs = packet(new TreeMap<>(Map.of("a", 1L, "b", 2L)));
        for (int cut = 1; cut < runs.length; cut++) {
            byte[] less = Arrays.copyOf(runs, cut);
            assertThrows(IOException.class, () -> combine(job(Greatest.class), less), "cut at " + cut);
        }
        Random random = new Random(9);
        for (int round = 0; round < 5_000; round++) {
            byte[] changed = runs.clone();
            changed[random.nextInt(changed.length)] = (byte) random.nextInt();
            try {
                combine(job(Greatest.class), changed);
            } catch (IOException error) {
                assertFalse(error.getMessage().isEmpty());
            }
        }
        byte[] empty = packet(Map.of());
        byte[] many = new byte[(KeptRun.RUNS_MAX + 1) * empty.length];
        for (int at = 0; at < many.length; at += empty.length) {
            System.arraycopy(empty, 0, many, at, empty.length);
        }
        assertTrue(assertThrows(IOException.class, () -> KeptRun.all(many)).getMessage().contains("more than"));
    }

    private static CombineOrder order(JobConf job) {
        return new CombineOrder("job_1700000000000_0007", 3, 640, new Wanted(8, 0, 0b1010_0001), 600, new int[] {1, 7, 9}, "",
                CombineOrder.properties(job));
    }

    @Test
    void order_has_the_jobs_properties_and_no_secret() {
        JobConf job = job(Greatest.class);
        job.set(Greatest.FACTOR, "2 = %41&\n${x}é");
        job.set("fs.s3a.secret.key", "secret");
        CombineOrder order = order(job);
        CombineOrder read = CombineOrder.parse(order.text());
        assertEquals(order.text(), read.text());
        assertEquals(order.request(), read.request());
        JobConf conf = read.conf(CombiningTest.class.getClassLoader());
        assertEquals(job.get(Greatest.FACTOR), conf.get(Greatest.FACTOR));
        assertEquals(Greatest.class.getName(), conf.get(MRJobConfig.COMBINE_CLASS_ATTR));
        assertEquals(null, conf.get("fs.s3a.secret.key"));
        assertEquals(job.get("io.serializations"), conf.get("io.serializations"));
    }

    @Test
    void other_orders_have_other_requests() {
        CombineOrder order = order(job(Greatest.class));
        assertEquals(0, order.request() % Settings.SLICES_MAX);
        assertNotEquals(order.request(), order(job(Failing.class)).request());
        CombineOrder elsewhere = new CombineOrder(order.job(), order.reduce(), order.into() + 64, order.wanted(),
                order.seconds(), order.workers(), order.jar(), order.properties());
        assertNotEquals(order.request(), elsewhere.request());
    }

    @Test
    void wrong_orders_are_refused() {
        String text = order(job(Greatest.class)).text();
        for (String wrong : List.of("", "x", "\n", text + "more=1\n", text + text, text.replace("job=job_", "job=../"),
                text.replace("jar=", "jar=ab"), text.replace("slices=8", "slices=4097"), text.replace("wanted=a1", "wanted=0"),
                text.replace("seconds=600", "seconds=3601"), text.replace("workers=1%2C7", "workers=x"),
                text.replace("reduce=3", "reduce=-3"), text.replace("reduce=3\n", ""), text.replace("into=", "into=%"))) {
            assertThrows(IllegalArgumentException.class, () -> CombineOrder.parse(wrong), wrong);
        }
    }

    @Test
    void jars_are_found_by_their_digest_and_only_in_the_folder() throws Exception {
        Path jar = folder.resolve("jobs.jar");
        MiniCluster.writeJar(jar);
        String digest = Jars.digest(Files.newInputStream(jar));
        assertTrue(new Jars(null).find(digest).isEmpty());
        Path allowed = Files.createDirectory(folder.resolve("allowed"));
        Jars jars = new Jars(allowed);
        assertTrue(jars.find(digest).isEmpty());
        Files.copy(jar, allowed.resolve("other-name.jar"));
        ClassLoader loader = jars.find(digest).orElseThrow();
        assertEquals(loader, jars.find(digest).orElseThrow());
        assertTrue(jars.find("0".repeat(64)).isEmpty());
        assertTrue(loader.getResource("treefold/hadoop/Jobs$Belief.class") != null);
    }
}
