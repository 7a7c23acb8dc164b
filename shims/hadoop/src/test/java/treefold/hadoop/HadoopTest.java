package treefold.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import treefold.push.Treefold;

/** A real Hadoop cluster and real relays: the output is that of the plain shuffle, byte by byte. */
@Timeout(240)
final class HadoopTest {
    private static final int FILES = 4;
    private static final int ENTRIES = 40_000;
    private static final int REDUCERS = 2;

    @TempDir
    static Path folder;
    private static MiniCluster cluster;
    private static byte[] plainWords;

    @BeforeAll
    static void start() throws Exception {
        Treefold.command();
        cluster = new MiniCluster(folder);
        Data.write(Jobs.WC, folder.resolve("words"), FILES, ENTRIES, 6_000, 9_000);
        Data.write(Jobs.TS, folder.resolve("records"), FILES, 3_000, 1, 1);
        Job job = cluster.run(Jobs.WC, cluster.conf(), folder.resolve("words"), folder.resolve("plain"), REDUCERS);
        assertTrue(job.isSuccessful());
        plainWords = MiniCluster.output(folder.resolve("plain"));
        assertTrue(plainWords.length > 100_000, "the output has " + plainWords.length + " bytes");
    }

    @AfterAll
    static void stop() {
        if (cluster != null) {
            cluster.close();
        }
    }

    private static long count(Job job, String counter) throws Exception {
        return job.getCounters().findCounter(RelayShuffle.COUNTERS, counter).getValue();
    }

    private static Job words(Configuration conf, String output) throws Exception {
        Job job = cluster.run(Jobs.WC, conf, folder.resolve("words"), folder.resolve(output), REDUCERS);
        assertTrue(job.isSuccessful(), job.getStatus().getFailureInfo());
        assertArrayEquals(plainWords, MiniCluster.output(folder.resolve(output)));
        return job;
    }

    @Test
    void folded_word_count_equals_the_plain_one_though_a_map_fails_once() throws Exception {
        try (Treefold relay = Treefold.node("--relay", "--accept", "hadoop");
                MiniCluster.Agents agents = cluster.new Agents(relay.address())) {
            Configuration conf = agents.conf(Jobs.WC, relay.address());
            conf.setInt(Jobs.WordMapper.FAILS, 1);
            conf.setBoolean(MRJobConfig.MAP_OUTPUT_COMPRESS, true);
            Job job = words(conf, "folded");
            assertEquals(REDUCERS, count(job, RelayShuffle.FOLDED));
            assertEquals(0, count(job, RelayShuffle.PLAIN));
            assertEquals(FILES * REDUCERS,
                    job.getCounters().findCounter(org.apache.hadoop.mapreduce.TaskCounter.SHUFFLED_MAPS).getValue());
        }
    }

    @Test
    void relay_that_dies_in_the_middle_of_a_shuffle_changes_nothing() throws Exception {
        List<Treefold> relays = Treefold.relays(2, "hadoop");
        String[] addresses = relays.stream().map(Treefold::address).toArray(String[]::new);
        try (MiniCluster.Agents agents = cluster.new Agents(addresses)) {
            agents.gates.forEach(MiniCluster.Gate::shut);
            Path output = folder.resolve("relay-dies");
            CompletableFuture<Job> job = begin(() -> cluster.run(Jobs.WC, agents.conf(Jobs.WC, addresses),
                    folder.resolve("words"), output, 1));
            awaitHeld(agents, job);
            // It leads the requests of the one reducer, and all agents are attached to it.
            relays.get(0).kill();
            agents.gates.forEach(MiniCluster.Gate::open);
            assertTrue(job.get().isSuccessful());
            assertEquals(1, count(job.get(), RelayShuffle.FOLDED));
            assertEquals(1, count(job.get(), RelayShuffle.AGAIN));
            assertEquals(lines(folder.resolve("plain")), Files.readAllLines(output.resolve("part-r-00000")));
        } finally {
            Treefold.killAll(relays);
        }
    }

    /** The lines of all reducers, in the order of one reducer. */
    private static List<String> lines(Path output) throws Exception {
        List<String> lines = new ArrayList<>();
        for (int reducer = 0; reducer < REDUCERS; reducer++) {
            lines.addAll(Files.readAllLines(output.resolve("part-r-0000" + reducer)));
        }
        Collections.sort(lines);
        return lines;
    }

