package treefold.push;

/**
 * Workers that contributed nothing to a reply, and why.
 *
 * @param workers their numbers
 * @param reason the kind of reason
 * @param detail the reason in words: the worker's own, or that of a node; may be empty
 */
public record Missing(WorkerSet workers, Reason reason, String detail) {
    /** Why workers are missing. docs/push.md says when each occurs. */
    public enum Reason {
        /** The worker was attached to no node. */
        NO_REPLICA,
        /** The worker was attached and is no longer, or a node with its pushes was lost. */
        LOST,
        /** Its last push did not come in time. */
        LATE,
        /** A node has too much work. */
        TOO_BUSY,
        /** A limit of a node is reached. */
        FULL,
        /** No reduce of this name is at the node. */
        UNKNOWN_AGGREGATION,
        /** Not of push waves. */
        NOT_HOSTED,
        /** The worker has reported a failure ({@link Worker#fail}). */
        LOCAL_FAILED,
        /** Not of push waves. */
        LOCAL_PANICKED,
        /** The reduce does not accept its pushes. */
        REDUCE_FAILED,
        /** It contributed twice, over two ways, and the wave could not part them. */
        OVERLAP,
        /** The request was cancelled. */
        CANCELLED,
        /** A node left the cluster. */
        SHUTTING_DOWN,
        /** Not of push waves. */
        FILTER_FAILED,
        /** Not of push waves. */
        LAGGING,
        /** The reduce does not accept its parameters. */
        INVALID_PARAMS,
        /** A reason of a later version. */
        OTHER;

        static Reason of(long number) {
            Reason[] known = values();
            return number >= 1 && number < known.length ? known[(int) number - 1] : OTHER;
        }
    }

    /** The workers, the reason, and the detail if there is one. */
    @Override
    public String toString() {
        return workers + ": " + reason.name().toLowerCase(java.util.Locale.ROOT) + (detail.isEmpty() ? "" : " (" + detail + ")");
    }
}
