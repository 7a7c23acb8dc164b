package treefold.push;

/** A node does not let the worker attach, for example because it does not accept the application. */
public final class RefusedException extends PushException {
    private final String address;

    RefusedException(String address, String problem) {
        super(address + " refuses: " + problem);
        this.address = address;
    }

    /** The address of the node. */
    public String address() {
        return address;
    }
}
