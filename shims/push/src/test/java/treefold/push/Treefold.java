package treefold.push;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Assumptions;

/** Real nodes for tests. The command is named by the property {@code treefold.command}; without it, tests are skipped. */
public final class Treefold implements AutoCloseable {
    private static final Duration PATIENCE = Duration.ofSeconds(10);
    /** Every process that was started, so that none outlives a test that fails. */
    private static final Queue<Process> STARTED = new ConcurrentLinkedQueue<>();

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> STARTED.forEach(Process::destroyForcibly)));
    }

    private final Process process;
    private final String address;

    private Treefold(Process process, String address) {
        this.process = process;
        this.address = address;
    }

    /** The command's path. Skips the test if there is none. */
    public static String command() {
        String named = System.getProperty("treefold.command", "treefold");
        boolean isPath = named.contains(File.separator);
        String folders = isPath ? "" : System.getenv().getOrDefault("PATH", "");
        boolean isThere = isPath
                ? Files.isExecutable(Path.of(named))
                : Arrays.stream(folders.split(File.pathSeparator)).anyMatch(at -> Files.isExecutable(Path.of(at, named)));
        Assumptions.assumeTrue(isThere, "skipped: there is no command \"" + named + "\"; build Treefold with make release, and"
                + " name it by -Dtreefold.command=PATH");
        return named;
    }

    /** Starts a node at a free port of this machine. */
    public static Treefold node(String... args) throws IOException {
        List<String> line = new ArrayList<>(List.of(command(), "node", "--listen", "127.0.0.1:0"));
        line.addAll(Arrays.asList(args));
        ProcessBuilder builder = new ProcessBuilder(line).redirectError(ProcessBuilder.Redirect.DISCARD);
        builder.environment().keySet().removeIf(name -> name.startsWith("TREEFOLD_"));
        Process process = builder.start();
        STARTED.add(process);
        BufferedReader out = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String first = out.readLine();
        if (first == null || !first.startsWith("listening on ")) {
            process.destroyForcibly();
            throw new IOException("the node said " + first);
        }
        return new Treefold(process, first.substring("listening on ".length()).trim());
    }

    /** Starts relays that accept an application, and waits until they know each other. */
    public static List<Treefold> relays(int count, String application) throws Exception {
        List<Treefold> relays = new ArrayList<>();
        for (int at = 0; at < count; at++) {
            List<String> args = new ArrayList<>(List.of("--relay", "--rack", "r" + at % 2, "--accept", application));
            if (at > 0) {
                args.addAll(List.of("--join", relays.get(0).address()));
            }
            relays.add(node(args.toArray(String[]::new)));
        }
        for (Treefold relay : relays) {
            until("relays know each other", () -> occurrences(relay.status(), "\"roles\":[\"relay\"]") >= count);
        }
        return relays;
    }

    private static int occurrences(String text, String part) {
        int found = 0;
        for (int at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) {
            found++;
        }
        return found;
    }

    /** Runs the command to its end. Returns its standard output. */
    public static String run(String... args) throws IOException, InterruptedException {
        List<String> line = new ArrayList<>(List.of(command()));
        line.addAll(Arrays.asList(args));
        Process process = new ProcessBuilder(line).redirectErrorStream(true).start();
        process.getOutputStream().close();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        process.waitFor();
        return said;
    }

    /** The node's status, as JSON without spaces. */
    public String status() throws IOException, InterruptedException {
        return run("status", "--at", address, "-o", "json").replaceAll("\\s", "");
    }

    /** Waits for a condition that another process or thread brings about. */
    public static void until(String what, Callable<Boolean> condition) throws Exception {
        long until = System.nanoTime() + PATIENCE.toNanos();
        while (!condition.call()) {
            Assertions.assertTrue(System.nanoTime() < until, "waited in vain until " + what);
            Thread.sleep(20);
        }
    }

    /** The node's address. */
    public String address() {
        return address;
    }

    /** Kills the process with SIGKILL, and waits for its end. */
    public void kill() {
        process.destroyForcibly();
        try {
            process.waitFor(10, TimeUnit.SECONDS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** Stops the process with SIGSTOP: it keeps its connections, and does nothing more. */
    public void stop() throws IOException, InterruptedException {
        new ProcessBuilder("kill", "-STOP", Long.toString(process.pid())).start().waitFor();
    }

    @Override
    public void close() {
        kill();
    }

    /** Kills all of them. */
    public static void killAll(List<Treefold> nodes) {
        nodes.forEach(Treefold::kill);
    }
}
