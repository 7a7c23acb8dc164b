package treefold.push;

/** The node rejects the announcement. No worker was asked. */
public final class RejectedException extends PushException {
    /** Why an announcement is rejected. */
    public enum Why {
        /** A field is invalid or above a limit of the node. */
        BAD_FIELD,
        /** The node does not accept the application. */
        UNKNOWN_SERVICE,
        /** The node has as many open calls as it may. */
        TOO_MANY_CALLS,
        /** The node is leaving the cluster. */
        SHUTTING_DOWN,
        /** The certificate of this process does not allow it. */
        DENIED,
        /** A reason of a later version. */
        OTHER
    }

    private final Why why;

    RejectedException(Why why, String detail) {
        super("the announcement is rejected: " + detail);
        this.why = why;
    }

    /** The reason. */
    public Why why() {
        return why;
    }
}
