package treefold.push;

/** No connection could be made, or it broke before the answer came. */
public final class UnreachableException extends PushException {
    UnreachableException(String address, Throwable cause) {
        super("can't connect to " + address + ": " + cause.getMessage(), cause);
    }

    UnreachableException(String message) {
        super(message);
    }
}
