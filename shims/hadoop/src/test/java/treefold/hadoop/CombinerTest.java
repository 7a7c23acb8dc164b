package treefold.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.TaskType;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import treefold.push.Treefold;

/** A real Hadoop cluster, real relays, and combiners in processes of their own that run the jobs' code. */
@Timeout(240)
final class CombinerTest {
    private static final int FILES = 4;
    private static final int ENTRIES = 30_000;
    private static final int REDUCERS = 2;

    @TempDir
    static Path folder;
    private static MiniCluster cluster;
    private static Path jars;

    @BeforeAll
    static void start() throws Exception {
        Treefold.command();
        jars = Files.createDirectory(folder.resolve("jars"));
        MiniCluster.writeJar(jars.resolve("jobs.jar"));
        cluster = new MiniCluster(folder);
        for (Jobs job : List.of(Jobs.WC, Jobs.AP, Jobs.PR)) {
            Data.write(job, folder.resolve(job.name()), FILES, ENTRIES, 6_000, 9_000);
            assertTrue(run(job, cluster.conf(), "plain-" + job).isSuccessful());
        }
    }

    @AfterAll
    static void stop() {
        if (cluster != null) {
            cluster.close();
        }
    }

    private static Job run(Jobs job, Configuration conf, String output) throws Exception {
        return cluster.run(job, conf, folder.resolve(job.name()), folder.resolve(output), REDUCERS);
    }

    private static CombinerProcess combiner(Path own, String... relays) throws IOException {
        return new CombinerProcess(own, folder.resolve("combiner.log"), relays);
    }

    /** The configuration of a job whose jar is that of the combiners. */
    private static Configuration conf(MiniCluster.Agents agents, Jobs job, List<String> relays, CombinerProcess... combiners)
            throws IOException {
        Configuration conf = agents.conf(job, relays.toArray(String[]::new));
        conf.set(MRJobConfig.JAR, jars.resolve("jobs.jar").toString());
        List<String> pairs = new ArrayList<>();
        for (int at = 0; at < combiners.length; at++) {
            pairs.add(relays.get(at) + "=" + combiners[at].address());
        }
        conf.set(Settings.COMBINERS_KEY, String.join(",", pairs));
        return conf;
    }

    private static long count(Job job, String counter) throws Exception {
        return job.getCounters().findCounter(RelayShuffle.COUNTERS, counter).getValue();
    }

    private static void assertFolded(Job job) throws Exception {
        assertTrue(job.isSuccessful(), job.getStatus().getFailureInfo());
        assertEquals(REDUCERS, count(job, RelayShuffle.FOLDED), () -> {
            try {
                return cluster.logged(job, "RelayShuffle") + " " + Files.readString(folder.resolve("combiner.log"));
            } catch (IOException error) {
                return error.toString();
            }
        });
    }

    private static void assertEqualOutput(Jobs job, String output) throws IOException {
        OutputFiles.Difference difference = OutputFiles.compare(folder.resolve("plain-" + job), folder.resolve(output));
        assertTrue(difference.lines() > 1_000);
        assertTrue(difference.greatest() <= OutputFiles.TOLERANCE, difference.toString());
    }

    @Test
    void jobs_with_floats_fold_by_their_own_combiners() throws Exception {
        try (Treefold relay = Treefold.node("--relay", "--accept", "hadoop");
                MiniCluster.Agents agents = cluster.new Agents(relay.address());
                CombinerProcess combiner = combiner(jars, relay.address())) {
            for (Jobs kind : List.of(Jobs.AP, Jobs.PR)) {
                Configuration conf = conf(agents, kind, List.of(relay.address()), combiner);
                conf.setBoolean(MRJobConfig.MAP_OUTPUT_COMPRESS, kind == Jobs.AP);
                Job job = run(kind, conf, "combined-" + kind);
                assertFolded(job);
                assertEqualOutput(kind, "combined-" + kind);
                // One value comes for each key of the output.
                long keys = job.getCounters().findCounter(org.apache.hadoop.mapreduce.TaskCounter.REDUCE_INPUT_GROUPS).getValue();
                assertEquals(keys,
                        job.getCounters().findCounter(org.apache.hadoop.mapreduce.TaskCounter.REDUCE_INPUT_RECORDS).getValue());
            }
        }
    }

