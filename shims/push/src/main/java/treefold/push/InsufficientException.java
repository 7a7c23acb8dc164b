package treefold.push;

/** The reply has no value, because fewer workers contributed than the minimum coverage asks for. */
public final class InsufficientException extends PushException {
    private final transient Reply reply;

    InsufficientException(Reply reply) {
        super(reply.contributed().size() + " of " + reply.asked().size() + " workers contributed; missing: "
                + reply.missing());
        this.reply = reply;
    }

    /** The reply, with its coverage and the missing workers. */
    public Reply reply() {
        return reply;
    }
}
