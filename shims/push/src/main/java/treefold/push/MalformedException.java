package treefold.push;

/** The other side sends bytes that are not the protocol, or a message above a limit. The connection is closed. */
public final class MalformedException extends PushException {
    private final String field;

    MalformedException(String field, String problem) {
        super("the other side sends a malformed message: " + field + " " + problem);
        this.field = field;
    }

    /** The name of the field or of the limit. */
    public String field() {
        return field;
    }
}
