package treefold.push;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Optional;

/**
 * The cluster to which a worker or a master connects, and the limits of this process. A value: each method returns a new
 * one.
 *
 * <p>A cluster with a token is not supported; see {@link EncryptionException}.
 */
public final class Cluster {
    /** The name that clusters have by default. */
    public static final String NAME_DEFAULT = "treefold";
    /** Default limit of a payload: 64 MiB, as at nodes. */
    public static final int PAYLOAD_BYTES_MAX = 64 << 20;

    private static final int NAME_BYTES_MAX = 255;
    private static final int PAYLOAD_BYTES_MOST = 1 << 30;

    private final String name;
    private final Path keys;
    private final int payloadBytesMax;

    private Cluster(String name, Path keys, int payloadBytesMax) {
        this.name = name;
        this.keys = keys;
        this.payloadBytesMax = payloadBytesMax;
    }

    /** The cluster with the default name, without secrets. */
    public static Cluster plain() {
        return new Cluster(NAME_DEFAULT, null, PAYLOAD_BYTES_MAX);
    }

    /** A cluster of this name, without secrets. Its connections are not encrypted. */
    public static Cluster named(String name) {
        int bytes = name.getBytes(StandardCharsets.UTF_8).length;
        if (bytes == 0 || bytes > NAME_BYTES_MAX) {
            throw new IllegalArgumentException("name: " + bytes + " bytes; allowed: 1 to " + NAME_BYTES_MAX);
        }
        return new Cluster(name, null, PAYLOAD_BYTES_MAX);
    }

    /**
     * A cluster with certificates. The file is one of {@code treefold keys issue client NAME --may push,call}; the
     * cluster's name is in it. It is read at each connection, so a renewed file needs no restart.
     */
    public static Cluster certificates(Path keys) {
        return new Cluster(null, keys, PAYLOAD_BYTES_MAX);
    }

    /** Sets the longest payload that this process sends and accepts. Nodes have a limit of the same name. */
    public Cluster payloadBytesMax(int bytes) {
        if (bytes < 1 || bytes > PAYLOAD_BYTES_MOST) {
            throw new IllegalArgumentException("payloadBytesMax: " + bytes + "; allowed: 1 to " + PAYLOAD_BYTES_MOST);
        }
        return new Cluster(name, keys, bytes);
    }

    /** The longest payload that this process sends and accepts. */
    public int payloadBytesMax() {
        return payloadBytesMax;
    }

    /** The cluster's name; null if it is in the file of keys. */
    String name() {
        return name;
    }

    Optional<Path> keys() {
        return Optional.ofNullable(keys);
    }
}
