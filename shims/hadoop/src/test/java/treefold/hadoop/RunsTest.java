package treefold.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.DefaultCodec;
import org.apache.hadoop.mapred.IFile;
import org.apache.hadoop.mapred.TaskAttemptID;
import org.apache.hadoop.mapred.TaskCompletionEvent;
import org.apache.hadoop.mapreduce.task.reduce.ShuffleHeader;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Map outputs, from a ShuffleHandler of the test to the pieces that are pushed. */
final class RunsTest {
    private static final Fold SUM = new Fold(Fold.Kind.SUM, Keys.TEXT, Values.LONG, "");
    private static final Configuration CONF = new Configuration(false);

    private final Map<Long, List<byte[]>> pushed = new TreeMap<>();
    private final Set<Long> ended = new HashSet<>();
    private HttpServer server;

    @AfterEach
    void stop() {
        if (server != null) {
            server.stop(0);
        }
    }

    private static String map(int number) {
        return String.format("attempt_1_0001_m_%06d_0", number);
    }

    private static byte[] output(Map<String, Long> entries, CompressionCodec codec) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        IFile.Writer<Text, LongWritable> writer = new IFile.Writer<>(CONF, new FSDataOutputStream(bytes, null), Text.class,
                LongWritable.class, codec, null);
        for (Map.Entry<String, Long> entry : entries.entrySet()) {
            writer.append(new Text(entry.getKey()), new LongWritable(entry.getValue()));
        }
        writer.close();
        return bytes.toByteArray();
    }

    private Outputs serve(int status, Order order, byte[]... outputs) throws IOException {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        for (int map = 0; map < outputs.length; map++) {
            new ShuffleHeader(map(map), outputs[map].length, outputs[map].length, 0).write(new DataOutputStream(body));
            body.write(outputs[map]);
        }
        return serveBytes(status, order, body.toByteArray());
    }

    private Outputs serveBytes(int status, Order order, byte[] body) throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/mapOutput", exchange -> {
            exchange.getResponseHeaders().set(ShuffleHeader.HTTP_HEADER_NAME, ShuffleHeader.DEFAULT_HTTP_HEADER_NAME);
            exchange.sendResponseHeaders(status, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
        return Outputs.open(server.getAddress(), order, "signature");
    }

    private static Order order(Fold fold, int maps, long wanted) {
        List<String> names = new ArrayList<>();
        for (int map = 0; map < maps; map++) {
            names.add(map(map));
        }
        return new Order("job_1_0001", 0, names, 640, new Wanted(4, 0, wanted), fold, 0, 1);
    }

    private Slices slices(Order order) {
        return new Slices(order, (request, piece, isLast) -> {
            assertFalse(ended.contains(request), "nothing follows the last piece");
            pushed.computeIfAbsent(request, unused -> new ArrayList<>()).add(piece);
            if (isLast) {
                assertTrue(ended.add(request), "a slice ends once");
            }
            return true;
        });
    }

    /** Reads all pieces. Checks that each ascends, and that no key is in two slices. */
    private Map<String, Long> sums() throws IOException {
        Map<String, Long> sums = new TreeMap<>();
        Map<String, Long> sliceOf = new HashMap<>();
        for (Map.Entry<Long, List<byte[]>> slice : pushed.entrySet()) {
            for (byte[] piece : slice.getValue()) {
                String[] last = {""};
                Packets.read(piece, SUM, (key, value) -> {
                    Text text = new Text();
                    text.readFields(new java.io.DataInputStream(new java.io.ByteArrayInputStream(key.getData())));
                    long number = java.nio.ByteBuffer.wrap(value.getData()).getLong();
                    assertTrue(last[0].compareTo(text.toString()) < 0, last[0] + " before " + text);
                    last[0] = text.toString();
                    sums.merge(last[0], number, Long::sum);
                    assertEquals(slice.getKey(), sliceOf.computeIfAbsent(last[0], unused -> slice.getKey()));
                });
            }
        }
        return sums;
    }

    private static List<Map<String, Long>> random(int maps, int entries, Map<String, Long> expected) {
        Random random = new Random(7);
        List<Map<String, Long>> all = new ArrayList<>();
        for (int map = 0; map < maps; map++) {
            Map<String, Long> each = new TreeMap<>();
            for (int entry = 0; entry < entries; entry++) {
                each.put("key\t\n" + random.nextInt(2 * entries), random.nextLong() >> 20);
            }
            all.add(each);
            each.forEach((key, value) -> expected.merge(key, value, Long::sum));
        }
        return all;
    }

    private void sum(CompressionCodec codec, int maps, int entries) throws Exception {
        Map<String, Long> expected = new TreeMap<>();
        List<byte[]> outputs = new ArrayList<>();
        for (Map<String, Long> each : random(maps, entries, expected)) {
            outputs.add(output(each, codec));
        }
        Order order = order(SUM, maps, 0xF);
        Slices slices = slices(order);
        Runs runs = new Runs(SUM, codec, CONF, slices);
        try (Outputs served = serve(200, order, outputs.toArray(byte[][]::new))) {
            runs.take(served);
        }
        runs.flush();
        slices.end();
        assertEquals(Set.of(640L, 641L, 642L, 643L), ended);
        assertEquals(expected, sums());
    }

    @Test
    void sums_of_all_outputs_are_pushed_in_sorted_pieces() throws Exception {
        sum(null, 5, 20_000);
    }

    @Test
    void compressed_outputs_are_read() throws Exception {
        DefaultCodec codec = new DefaultCodec();
        codec.setConf(CONF);
        sum(codec, 3, 5_000);
    }

    @Test
    void output_that_is_larger_than_a_group_is_read_as_it_comes() throws Exception {
        Map<String, Long> large = new TreeMap<>();
        String filling = "x".repeat(4_000);
        for (int entry = 0; entry < Runs.HELD_BYTES_MAX / 4_000 + 100; entry++) {
            large.put("key" + (100_000 + entry) + filling, 1L);
        }
        Order order = order(SUM, 2, 0xF);
        Slices slices = slices(order);
        Runs runs = new Runs(SUM, null, CONF, slices);
        Map<String, Long> small = new TreeMap<>(Map.of("a", 1L, "key100000" + filling, 5L));
        byte[] output = output(large, null);
        assertTrue(output.length > Runs.HELD_BYTES_MAX);
        try (Outputs served = serve(200, order, output(small, null), output)) {
            runs.take(served);
        }
        runs.flush();
        slices.end();
        small.forEach((key, value) -> large.merge(key, value, Long::sum));
        assertEquals(large, sums());
    }

    @Test
    void only_wanted_slices_are_pushed_and_ended_ones_no_more() throws Exception {
        byte[] output = output(random(1, 60_000, new TreeMap<>()).get(0), null);
        Order order = order(SUM, 1, 0b0110);
        Slices slices = new Slices(order, (request, piece, isLast) -> {
            if (request != 641) {
                pushed.computeIfAbsent(request, unused -> new ArrayList<>()).add(piece);
            }
            return request != 641;
        });
        Runs runs = new Runs(SUM, null, CONF, slices);
        try (Outputs served = serve(200, order, output)) {
            runs.take(served);
        }
        runs.flush();
        slices.end();
        assertEquals(List.of(642L), List.copyOf(pushed.keySet()));
    }

    @Test
    void windows_of_slices_have_all_entries_once() throws Exception {
        TreeMap<String, Long> entries = new TreeMap<>();
        byte[] output = output(random(1, 60_000, entries).get(0), null);
        int count = 300;
        for (int from = 0; from < count; from += 40) {
            long bits = (1L << Math.min(40, count - from)) - 1;
            Order order = new Order("job_1_0001", 0, List.of(map(0)), 4_096, new Wanted(count, from, bits), SUM, 0, 1);
            Slices slices = slices(order);
            Runs runs = new Runs(SUM, null, CONF, slices);
            try (Outputs served = serve(200, order, output)) {
                runs.take(served);
            }
            runs.flush();
            slices.end();
            server.stop(0);
        }
        assertEquals(count, ended.size());
        assertEquals(entries, sums());
    }

    @Test
    void refused_and_wrong_outputs_are_errors() throws Exception {
        Order order = order(SUM, 1, 0xF);
        assertThrows(Outputs.RefusedException.class, () -> serveBytes(401, order, new byte[0]));
        byte[] output = output(new TreeMap<>(Map.of("a", 1L)), null);
        byte[] damaged = output.clone();
        damaged[1] ^= 1;
        ByteArrayOutputStream cut = new ByteArrayOutputStream();
        new ShuffleHeader(map(0), Runs.HELD_BYTES_MAX, 1, 0).write(new DataOutputStream(cut));
        ByteArrayOutputStream other = new ByteArrayOutputStream();
        new ShuffleHeader(map(1), 1, 1, 0).write(new DataOutputStream(other));
        ByteArrayOutputStream damagedOne = new ByteArrayOutputStream();
        new ShuffleHeader(map(0), damaged.length, 1, 0).write(new DataOutputStream(damagedOne));
        damagedOne.write(damaged);
        for (byte[] body : List.of(cut.toByteArray(), other.toByteArray(), damagedOne.toByteArray(), new byte[0])) {
            server.stop(0);
            Runs runs = new Runs(SUM, null, CONF, slices(order));
            assertThrows(IOException.class, () -> {
                runs.take(serveBytes(200, order, body));
                runs.flush();
            });
        }
    }

    @Test
    void packets_are_checked() {
        Fold merge = new Fold(Fold.Kind.MERGE, Keys.BYTES, Values.KEPT, "");
        Packets.Writer writer = new Packets.Writer(Fold.Kind.MERGE);
        Entry entry = new Entry();
        entry.keyEnd = 3;
        entry.valueLength = 2;
        writer.add(entry);
        writer.add(entry);
        byte[] packet = writer.take();
        assertTrue(writer.isEmpty());
        int[] count = {0};
        assertArrayEquals(new int[] {2}, count(packet, merge, count));
        for (int cut = 1; cut < packet.length; cut++) {
            byte[] less = Arrays.copyOf(packet, cut);
            assertThrows(IOException.class, () -> Packets.read(less, merge, (key, value) -> { }), "cut at " + cut);
        }
        Random random = new Random(3);
        for (int round = 0; round < 20_000; round++) {
            byte[] changed = packet.clone();
            changed[random.nextInt(changed.length)] = (byte) random.nextInt();
            try {
                Packets.read(changed, merge, (key, value) -> { });
            } catch (IOException error) {
                assertFalse(error.getMessage().isEmpty());
            }
        }
    }

    private static int[] count(byte[] packet, Fold fold, int[] count) {
        try {
            Packets.read(packet, fold, (key, value) -> count[0]++);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        return count;
    }

    @Test
    void each_map_counts_once_and_withdrawn_attempts_do_not() throws Plain {
        Maps maps = new Maps(2);
        note(maps, 0, 0, TaskCompletionEvent.Status.SUCCEEDED, "http://a:1");
        note(maps, 1, 0, TaskCompletionEvent.Status.FAILED, "http://a:1");
        assertFalse(maps.areAllFinished());
        note(maps, 1, 1, TaskCompletionEvent.Status.SUCCEEDED, "b:2");
        assertTrue(maps.areAllFinished());
        note(maps, 0, 0, TaskCompletionEvent.Status.OBSOLETE, "http://a:1");
        assertFalse(maps.areAllFinished());
        note(maps, 0, 1, TaskCompletionEvent.Status.SUCCEEDED, "http://b:2");
        note(maps, 0, 2, TaskCompletionEvent.Status.KILLED, "http://c:3");
        assertTrue(maps.areAllFinished());
        assertEquals(Map.of("b:2", List.of("attempt_1_0001_m_000000_1", "attempt_1_0001_m_000001_1")), maps.byHandler());
        note(maps, 1, 1, TaskCompletionEvent.Status.OBSOLETE, "b:2");
        note(maps, 1, 4, TaskCompletionEvent.Status.TIPFAILED, "");
        assertTrue(maps.areAllFinished());
        assertEquals(Map.of("b:2", List.of("attempt_1_0001_m_000000_1")), maps.byHandler());
    }

    private static void note(Maps maps, int map, int attempt, TaskCompletionEvent.Status status, String http) {
        TaskAttemptID id = new TaskAttemptID("1", 1, org.apache.hadoop.mapreduce.TaskType.MAP, map, attempt);
        maps.note(new TaskCompletionEvent(0, id, map, true, status, http));
    }
}
