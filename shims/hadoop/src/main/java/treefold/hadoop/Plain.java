package treefold.hadoop;

/** The reason why a reducer uses Hadoop's own shuffle. */
final class Plain extends Exception {
    Plain(String reason) {
        super(reason);
    }

    Plain(String reason, Throwable cause) {
        super(reason + ": " + cause, cause);
    }
}
