package treefold.solr;

/** A request that cannot be answered, with the code of HTTP for the coordinator and the reason under which it is counted. */
final class Failure extends Exception {
    /** Letters of a message; the rest is cut. */
    static final int LETTERS_MAX = 2_000;

    private final transient Reason reason;
    private final int code;

    Failure(Reason reason, int code, String message) {
        super(message.length() > LETTERS_MAX ? message.substring(0, LETTERS_MAX) + "…" : message);
        this.reason = reason;
        this.code = code;
    }

    Reason reason() {
        return reason;
    }

    int code() {
        return code;
    }
}
