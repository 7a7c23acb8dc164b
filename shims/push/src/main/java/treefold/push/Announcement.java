package treefold.push;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * A request under construction: which workers push for it, how their results are folded, and how long the master waits.
 * {@link Master#announce} makes one; {@link #await} or {@link #send} announces it.
 */
public final class Announcement {
    /** Default time until the answer is needed. */
    public static final Duration DEADLINE = Duration.ofSeconds(2);
    /** Default time that the request waits for a worker that is attached to no node. */
    public static final Duration PATIENCE = Duration.ofSeconds(2);

    private static final int KIND_BYTES_MAX = 255;

    final Master master;
    final String kind;
    final long request;
    final WorkerSet workers;
    byte[] params = new byte[0];
    Duration deadline = DEADLINE;
    Duration patience = PATIENCE;
    double minCoverage = 1;

    Announcement(Master master, String kind, long request, WorkerSet workers) {
        if (!kind.contains("/") || kind.getBytes(StandardCharsets.UTF_8).length > KIND_BYTES_MAX) {
            throw new IllegalArgumentException("\"" + kind + "\"; expected APPLICATION/REDUCE, at most " + KIND_BYTES_MAX
                    + " bytes");
        }
        if (workers.isEmpty()) {
            throw new IllegalArgumentException("workers: a request needs at least one");
        }
        this.master = master;
        this.kind = kind;
        this.request = request;
        this.workers = workers;
    }

    /** Sets the reduce's parameters: a MessagePack map of its fields for the ready reduces. Default: none. */
    public Announcement params(byte[] params) {
        this.params = params;
        return this;
    }

    /** Sets the time until the answer is needed, time in queues included. */
    public Announcement deadline(Duration deadline) {
        this.deadline = positive("deadline", deadline);
        return this;
    }

    /** Sets how long the request waits for a worker that is attached to no node. */
    public Announcement patience(Duration patience) {
        this.patience = positive("patience", patience);
        return this;
    }

    /** Sets the least share of workers that makes an answer, from 0 to 1. Default: 1. */
    public Announcement minCoverage(double minCoverage) {
        if (!(minCoverage >= 0 && minCoverage <= 1)) {
            throw new IllegalArgumentException("minCoverage: " + minCoverage + "; allowed: 0 to 1");
        }
        this.minCoverage = minCoverage;
        return this;
    }

    /**
     * Announces the request, and waits for the answer.
     *
     * @throws RejectedException if the node rejects it
     * @throws SilentException if no answer comes in time
     * @throws PushException if the connection breaks; the request may have been announced
     * @throws InterruptedException if the thread is interrupted; the request is cancelled
     */
    public Reply await() throws PushException, InterruptedException {
        return master.await(this);
    }

    /**
     * Announces the request. The future ends with the reply or with a {@link PushException}; cancelling it cancels the
     * request.
     *
     * @throws TooLargeException if the parameters are above the limit
     */
    public CompletableFuture<Reply> send() throws PushException {
        return master.send(this);
    }

    private static Duration positive(String field, Duration duration) {
        if (duration.isNegative() || duration.isZero()) {
            throw new IllegalArgumentException(field + ": " + duration + "; allowed: more than none");
        }
        return duration;
    }
}
