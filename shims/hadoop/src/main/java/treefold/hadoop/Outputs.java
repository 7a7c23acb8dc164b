package treefold.hadoop;

import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.URL;
import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.io.WritableUtils;
import org.apache.hadoop.mapreduce.security.SecureShuffleUtils;
import org.apache.hadoop.mapreduce.task.reduce.ShuffleHeader;

/** The map outputs of a part of an order, as its node's ShuffleHandler sends them: one after the other. */
final class Outputs implements Closeable {
    private static final int CONNECT_MILLIS = 5_000;
    private static final int READ_MILLIS = 60_000;
    private static final int ID_BYTES_MAX = 1_000;
    private static final int BUFFER_BYTES = 64 << 10;

    private final HttpURLConnection connection;
    private final DataInputStream in;
    private final Set<String> awaited;
    private final int reduce;

    private Outputs(HttpURLConnection connection, InputStream in, Order order) {
        this.connection = connection;
        this.in = new DataInputStream(new BufferedInputStream(in, BUFFER_BYTES));
        this.awaited = new HashSet<>(order.maps());
        this.reduce = order.reduce();
    }

    /** The ShuffleHandler does not allow an order. */
    static final class RefusedException extends IOException {
        RefusedException(int status, String said) {
            super("the ShuffleHandler refuses the order with " + status + " " + said);
        }
    }

    /**
     * A map output, whose bytes follow in {@link #stream}.
     *
     * @param bytes its length as it is sent, with its checksum
     */
    record Output(String map, long bytes) { }

    /**
     * Asks a ShuffleHandler, which verifies the signature.
     *
     * @throws RefusedException if it does not send the outputs
     */
    static Outputs open(InetSocketAddress handler, Order order, String signature) throws IOException {
        URL url = new URL("http", handler.getHostString(), handler.getPort(), order.path());
        HttpURLConnection connection = (HttpURLConnection) url.openConnection(Proxy.NO_PROXY);
        connection.setConnectTimeout(CONNECT_MILLIS);
        connection.setReadTimeout(READ_MILLIS);
        connection.setRequestProperty(SecureShuffleUtils.HTTP_HEADER_URL_HASH, signature);
        connection.setRequestProperty(ShuffleHeader.HTTP_HEADER_NAME, ShuffleHeader.DEFAULT_HTTP_HEADER_NAME);
        connection.setRequestProperty(ShuffleHeader.HTTP_HEADER_VERSION, ShuffleHeader.DEFAULT_HTTP_HEADER_VERSION);
        boolean isOpen = false;
        try {
            int status = connection.getResponseCode();
            boolean isShuffle = ShuffleHeader.DEFAULT_HTTP_HEADER_NAME
                    .equals(connection.getHeaderField(ShuffleHeader.HTTP_HEADER_NAME));
            if (status != HttpURLConnection.HTTP_OK || !isShuffle) {
                throw new RefusedException(status, connection.getResponseMessage());
            }
            Outputs outputs = new Outputs(connection, connection.getInputStream(), order);
            isOpen = true;
            return outputs;
        } finally {
            if (!isOpen) {
                connection.disconnect();
            }
        }
    }

    /**
     * The next output, or null after the last one.
     *
     * @throws IOException if it is none that was asked for, or outputs are missing
     */
    Output next() throws IOException {
        if (awaited.isEmpty()) {
            return null;
        }
        String map = WritableUtils.readStringSafely(in, ID_BYTES_MAX);
        long bytes = WritableUtils.readVLong(in);
        WritableUtils.readVLong(in);
        int forReduce = WritableUtils.readVInt(in);
        if (!awaited.remove(map) || forReduce != reduce || bytes < 0) {
            throw new IOException("the ShuffleHandler sends " + bytes + " bytes of \"" + map + "\" for reducer " + forReduce
                    + ", and not what the order asks for");
        }
        return new Output(map, bytes);
    }

    /** The bytes of the output, and of the next ones. */
    InputStream stream() {
        return in;
    }

    @Override
    public void close() {
        connection.disconnect();
    }
}
