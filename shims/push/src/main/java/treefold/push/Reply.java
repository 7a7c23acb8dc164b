package treefold.push;

import java.time.Duration;
import java.util.List;
import java.util.Optional;

/** The answer to an announcement: one value for all workers, and an account of them. */
public final class Reply {
    /** How much of the result came. */
    public enum Status {
        /** Every worker contributed. */
        FULL,
        /** Not every worker, but at least the minimum coverage. */
        PARTIAL,
        /** Less than the minimum coverage: there is no value. */
        INSUFFICIENT
    }

    private final Status status;
    private final byte[] value;
    private final WorkerSet asked;
    private final WorkerSet contributed;
    private final List<Missing> missing;
    private final Duration elapsed;

    Reply(Status status, byte[] value, WorkerSet asked, WorkerSet contributed, List<Missing> missing, Duration elapsed) {
        this.status = status;
        this.value = value;
        this.asked = asked;
        this.contributed = contributed;
        this.missing = List.copyOf(missing);
        this.elapsed = elapsed;
    }

    /** How much of the result came. */
    public Status status() {
        return status;
    }

    /** The folded result. Empty if coverage is insufficient, or no worker was expected. */
    public Optional<byte[]> value() {
        return Optional.ofNullable(value);
    }

    /**
     * The folded result.
     *
     * @throws InsufficientException if there is none
     */
    public byte[] requireValue() throws InsufficientException {
        if (value == null) {
            throw new InsufficientException(this);
        }
        return value;
    }

    /** The share of the expected workers that contributed, from 0 to 1. */
    public double coverage() {
        return asked.isEmpty() ? 1 : (double) contributed.size() / asked.size();
    }

    /** The expected workers. */
    public WorkerSet asked() {
        return asked;
    }

    /** The workers that contributed. */
    public WorkerSet contributed() {
        return contributed;
    }

    /** The workers that did not, with reasons. */
    public List<Missing> missing() {
        return missing;
    }

    /** The time that the node took. */
    public Duration elapsed() {
        return elapsed;
    }
}
