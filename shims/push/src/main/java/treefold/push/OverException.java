package treefold.push;

/** The request has ended, or the worker's last push for it was made before. The push was discarded. */
public final class OverException extends PushException {
    private final long request;

    OverException(long request) {
        super("request " + Long.toUnsignedString(request) + " is over");
        this.request = request;
    }

    /** The number of the request. */
    public long request() {
        return request;
    }
}
