package treefold.push;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** The settings of a worker; see {@link Worker#builder}. */
public final class WorkerBuilder {
    /** Default time limit for attaching. */
    public static final Duration TIMEOUT = Duration.ofSeconds(10);
    /** Default for the bytes that a worker keeps of its pushes. */
    public static final long KEPT_BYTES_MAX = 64 << 20;

    final String application;
    final int worker;
    final List<String> addresses = new ArrayList<>();
    Cluster cluster = Cluster.plain();
    Duration timeout = TIMEOUT;
    long keptBytesMax = KEPT_BYTES_MAX;

    WorkerBuilder(String application, int worker) {
        int bytes = application.getBytes(StandardCharsets.UTF_8).length;
        if (bytes == 0 || bytes > Messages.NAME_BYTES_MAX || application.contains("/")) {
            throw new IllegalArgumentException("application \"" + application + "\"; its name must have 1 to "
                    + Messages.NAME_BYTES_MAX + " bytes and no '/'");
        }
        WorkerSet.of(worker);
        this.application = application;
        this.worker = worker;
    }

    /**
     * Adds nodes to attach to, {@code host:port}. They are tried in turn, now and whenever the connection is lost. Give the
     * relays of the worker's own rack first.
     */
    public WorkerBuilder at(String... addresses) {
        Arrays.stream(addresses).forEach(Address::check);
        this.addresses.addAll(Arrays.asList(addresses));
        return this;
    }

    /** Starts each worker at another address, by its number, so that the workers of a rack share its relays evenly. */
    public WorkerBuilder spread() {
        if (!addresses.isEmpty()) {
            Collections.rotate(addresses, -(worker % addresses.size()));
        }
        return this;
    }

    /** Sets the cluster. Default: {@link Cluster#plain}. */
    public WorkerBuilder cluster(Cluster cluster) {
        this.cluster = cluster;
        return this;
    }

    /** Sets how long attaching may take. Once attached, a worker that loses its node tries for ever. */
    public WorkerBuilder timeout(Duration timeout) {
        this.timeout = timeout;
        return this;
    }

    /** Sets how many bytes of its pushes the worker keeps, in case it must send them again. Further pushes wait. */
    public WorkerBuilder keptBytesMax(long bytes) {
        if (bytes < 1) {
            throw new IllegalArgumentException("keptBytesMax: " + bytes + "; allowed: at least 1");
        }
        this.keptBytesMax = bytes;
        return this;
    }

    /**
     * Attaches the worker to the first address that takes it in.
     *
     * @throws PushException the error of the last attempt, if no node takes the worker in within the timeout
     * @throws InterruptedException if the thread is interrupted; the worker is not attached
     */
    public Worker attach() throws PushException, InterruptedException {
        if (addresses.isEmpty()) {
            throw new IllegalArgumentException("at: give the address of at least one node");
        }
        return Worker.attach(this);
    }
}
