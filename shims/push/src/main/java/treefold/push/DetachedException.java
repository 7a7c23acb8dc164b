package treefold.push;

/** The worker or the master was closed, or a node has detached the worker for good. Nothing more will be sent. */
public final class DetachedException extends PushException {
    DetachedException(String why) {
        super(why);
    }
}
