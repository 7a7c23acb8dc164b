package treefold.push;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.security.SecureRandom;
import java.security.cert.X509Certificate;
import java.time.Duration;
import java.util.Arrays;
import java.util.function.BooleanSupplier;
import javax.net.ssl.SSLException;

/**
 * Connects to nodes and greets them. It waits in the selector of the thread that uses the connection, so that the thread
 * can be woken and can give up.
 */
final class Dialer {
    /** How long a connection may take, greeting included. */
    static final Duration TIMEOUT = Duration.ofSeconds(2);

    private static final int FAULT_VERSION = 1;
    private static final int FAULT_CLUSTER = 2;
    private static final SecureRandom RANDOM = new SecureRandom();

    private final Cluster cluster;
    private final Selector selector;
    private final BooleanSupplier isUnwanted;

    /** A dialer that gives up when {@code isUnwanted} says so, which it asks after each wakeup. */
    Dialer(Cluster cluster, Selector selector, BooleanSupplier isUnwanted) {
        this.cluster = cluster;
        this.selector = selector;
        this.isUnwanted = isUnwanted;
    }

    /** Connects to the first address of the host that answers. */
    Connection dial(String address) throws PushException {
        PushException last = null;
        for (InetSocketAddress resolved : Address.resolve(address)) {
            try {
                Greeted greeted = reach(address, resolved);
                confirm(resolved, greeted);
                return greeted.connection;
            } catch (PushException error) {
                last = error;
            }
        }
        throw last == null ? new UnreachableException("the host of " + address + " has no address") : last;
    }

    private record Greeted(Connection connection, byte[] node) { }

    /**
     * In a cluster without secrets, a greeting proves nothing. If a node greets with another address than was dialled, a
     * process of that name must answer there.
     */
    private void confirm(InetSocketAddress dialled, Greeted greeted) throws PushException {
        InetSocketAddress named = Address.ofNode(greeted.node);
        if (cluster.keys().isPresent() || named.equals(dialled)) {
            return;
        }
        try {
            Greeted other = reach(named.toString(), named);
            other.connection.close();
            if (Arrays.equals(other.node, greeted.node)) {
                return;
            }
        } catch (PushException error) {
            greeted.connection.close();
            throw new UnreachableException("the node at " + dialled + " greets as " + named + ", where no node answers: "
                    + error.getMessage());
        }
        greeted.connection.close();
        throw new UnreachableException("the node at " + dialled + " greets as " + named + ", where another node is");
    }

    private Greeted reach(String address, InetSocketAddress resolved) throws PushException {
        long until = System.nanoTime() + TIMEOUT.toNanos();
        Credentials credentials = cluster.keys().isPresent() ? Credentials.load(cluster.keys().get()) : null;
        SocketChannel socket = null;
        Connection connection = null;
        try {
            socket = SocketChannel.open();
            connection = connect(address, resolved, socket, credentials, until);
            Messages.Hello hello = greet(connection, credentials, until);
            return new Greeted(connection, hello.node());
        } catch (IOException | ClosedSelectorException error) {
            close(connection, socket);
            if (error instanceof PushException known) {
                throw known;
            }
            throw error instanceof SSLException
                    ? new EncryptionException("the TLS session with " + address + " failed: " + error.getMessage()
                            + "; do both sides have certificates of one authority?", error)
                    : new UnreachableException(address, error);
        }
    }

    private static void close(Connection connection, SocketChannel socket) {
        try {
            if (connection != null) {
                connection.close();
            } else if (socket != null) {
                socket.close();
            }
        } catch (IOException error) {
            // It was never used.
        }
    }

    private Connection connect(
            String address, InetSocketAddress resolved, SocketChannel socket, Credentials credentials, long until)
            throws IOException {
        socket.configureBlocking(false);
        boolean isConnected = socket.connect(resolved);
        SelectionKey key = socket.register(selector, SelectionKey.OP_CONNECT);
        while (!isConnected) {
            selector.select(millisUntil(until));
            selector.selectedKeys().clear();
            checkWanted();
            isConnected = socket.finishConnect();
        }
        socket.setOption(StandardSocketOptions.TCP_NODELAY, true);
        // A host that has vanished is noticed although nothing is expected of it.
        socket.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
        Tunnel tunnel = credentials == null ? new Tunnel.Plain(socket) : new TlsTunnel(socket, credentials.engine());
        Connection connection = new Connection(address, tunnel, selector, key, cluster.payloadBytesMax());
        while (!connection.handshake(millisUntil(until))) {
            checkWanted();
        }
        return connection;
    }

    private Messages.Hello greet(Connection connection, Credentials credentials, long until) throws IOException {
        String name = credentials == null ? cluster.name() : credentials.cluster();
        connection.send(Messages.hello(name, RANDOM.nextLong()));
        while (true) {
            Frame frame;
            try {
                frame = connection.await(millisUntil(until));
            } catch (FaultException fault) {
                throw fault.name().equals("ENCRYPTION") ? unencrypted(fault) : fault;
            }
            checkWanted();
            if (frame == null) {
                continue;
            }
            if (frame.kind != Frame.HELLO) {
                throw new MalformedException("first frame", "is of kind " + frame.kind + "; expected a Hello");
            }
            Messages.Hello hello = Messages.Hello.read(frame);
            check(connection, hello, name);
            if (connection.tunnel() instanceof TlsTunnel tls) {
                checkGrant(tls, hello, name);
            }
            return hello;
        }
    }

    private static EncryptionException unencrypted(FaultException fault) {
        return new EncryptionException("the node encrypts its connections; pass Cluster.certificates(FILE). A cluster with a"
                + " token is not supported in Java: the TLS of the JDK has neither raw public keys nor exported secrets", fault);
    }

    private static void check(Connection connection, Messages.Hello hello, String name) throws IOException {
        if (Math.min(hello.version(), Messages.VERSION) < Math.max(hello.versionLeast(), Messages.VERSION)) {
            connection.send(Messages.fault(FAULT_VERSION, "version", Messages.VERSION));
            connection.writeSome();
            throw new MalformedException("version", "is " + hello.version() + "; this side speaks " + Messages.VERSION);
        }
        if (!hello.cluster().equals(name)) {
            connection.send(Messages.fault(FAULT_CLUSTER, "", 0));
            connection.writeSome();
            throw new UnreachableException(connection.address() + " is a node of the cluster \"" + hello.cluster()
                    + "\"; expected \"" + name + "\"");
        }
    }

    private static void checkGrant(TlsTunnel tls, Messages.Hello hello, String name) throws IOException {
        X509Certificate shown = (X509Certificate) tls.engine().getSession().getPeerCertificates()[0];
        Grant grant = Grant.of(shown);
        InetSocketAddress node = Address.ofNode(hello.node());
        if (!grant.cluster().equals(name) || !grant.covers(node)) {
            throw new EncryptionException("the node's certificate does not allow it to be " + node + " of \"" + name + "\"");
        }
    }

    private void checkWanted() throws DetachedException {
        if (isUnwanted.getAsBoolean()) {
            throw new DetachedException("closed while connecting");
        }
    }

    private static long millisUntil(long until) throws IOException {
        long left = until - System.nanoTime();
        if (left <= 0) {
            throw new IOException("no answer within " + TIMEOUT.toMillis() + " ms");
        }
        return left / 1_000_000 + 1;
    }
}
