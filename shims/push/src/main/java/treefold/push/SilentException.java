package treefold.push;

import java.time.Duration;

/** No answer came in time. A master has cancelled its announcement. */
public final class SilentException extends PushException {
    SilentException(String address, Duration waited) {
        super(address + " did not answer within " + waited.toMillis() + " ms");
    }
}
