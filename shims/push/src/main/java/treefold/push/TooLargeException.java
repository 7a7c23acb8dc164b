package treefold.push;

/** A payload is above {@link Cluster#payloadBytesMax}. It was not sent. */
public final class TooLargeException extends PushException {
    private final long bytes;
    private final long bytesMax;

    TooLargeException(String field, long bytes, long bytesMax) {
        super(field + ": " + bytes + " bytes; at most " + bytesMax + " (payloadBytesMax)");
        this.bytes = bytes;
        this.bytesMax = bytesMax;
    }

    /** The payload's length. */
    public long bytes() {
        return bytes;
    }

    /** The limit. */
    public long bytesMax() {
        return bytesMax;
    }
}