    @Test
    void combiners_of_two_relays_are_a_tree() throws Exception {
        List<Treefold> relays = Treefold.relays(2, "hadoop");
        List<String> addresses = relays.stream().map(Treefold::address).toList();
        try (MiniCluster.Agents agents = cluster.new Agents(List.of(List.of(addresses.get(0)), List.of(addresses.get(1))));
                CombinerProcess first = combiner(jars, addresses.get(0), addresses.get(1));
                CombinerProcess second = combiner(jars, addresses.get(1), addresses.get(0))) {
            Job job = run(Jobs.PR, conf(agents, Jobs.PR, addresses, first, second), "tree");
            assertFolded(job);
            assertEqualOutput(Jobs.PR, "tree");
            assertEquals(job.getCounters().findCounter(org.apache.hadoop.mapreduce.TaskCounter.REDUCE_INPUT_GROUPS).getValue(),
                    job.getCounters().findCounter(org.apache.hadoop.mapreduce.TaskCounter.REDUCE_INPUT_RECORDS).getValue());
        } finally {
            Treefold.killAll(relays);
        }
    }

    @Test
    void exact_combiner_and_an_order_of_the_jobs_own_give_the_same_bytes() throws Exception {
        Configuration plain = cluster.conf();
        plain.set(MRJobConfig.KEY_COMPARATOR, HadoopTest.Backwards.class.getName());
        assertTrue(run(Jobs.WC, plain, "plain-backwards").isSuccessful());
        try (Treefold relay = Treefold.node("--relay", "--accept", "hadoop");
                MiniCluster.Agents agents = cluster.new Agents(relay.address());
                CombinerProcess combiner = combiner(jars, relay.address())) {
            Configuration conf = conf(agents, Jobs.WC, List.of(relay.address()), combiner);
            conf.set(Fold.REDUCE_KEY, "combine");
            conf.set(MRJobConfig.KEY_COMPARATOR, HadoopTest.Backwards.class.getName());
            assertFolded(run(Jobs.WC, conf, "backwards"));
            assertArrayEquals(MiniCluster.output(folder.resolve("plain-backwards")),
                    MiniCluster.output(folder.resolve("backwards")));
        }
    }

