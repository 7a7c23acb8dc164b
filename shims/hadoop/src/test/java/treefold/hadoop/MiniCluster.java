package treefold.hadoop;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.OptionalInt;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.ShuffleHandler;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.MRConfig;
import org.apache.hadoop.mapreduce.MRJobConfig;
import org.apache.hadoop.mapreduce.v2.MiniMRYarnCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.nodemanager.containermanager.ContainerManagerImpl;
import treefold.push.Cluster;

/** A real Hadoop cluster with two NodeManagers in this process, whose containers are processes; and an agent for each node. */
final class MiniCluster implements AutoCloseable {
    private static final int NODES = 2;
    /** Java 17 needs the first for Hadoop; the others let short processes start soon. */
    private static final String JAVA_OPTS = " --add-opens=java.base/java.lang=ALL-UNNAMED -XX:+UseSerialGC"
            + " -XX:TieredStopAtLevel=1";
    private static final int LOOK_MILLIS = 200;

    private final MiniMRYarnCluster cluster;
    private final Path folder;
    private final List<Integer> handlers = new ArrayList<>();

    MiniCluster(Path folder) {
        this.folder = folder;
        YarnConfiguration conf = new YarnConfiguration();
        conf.set("fs.defaultFS", "file:///");
        conf.set("hadoop.tmp.dir", folder.resolve("tmp").toString());
        conf.set(MRJobConfig.MR_AM_STAGING_DIR, folder.resolve("staging").toString());
        conf.setInt(YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB, 128);
        conf.setInt(YarnConfiguration.NM_PMEM_MB, 1_024);
        conf.setInt(YarnConfiguration.NM_VCORES, 4);
        conf.setInt(YarnConfiguration.RM_NM_HEARTBEAT_INTERVAL_MS, LOOK_MILLIS);
        conf.setBoolean(YarnConfiguration.NM_DISK_HEALTH_CHECK_ENABLE, false);
        conf.setFloat(YarnConfiguration.NM_MAX_PER_DISK_UTILIZATION_PERCENTAGE, 100);
        conf.setBoolean(MiniMRYarnCluster.MR_HISTORY_MINICLUSTER_ENABLED, false);
        cluster = new MiniMRYarnCluster("treefold", NODES);
        cluster.init(conf);
        cluster.start();
        for (int node = 0; node < NODES; node++) {
            ContainerManagerImpl manager =
                    (ContainerManagerImpl) cluster.getNodeManager(node).getNMContext().getContainerManager();
            try {
                handlers.add(ShuffleHandler.deserializeMetaData(
                        manager.getAuxServiceMetaData().get(ShuffleHandler.MAPREDUCE_SHUFFLE_SERVICEID)));
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    /** The configuration of a job with small processes. */
    Configuration conf() {
        Configuration conf = new Configuration(cluster.getConfig());
        conf.setInt(MRJobConfig.MR_AM_VMEM_MB, 256);
        conf.set(MRJobConfig.MR_AM_COMMAND_OPTS, "-Xmx192m" + JAVA_OPTS);
        conf.setInt(MRJobConfig.MAP_MEMORY_MB, 128);
        conf.setInt(MRJobConfig.REDUCE_MEMORY_MB, 256);
        conf.set(MRJobConfig.MAP_JAVA_OPTS, "-Xmx96m" + JAVA_OPTS);
        conf.set(MRJobConfig.REDUCE_JAVA_OPTS, "-Xmx160m" + JAVA_OPTS);
        conf.setInt(MRJobConfig.IO_SORT_MB, 16);
        conf.setInt(MRJobConfig.MR_AM_TO_RM_HEARTBEAT_INTERVAL_MS, LOOK_MILLIS);
        conf.setInt(Job.COMPLETION_POLL_INTERVAL_KEY, LOOK_MILLIS);
        conf.setBoolean(MRJobConfig.MAP_SPECULATIVE, false);
        conf.setBoolean(MRJobConfig.REDUCE_SPECULATIVE, false);
        return conf;
    }

    /** The ports of the nodes' ShuffleHandlers. */
    List<Integer> handlers() {
        return handlers;
    }

    /** Runs a job. Returns it when it has ended. */
    Job run(Jobs kind, Configuration conf, Path input, Path output, int reducers) throws Exception {
        return run(kind.job(conf, hadoop(input), hadoop(output), reducers));
    }

    /** Runs a job that was made. Returns it when it has ended. */
    Job run(Job job) throws Exception {
        job.waitForCompletion(false);
        return job;
    }

    static org.apache.hadoop.fs.Path hadoop(Path path) {
        return new org.apache.hadoop.fs.Path(path.toUri());
    }

    /** Writes the jar of the jobs. */
    static void writeJar(Path jar) throws IOException {
        Path classes;
        try {
            classes = Path.of(Jobs.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        } catch (URISyntaxException error) {
            throw new IllegalStateException(error);
        }
        try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(jar));
                Stream<Path> files = Files.walk(classes.resolve("treefold"))) {
            for (Path file : files.filter(Files::isRegularFile).sorted().toList()) {
                out.putNextEntry(new JarEntry(classes.relativize(file).toString()));
                Files.copy(file, out);
                out.closeEntry();
            }
        }
    }

    /** All output files of a job, one after the other. */
    static byte[] output(Path folder) throws IOException {
        try (Stream<Path> parts = Files.list(folder)) {
            java.io.ByteArrayOutputStream all = new java.io.ByteArrayOutputStream();
            for (Path part : parts.filter(path -> path.getFileName().toString().startsWith("part-")).sorted().toList()) {
                all.write(part.getFileName().toString().getBytes());
                all.write(Files.readAllBytes(part));
            }
            return all.toByteArray();
        }
    }

    /** The lines of all tasks' logs of a job that have a text. */
    List<String> logged(Job job, String text) throws IOException {
        String application = job.getJobID().toString().replace("job_", "application_");
        List<String> lines = new ArrayList<>();
        try (Stream<Path> files = Files.walk(Path.of(cluster.getTestWorkDir().toString()))) {
            for (Path file : files.filter(path -> path.toString().contains(application) && path.endsWith("syslog")).toList()) {
                try (Stream<String> all = Files.lines(file)) {
                    lines.addAll(all.filter(line -> line.contains(text)).toList());
                }
            }
        }
        return lines;
    }

    @Override
    public void close() {
        cluster.stop();
    }

    /** The folder of the test. */
    Path folder() {
        return folder;
    }

    /** An agent beside each ShuffleHandler, with a gate between them. */
    final class Agents implements AutoCloseable {
        final List<Agent> agents = new ArrayList<>();
        final List<Gate> gates = new ArrayList<>();

        Agents(String... relays) throws IOException {
            this(Collections.nCopies(NODES, List.of(relays)));
        }

        /** Agents with relays of their own, for each node. */
        Agents(List<List<String>> relays) throws IOException {
            for (int node = 0; node < NODES; node++) {
                Gate gate = new Gate(handlers.get(node));
                InetSocketAddress any = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
                AgentSettings settings = new AgentSettings(any, gate.address(),
                        new Attachment(relays.get(node).toArray(String[]::new), Settings.APPLICATION_DEFAULT, Cluster.plain(), OptionalInt.empty()));
                gates.add(gate);
                agents.add(new Agent(settings, new Configuration()));
            }
        }

        /** A job's configuration with this shuffle. */
        Configuration conf(Jobs job, String... relays) throws IOException {
            Configuration conf = MiniCluster.this.conf();
            conf.set(MRConfig.SHUFFLE_CONSUMER_PLUGIN, RelayShuffle.class.getName());
            conf.set(Fold.REDUCE_KEY, job.fold());
            conf.set(Settings.RELAYS_KEY, String.join(",", relays));
            List<String> pairs = new ArrayList<>();
            for (int node = 0; node < NODES; node++) {
                for (String host : List.of("localhost", "127.0.0.1", InetAddress.getLocalHost().getHostName())) {
                    pairs.add(host + ":" + handlers.get(node) + "=127.0.0.1:" + agents.get(node).port());
                }
            }
            conf.set(Settings.AGENTS_KEY, String.join(",", pairs));
            return conf;
        }

        @Override
        public void close() throws IOException {
            agents.forEach(Agent::close);
            for (Gate gate : gates) {
                gate.close();
            }
        }
    }

    /** Passes the bytes of a ShuffleHandler on. A shut gate passes some, and holds the others until it is opened. */
    static final class Gate implements AutoCloseable {
        private static final int FREE_BYTES = 4_096;

        private final ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        private final int to;
        private final AtomicInteger held = new AtomicInteger();
        private volatile CountDownLatch opened = new CountDownLatch(0);

        Gate(int to) throws IOException {
            this.to = to;
            Thread thread = new Thread(this::accept, "gate");
            thread.setDaemon(true);
            thread.start();
        }

        InetSocketAddress address() {
            return (InetSocketAddress) server.getLocalSocketAddress();
        }

        void shut() {
            held.set(0);
            opened = new CountDownLatch(1);
        }

        void open() {
            opened.countDown();
        }

        /** Connections that wait at the gate, or did. */
        int held() {
            return held.get();
        }

        private void accept() {
            while (!server.isClosed()) {
                try {
                    Socket from = server.accept();
                    Socket handler = new Socket(InetAddress.getLoopbackAddress(), to);
                    pass(from, handler, false);
                    pass(handler, from, true);
                } catch (IOException error) {
                    // The server is closed, or the handler's connection could not be made.
                }
            }
        }

        private void pass(Socket from, Socket into, boolean isGated) {
            Thread thread = new Thread(() -> {
                try (from; into; InputStream in = from.getInputStream(); OutputStream out = into.getOutputStream()) {
                    byte[] bytes = new byte[FREE_BYTES];
                    long passed = 0;
                    for (int count = in.read(bytes); count >= 0; count = in.read(bytes)) {
                        out.write(bytes, 0, count);
                        passed += count;
                        if (isGated && passed >= FREE_BYTES && opened.getCount() > 0) {
                            held.incrementAndGet();
                            opened.await();
                        }
                    }
                } catch (IOException | InterruptedException error) {
                    // Both connections end.
                }
            }, "gate");
            thread.setDaemon(true);
            thread.start();
        }

        @Override
        public void close() throws IOException {
            open();
            server.close();
        }
    }
}