    private static CompletableFuture<Job> begin(Callable<Job> running) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return running.call();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        });
    }

    /** Waits until an agent reads map outputs, and has got only some. */
    private static void awaitHeld(MiniCluster.Agents agents, CompletableFuture<Job> job) throws Exception {
        while (agents.gates.stream().noneMatch(gate -> gate.held() > 0)) {
            assertFalse(job.isDone(), "the job has ended before its shuffle was held");
            Thread.sleep(20);
        }
    }

    @Test
    void agent_that_dies_in_the_middle_of_a_shuffle_leads_to_the_plain_one() throws Exception {
        try (Treefold relay = Treefold.node("--relay", "--accept", "hadoop");
                MiniCluster.Agents agents = cluster.new Agents(relay.address())) {
            agents.gates.forEach(MiniCluster.Gate::shut);
            CompletableFuture<Job> job = begin(() -> words(agents.conf(Jobs.WC, relay.address()), "agent-dies"));
            awaitHeld(agents, job);
            agents.agents.forEach(Agent::close);
            assertEquals(REDUCERS, count(job.get(), RelayShuffle.PLAIN));
        }
    }

    @Test
    void records_are_merged_and_not_reduced() throws Exception {
        Path input = folder.resolve("records");
        assertTrue(cluster.run(Jobs.TS, cluster.conf(), input, folder.resolve("plain-sorted"), 1).isSuccessful());
        try (Treefold relay = Treefold.node("--relay", "--accept", "hadoop");
                MiniCluster.Agents agents = cluster.new Agents(relay.address())) {
            Configuration conf = agents.conf(Jobs.TS, relay.address());
            conf.setInt(Settings.SLICES_KEY, 1);
            Job job = cluster.run(Jobs.TS, conf, input, folder.resolve("sorted"), 1);
            assertEquals(1, count(job, RelayShuffle.FOLDED));
            assertArrayEquals(MiniCluster.output(folder.resolve("plain-sorted")),
                    MiniCluster.output(folder.resolve("sorted")));
        }
    }

    @Test
    void slices_and_reducers_without_entries_are_empty() throws Exception {
        Path input = Files.createDirectories(folder.resolve("word"));
        Files.writeString(input.resolve("part-0"), "word word\nword\n");
        try (Treefold relay = Treefold.node("--relay", "--accept", "hadoop");
                MiniCluster.Agents agents = cluster.new Agents(relay.address())) {
            Path output = folder.resolve("one-word");
            Job job = cluster.run(Jobs.WC, agents.conf(Jobs.WC, relay.address()), input, output, REDUCERS);
            assertEquals(REDUCERS, count(job, RelayShuffle.FOLDED));
            assertEquals(List.of("word\t3"), lines(output));
        }
    }

    @Test
    void many_slices_come_in_windows() throws Exception {
        try (Treefold relay = Treefold.node("--relay", "--accept", "hadoop");
                MiniCluster.Agents agents = cluster.new Agents(relay.address())) {
            Configuration conf = agents.conf(Jobs.WC, relay.address());
            conf.setInt(Settings.SLICES_KEY, 100);
            conf.setInt(Settings.WINDOW_KEY, 30);
            Path output = folder.resolve("in-windows");
            Job job = cluster.run(Jobs.WC, conf, folder.resolve("words"), output, REDUCERS);
            assertEquals(REDUCERS, count(job, RelayShuffle.FOLDED));
            assertArrayEquals(plainWords, MiniCluster.output(output));
        }
    }

    /** An order that is not the one of the bytes. */
    public static final class Backwards extends Text.Comparator {
        @Override
        public int compare(byte[] one, int at, int length, byte[] other, int otherAt, int otherLength) {
            return -super.compare(one, at, length, other, otherAt, otherLength);
        }
    }

    @Test
    void job_with_an_order_of_its_own_uses_the_plain_shuffle_and_says_why() throws Exception {
        try (Treefold relay = Treefold.node("--relay", "--accept", "hadoop");
                MiniCluster.Agents agents = cluster.new Agents(relay.address())) {
            Configuration conf = agents.conf(Jobs.WC, relay.address());
            conf.set(MRJobConfig.KEY_COMPARATOR, Backwards.class.getName());
            Job job = cluster.run(Jobs.WC, conf, folder.resolve("words"), folder.resolve("backwards"), REDUCERS);
            assertTrue(job.isSuccessful());
            assertEquals(REDUCERS, count(job, RelayShuffle.PLAIN));
            assertEquals(plainWords.length, MiniCluster.output(folder.resolve("backwards")).length);
            assertFalse(cluster.logged(job, "uses the plain shuffle: keys are ordered by").isEmpty());
        }
    }

    @Test
    void agent_does_nothing_that_a_stranger_asks_for() throws Exception {
        try (Treefold relay = Treefold.node("--relay", "--accept", "hadoop");
                MiniCluster.Agents agents = cluster.new Agents(relay.address())) {
            Fold fold = new Fold(Fold.Kind.SUM, Keys.TEXT, Values.LONG, "");
            String path = new Order("job_1_0001", 0, List.of("attempt_1_0001_m_000000_0"), 64, new Wanted(1, 0, 1),
                    fold, 0, 1).path();
            URI orders = URI.create("http://127.0.0.1:" + agents.agents.get(0).port() + "/orders");
            for (String body : List.of("c2lnbmF0dXJl " + path, "AAAAAAAAAAAAAAAAAAAAAAAAAAA= " + path)) {
                HttpResponse<String> answer = HttpClient.newHttpClient().send(
                        HttpRequest.newBuilder(orders).POST(HttpRequest.BodyPublishers.ofString(body)).build(),
                        HttpResponse.BodyHandlers.ofString());
                assertEquals(403, answer.statusCode(), answer.body());
                assertTrue(answer.body().contains("401"), answer.body());
            }
            HttpResponse<String> answer = HttpClient.newHttpClient().send(
                    HttpRequest.newBuilder(orders).POST(HttpRequest.BodyPublishers.ofString("x /other")).build(),
                    HttpResponse.BodyHandlers.ofString());
            assertEquals(400, answer.statusCode(), answer.body());
        }
    }
}
