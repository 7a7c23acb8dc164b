package treefold.push;

/** The node has closed the connection, and has said why. */
public final class FaultException extends PushException {
    private static final String[] NAMES = {
        "NONE", "VERSION", "CLUSTER", "OUT_OF_TURN", "FRAMING", "STREAMS", "TOO_LARGE", "MALFORMED", "TOO_MANY_PEERS",
        "DUPLICATE", "SHUTTING_DOWN", "TOKEN", "ENCRYPTION", "CERTIFICATE", "NAME",
    };

    private final long code;
    private final String field;
    private final long limit;

    FaultException(long code, String field, long limit) {
        super("the node closes the connection: " + nameOf(code) + detail(field, limit));
        this.code = code;
        this.field = field;
        this.limit = limit;
    }

    /** The fault's code, as docs/protocol.md numbers them. */
    public long code() {
        return code;
    }

    /** The fault's name in docs/protocol.md, or its number if this version does not know it. */
    public String name() {
        return nameOf(code);
    }

    /** The field or the limit that is the reason; empty if there is none. */
    public String field() {
        return field;
    }

    /** The limit's value; 0 if there is none. */
    public long limit() {
        return limit;
    }

    private static String nameOf(long code) {
        return code >= 0 && code < NAMES.length ? NAMES[(int) code] : Long.toUnsignedString(code);
    }

    private static String detail(String field, long limit) {
        if (field.isEmpty()) {
            return "";
        }
        return limit == 0 ? " (" + field + ")" : " (" + field + ", limit " + Long.toUnsignedString(limit) + ")";
    }
}