    private static CompletableFuture<Job> begin(Jobs job, Configuration conf, String output) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return run(job, conf, output);
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        });
    }

    private static void awaitHeld(MiniCluster.Agents agents, CompletableFuture<Job> job) throws Exception {
        while (agents.gates.stream().noneMatch(gate -> gate.held() > 0)) {
            assertFalse(job.isDone(), "the job has ended before its shuffle was held");
            Thread.sleep(20);
        }
    }

    @Test
    void combiner_that_dies_in_the_middle_of_a_shuffle_leads_to_the_plain_one() throws Exception {
        try (Treefold relay = Treefold.node("--relay", "--accept", "hadoop");
                MiniCluster.Agents agents = cluster.new Agents(relay.address());
                CombinerProcess combiner = combiner(jars, relay.address())) {
            agents.gates.forEach(MiniCluster.Gate::shut);
            CompletableFuture<Job> job =
                    begin(Jobs.AP, conf(agents, Jobs.AP, List.of(relay.address()), combiner), "combiner-dies");
            awaitHeld(agents, job);
            combiner.kill();
            agents.gates.forEach(MiniCluster.Gate::open);
            assertTrue(job.get().isSuccessful());
            assertEquals(REDUCERS, count(job.get(), RelayShuffle.PLAIN));
            assertEqualOutput(Jobs.AP, "combiner-dies");
        }
    }

    @Test
    void combiner_of_another_relay_takes_over() throws Exception {
        List<Treefold> relays = Treefold.relays(2, "hadoop");
        List<String> addresses = relays.stream().map(Treefold::address).toList();
        try (MiniCluster.Agents agents = cluster.new Agents(addresses.toArray(String[]::new));
                CombinerProcess first = combiner(jars, addresses.get(0), addresses.get(1));
                CombinerProcess second = combiner(jars, addresses.get(1), addresses.get(0))) {
            agents.gates.forEach(MiniCluster.Gate::shut);
            CompletableFuture<Job> job =
                    begin(Jobs.PR, conf(agents, Jobs.PR, addresses, first, second), "takes-over");
            awaitHeld(agents, job);
            // All agents are attached to the first relay.
            first.kill();
            agents.gates.forEach(MiniCluster.Gate::open);
            assertFolded(job.get());
            assertTrue(count(job.get(), RelayShuffle.AGAIN) > 0);
            assertEqualOutput(Jobs.PR, "takes-over");
        } finally {
            Treefold.killAll(relays);
        }
    }

    @Test
    void relay_that_dies_with_its_combiner_at_work_changes_nothing() throws Exception {
        List<Treefold> relays = Treefold.relays(2, "hadoop");
        List<String> addresses = relays.stream().map(Treefold::address).toList();
        try (MiniCluster.Agents agents = cluster.new Agents(addresses.toArray(String[]::new));
                CombinerProcess first = combiner(jars, addresses.get(0), addresses.get(1));
                CombinerProcess second = combiner(jars, addresses.get(1), addresses.get(0))) {
            agents.gates.forEach(MiniCluster.Gate::shut);
            CompletableFuture<Job> job =
                    begin(Jobs.AP, conf(agents, Jobs.AP, addresses, first, second), "relay-dies");
            awaitHeld(agents, job);
            relays.get(0).kill();
            agents.gates.forEach(MiniCluster.Gate::open);
            assertFolded(job.get());
            assertEqualOutput(Jobs.AP, "relay-dies");
        } finally {
            Treefold.killAll(relays);
        }
    }

    @Test
    void jar_that_the_operator_has_not_installed_leads_to_the_plain_shuffle() throws Exception {
        Path none = Files.createDirectories(folder.resolve("no-jars"));
        try (Treefold relay = Treefold.node("--relay", "--accept", "hadoop");
                MiniCluster.Agents agents = cluster.new Agents(relay.address());
                CombinerProcess combiner = combiner(none, relay.address())) {
            Job job = run(Jobs.PR, conf(agents, Jobs.PR, List.of(relay.address()), combiner), "no-jar");
            assertEquals(REDUCERS, count(job, RelayShuffle.PLAIN));
            assertFalse(cluster.logged(job, "has the SHA-256").isEmpty());
            assertEqualOutput(Jobs.PR, "no-jar");
        }
    }

    /** Adds, and never ends in a combiner's process, in which there are no maps. */
    public static final class Endless extends Reducer<Text, LongWritable, Text, LongWritable> {
        @Override
        protected void reduce(Text key, Iterable<LongWritable> values, Context context)
                throws IOException, InterruptedException {
            while (context.getTaskAttemptID().getTaskID().getTaskType() != TaskType.MAP) {
                Thread.onSpinWait();
            }
            long sum = 0;
            for (LongWritable value : values) {
                sum += value.get();
            }
            context.write(key, new LongWritable(sum));
        }
    }

    @Test
    void combiner_that_does_not_end_ends_with_its_process() throws Exception {
        try (Treefold relay = Treefold.node("--relay", "--accept", "hadoop");
                MiniCluster.Agents agents = cluster.new Agents(relay.address());
                CombinerProcess combiner = combiner(jars, relay.address())) {
            Configuration conf = conf(agents, Jobs.WC, List.of(relay.address()), combiner);
            conf.set(Fold.REDUCE_KEY, "auto");
            conf.setInt(Settings.DEADLINE_KEY, 5);
            Job job = Jobs.WC.job(conf, MiniCluster.hadoop(folder.resolve("WC")), MiniCluster.hadoop(folder.resolve("endless")),
                    REDUCERS);
            job.setCombinerClass(Endless.class);
            assertTrue(cluster.run(job).isSuccessful());
            assertEquals(REDUCERS, count(job, RelayShuffle.PLAIN));
            assertArrayEquals(MiniCluster.output(folder.resolve("plain-WC")), MiniCluster.output(folder.resolve("endless")));
            assertEquals(CombineTask.STUCK, combiner.awaitEnd());
        }
    }

    private static HttpResponse<String> post(CombinerProcess combiner, String body) throws Exception {
        URI uri = URI.create("http://" + combiner.address() + "/combine");
        return HttpClient.newHttpClient().send(HttpRequest.newBuilder(uri)
                .POST(HttpRequest.BodyPublishers.ofString(body)).build(), HttpResponse.BodyHandlers.ofString());
    }

    @Test
    void stranger_has_no_code_loaded_and_gets_no_place_for_long() throws Exception {
        try (Treefold relay = Treefold.node("--relay", "--accept", "hadoop");
                CombinerProcess combiner = combiner(jars, relay.address())) {
            TreeMap<String, String> properties = new TreeMap<>();
            properties.put(MRJobConfig.COMBINE_CLASS_ATTR, "no.such.Combiner");
            for (int order = 0; order < 4; order++) {
                CombineOrder strange = new CombineOrder("job_1_0001", order, 64, new Wanted(1, 0, 1), 3_600, new int[] {5}, "", properties);
                assertEquals(202, post(combiner, strange.text()).statusCode());
                assertEquals(202, post(combiner, strange.text()).statusCode(), "the same order");
            }
            CombineOrder another = new CombineOrder("job_1_0001", 4, 64, new Wanted(1, 0, 1), 3_600, new int[] {5}, "", properties);
            assertEquals(503, post(combiner, another.text()).statusCode());
            assertEquals(400, post(combiner, "x").statusCode());
            assertEquals(404, post(combiner, another.text().replace("jar=", "jar=" + "0".repeat(64))).statusCode());
            while (post(combiner, another.text()).statusCode() != 202) {
                Thread.sleep(500);
            }
            assertFalse(Files.readString(folder.resolve("combiner.log")).contains("no.such.Combiner"));
        }
    }
}
