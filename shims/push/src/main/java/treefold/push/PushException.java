package treefold.push;

import java.io.IOException;

/** Why an operation of a worker or a master failed. Each subclass says what happened to the state. */
public abstract class PushException extends IOException {
    PushException(String message) {
        super(message);
    }

    PushException(String message, Throwable cause) {
        super(message, cause);
    }
}
