package treefold.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Random;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.DataOutputBuffer;
import org.apache.hadoop.io.DoubleWritable;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.VIntWritable;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.io.WritableComparable;
import org.apache.hadoop.io.WritableComparator;
import org.apache.hadoop.io.compress.DefaultCodec;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapreduce.MRConfig;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.apache.hadoop.mapreduce.lib.reduce.IntSumReducer;
import org.junit.jupiter.api.Test;

/** Which jobs fold, and the bytes of their keys and values. */
final class FoldTest {
    private static byte[] serialized(Writable writable) throws IOException {
        DataOutputBuffer out = new DataOutputBuffer();
        writable.write(out);
        return Arrays.copyOf(out.getData(), out.getLength());
    }

    private static Writable random(Keys keys, Random random) {
        byte[] bytes = new byte[random.nextInt(6)];
        for (int at = 0; at < bytes.length; at++) {
            bytes[at] = (byte) (random.nextInt(4) * 85);
        }
        return switch (keys) {
            case TEXT -> new Text(bytes);
            case BYTES -> new BytesWritable(bytes);
            case INT -> new IntWritable(random.nextInt(5) - 2 + (random.nextBoolean() ? Integer.MIN_VALUE : 0));
            case LONG -> new LongWritable(random.nextInt(5) - 2 + (random.nextBoolean() ? Long.MIN_VALUE : 0));
            case KEPT -> throw new IllegalArgumentException("kept keys have no order");
        };
    }

    @Test
    void bytes_of_keys_have_hadoops_order_and_are_restored() throws IOException {
        Random random = new Random(1);
        for (Keys keys : EnumSet.complementOf(EnumSet.of(Keys.KEPT))) {
            for (int round = 0; round < 2_000; round++) {
                Writable one = random(keys, random);
                Writable other = random(keys, random);
                byte[] a = serialized(one);
                byte[] b = serialized(other);
                @SuppressWarnings("rawtypes")
                WritableComparator order = WritableComparator.get(one.getClass().asSubclass(WritableComparable.class));
                int expected = Integer.signum(order.compare(a, 0, a.length, b, 0, b.length));
                byte[] encoded = a.clone();
                byte[] otherEncoded = b.clone();
                int at = keys.encode(encoded, encoded.length);
                int otherAt = keys.encode(otherEncoded, otherEncoded.length);
                assertEquals(expected, Integer.signum(Arrays.compareUnsigned(encoded, at, encoded.length, otherEncoded, otherAt,
                        otherEncoded.length)), one + " and " + other);
                DataOutputBuffer restored = new DataOutputBuffer();
                keys.restore(encoded, at, encoded.length - at, restored);
                assertArrayEquals(a, Arrays.copyOf(restored.getData(), restored.getLength()));
            }
        }
    }

    @Test
    void values_are_restored_and_must_fit() throws IOException {
        byte[] number = serialized(new VIntWritable(-300));
        assertEquals(-300, Values.VINT.number(number, number.length));
        DataOutputBuffer out = new DataOutputBuffer();
        Values.VINT.restore(-300, out);
        assertArrayEquals(number, Arrays.copyOf(out.getData(), out.getLength()));
        assertEquals(7, Values.INT.number(serialized(new IntWritable(7)), 4));
        assertThrows(IOException.class, () -> Values.INT.restore(1L << 31, out));
        assertThrows(IOException.class, () -> Values.LONG.number(new byte[7], 7));
        assertThrows(IOException.class, () -> Keys.LONG.encode(new byte[7], 7));
    }

    private static JobConf job(Class<?> key, Class<?> value) {
        JobConf job = new JobConf(false);
        job.setMapOutputKeyClass(key);
        job.setMapOutputValueClass(value);
        return job;
    }

    private static String why(JobConf job) {
        return assertThrows(Plain.class, () -> Fold.of(job, null)).getMessage();
    }

    @Test
    void known_combiner_or_the_job_itself_names_the_fold() throws Plain {
        JobConf job = job(Text.class, IntWritable.class);
        assertTrue(why(job).startsWith("the job has no combiner"));
        job.setClass(MRJobConfig.COMBINE_CLASS_ATTR, IntSumReducer.class, org.apache.hadoop.mapreduce.Reducer.class);
        assertEquals(new Fold(Fold.Kind.SUM, Keys.TEXT, Values.INT, ""), Fold.of(job, null));
        assertEquals(DefaultCodec.class.getName(), Fold.of(job, new DefaultCodec()).codec());
        job.set(Fold.REDUCE_KEY, "merge");
        assertEquals(new Fold(Fold.Kind.MERGE, Keys.TEXT, Values.KEPT, ""), Fold.of(job, null));
        job.set(Fold.REDUCE_KEY, "none");
        assertEquals("treefold.shuffle.reduce is none", why(job));
        job.set(Fold.REDUCE_KEY, "median");
        assertTrue(why(job).contains("expected auto, sum, merge, combine or none"));
    }

