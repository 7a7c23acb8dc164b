package treefold.hadoop;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/** A combiner in a process of its own. Its class path does not have the jobs. */
final class CombinerProcess implements AutoCloseable {
    private static final String LISTENING = "listening on port ";
    /** Every process that was started, so that none outlives a test that fails. */
    private static final Queue<Process> STARTED = new ConcurrentLinkedQueue<>();

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> STARTED.forEach(Process::destroyForcibly)));
    }

    private final Process process;
    private final int port;

    /**
     * Starts a combiner.
     *
     * @param jars the folder of jars that may run
     * @param log the file of its log
     * @param relays the relays, its own first
     */
    CombinerProcess(Path jars, Path log, String... relays) throws IOException {
        String classes = Arrays.stream(System.getProperty("java.class.path").split(File.pathSeparator))
                .filter(path -> !path.contains("hadoop" + File.separator + "target" + File.separator + "test-classes"))
                .collect(Collectors.joining(File.pathSeparator));
        List<String> line = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.lang=ALL-UNNAMED",
                "-cp", classes, Combiner.class.getName()));
        for (String property : List.of(CombinerSettings.ADDRESS_KEY + "=127.0.0.1:0", CombinerSettings.JARS_KEY + "=" + jars,
                CombinerSettings.ORDERS_KEY + "=4", Settings.RELAYS_KEY + "=" + String.join(",", relays))) {
            line.addAll(List.of("-D", property));
        }
        process = new ProcessBuilder(line).redirectError(ProcessBuilder.Redirect.appendTo(log.toFile())).start();
        STARTED.add(process);
        BufferedReader out = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String first = out.readLine();
        while (first != null && !first.startsWith(LISTENING)) {
            first = out.readLine();
        }
        if (first == null) {
            throw new IOException("the combiner has ended; see " + log);
        }
        port = Integer.parseInt(first.substring(LISTENING.length()));
    }

    String address() {
        return "127.0.0.1:" + port;
    }

    /** Waits for its end. Returns its exit status. */
    int awaitEnd() throws InterruptedException {
        return process.waitFor();
    }

    /** Kills the process with SIGKILL, and waits for its end. */
    void kill() {
        process.destroyForcibly();
        try {
            process.waitFor(10, TimeUnit.SECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void close() {
        kill();
    }
}
