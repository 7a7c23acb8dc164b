package treefold.solr;

/** A request that cannot be answered, with the code of HTTP for the coordinator. */
final class Failure extends Exception {
    private final int code;

    Failure(int code, String message) {
        super(message);
        this.code = code;
    }

    int code() {
        return code;
    }
}