    @Test
    void combiner_of_the_job_runs_where_there_are_combiners() throws Plain {
        JobConf job = job(DoubleWritable.class, Jobs.Belief.class);
        job.setClass(MRJobConfig.COMBINE_CLASS_ATTR, Jobs.BeliefCombiner.class, org.apache.hadoop.mapreduce.Reducer.class);
        assertTrue(why(job).endsWith("treefold.shuffle.combiners is not set; set treefold.shuffle.reduce if the job's reduce"
                + " allows it"), why(job));
        job.set(MRJobConfig.KEY_COMPARATOR, HadoopTest.Backwards.class.getName());
        job.set(Settings.COMBINERS_KEY, "127.0.0.1:1=127.0.0.1:2");
        Fold expected = new Fold(Fold.Kind.COMBINE, Keys.KEPT, Values.KEPT, "");
        assertEquals(expected, Fold.of(job, null));
        job.set(Fold.REDUCE_KEY, "combine");
        assertEquals(expected, Fold.of(job, null));
        job.unset(MRJobConfig.COMBINE_CLASS_ATTR);
        assertEquals("treefold.shuffle.reduce is combine, and the job has no combiner", why(job));
        assertThrows(IllegalArgumentException.class, () -> Order.parse(order(
                new Fold(Fold.Kind.COMBINE, Keys.TEXT, Values.KEPT, ""), "attempt_1_0001_m_000001_0").path()));
    }

    @Test
    void jobs_that_cannot_be_folded_say_why() {
        JobConf doubles = job(Text.class, DoubleWritable.class);
        doubles.set(Fold.REDUCE_KEY, "sum");
        assertTrue(why(doubles).startsWith("values are of the class org.apache.hadoop.io.DoubleWritable"));
        JobConf keys = job(DoubleWritable.class, LongWritable.class);
        keys.set(Fold.REDUCE_KEY, "sum");
        assertTrue(why(keys).startsWith("keys are of the class org.apache.hadoop.io.DoubleWritable"));
        JobConf ordered = job(Text.class, LongWritable.class);
        ordered.set(Fold.REDUCE_KEY, "sum");
        ordered.set(MRJobConfig.KEY_COMPARATOR, HadoopTest.Backwards.class.getName());
        assertTrue(why(ordered).startsWith("keys are ordered by "));
        JobConf secret = job(Text.class, LongWritable.class);
        secret.setBoolean(MRJobConfig.MR_ENCRYPTED_INTERMEDIATE_DATA, true);
        assertTrue(why(secret).startsWith("map outputs are encrypted"));
        JobConf tls = job(Text.class, LongWritable.class);
        tls.setBoolean(MRConfig.SHUFFLE_SSL_ENABLED_KEY, true);
        assertTrue(why(tls).startsWith("the shuffle is encrypted"));
    }

    private static Order order(Fold fold, String... maps) {
        return new Order("job_1700000000000_0007", 3, List.of(maps), -64, new Wanted(8, 0, 0b1010_0001), fold, 1, 2);
    }

    @Test
    void order_is_read_as_it_was_written() {
        Fold fold = new Fold(Fold.Kind.SUM, Keys.TEXT, Values.LONG, DefaultCodec.class.getName());
        Order order = order(fold, "attempt_1700000000000_0007_m_000001_0", "attempt_1700000000000_0007_m_000002_3");
        assertEquals(order, Order.parse(order.path()));
        assertTrue(order.wanted().has(0) && order.wanted().has(7) && !order.wanted().has(1));
        Wanted last = new Wanted(Settings.SLICES_MAX, Settings.SLICES_MAX - Wanted.WINDOW_MAX, -1);
        Order later = new Order(order.job(), 3, order.maps(), -4096, last, fold, 1, 2);
        assertEquals(later, Order.parse(later.path()));
        assertEquals(Wanted.WINDOW_MAX, later.wanted().all().count());
        assertTrue(last.has(Settings.SLICES_MAX - 1) && !last.has(0) && !last.has(last.from() - 1));
    }

    @Test
    void wrong_orders_are_refused() {
        Fold fold = new Fold(Fold.Kind.SUM, Keys.TEXT, Values.LONG, "");
        String path = order(fold, "attempt_1700000000000_0007_m_000001_0").path();
        List<String> wrong = new ArrayList<>(List.of("", "/mapOutput", "/mapOutput?", "/other?" + path, path + "&job=job_1_1",
                path + "&", path.replace("&part=1", ""), path.replace("part=1", "part=2"), path.replace("slices=8", "slices=4097"),
                path.replace("from=0", "from=8"), path.replace("from=0", "from=1"), path.replace("from=0", "from=-1"),
                path.replace("wanted=a1", "wanted=1a1"), path.replace("wanted=a1", "wanted=0"),
                path.replace("wanted=a1", "wanted=x"), path.replace("fold=SUM", "fold=MERGE"), path.replace("_m_", "_r_"),
                path.replace("job=job_1", "job=../job_1"), path.replace("reduce=3", "reduce=-3"),
                path.replace("codec=", "codec=a%2Fb"), path.replace("codec=", "codec=%")));
        String[] many = new String[Order.MAPS_MAX + 1];
        Arrays.fill(many, "attempt_1700000000000_0007_m_000001_0");
        wrong.add(order(fold, many).path());
        for (String each : wrong) {
            assertThrows(IllegalArgumentException.class, () -> Order.parse(each), each);
        }
    }
}
