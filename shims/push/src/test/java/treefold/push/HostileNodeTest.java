package treefold.push;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Servers that are no nodes, or bad ones: each is a typed exception, in time. */
@Timeout(60)
final class HostileNodeTest {
    private static final Duration SHORT = Duration.ofMillis(300);

    private ServerSocket server;

    @BeforeEach
    void listen() throws IOException {
        server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    }

    @AfterEach
    void close() throws IOException {
        server.close();
    }

    /** Serves a connection. */
    private interface Serving {
        void serve(Socket socket) throws IOException;
    }

    private String serve(Serving serving) {
        Thread thread = new Thread(() -> {
            while (true) {
                try (Socket socket = server.accept()) {
                    serving.serve(socket);
                } catch (IOException error) {
                    if (server.isClosed()) {
                        return;
                    }
                }
            }
        });
        thread.setDaemon(true);
        thread.start();
        return "127.0.0.1:" + server.getLocalPort();
    }

    private static void write(Socket socket, Frame frame) throws IOException {
        socket.getOutputStream().write(frame.head().array());
        if (frame.payload != null) {
            socket.getOutputStream().write(frame.payload);
        }
        socket.getOutputStream().flush();
    }

    /** Greets as the node that listens here. */
    private void greet(Socket socket, String cluster, int version) throws IOException {
        ByteBuffer node = ByteBuffer.allocate(14).order(ByteOrder.LITTLE_ENDIAN);
        node.put(server.getInetAddress().getAddress()).putShort((short) server.getLocalPort()).putLong(1);
        MessageWriter hello = new MessageWriter().number(1, version).number(2, version).text(3, cluster);
        write(socket, new Frame(Frame.HELLO, hello.bytes(4, node.array()).toByteArray()));
    }

    private static void await(Socket socket) throws IOException {
        InputStream in = socket.getInputStream();
        byte[] dropped = new byte[1_024];
        while (in.read(dropped) >= 0) {
            // The other side has closed the connection only at the end.
        }
    }

    private <E extends PushException> E both(Class<E> expected, String address) {
        assertThrows(expected, () -> Master.connect(address));
        return assertThrows(expected, () -> Worker.builder("words", 0).at(address).timeout(SHORT).attach());
    }

    @Test
    void random_bytes_are_malformed() {
        Random random = new Random(7);
        String address = serve(socket -> {
            byte[] garbage = new byte[100];
            random.nextBytes(garbage);
            socket.getOutputStream().write(garbage);
            await(socket);
        });
        both(MalformedException.class, address);
    }

    @Test
    void answer_of_another_protocol_is_malformed() {
        String address = serve(socket -> {
            socket.getOutputStream().write("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".getBytes());
            await(socket);
        });
        both(MalformedException.class, address);
    }

    @Test
    void silent_server_is_unreachable() {
        String address = serve(HostileNodeTest::await);
        assertThrows(UnreachableException.class, () -> Master.connect(address));
        assertThrows(SilentException.class, () -> Worker.builder("words", 0).at(address).timeout(SHORT).attach());
    }

    @Test
    void port_without_a_server_is_unreachable() throws IOException {
        String address = "127.0.0.1:" + server.getLocalPort();
        server.close();
        both(UnreachableException.class, address);
    }

    @Test
    void node_of_another_version_is_left() {
        String address = serve(socket -> {
            greet(socket, "treefold", 4);
            await(socket);
        });
        assertEquals("version", both(MalformedException.class, address).field());
    }

    @Test
    void node_of_another_cluster_is_named() {
        String address = serve(socket -> {
            greet(socket, "other", 3);
            await(socket);
        });
        assertTrue(both(UnreachableException.class, address).getMessage().contains("\"other\""));
    }

    @Test
    void fault_is_an_exception_with_its_name() {
        String address = serve(socket -> {
            write(socket, Messages.fault(8, "peers_max", 10));
            socket.shutdownOutput();
            await(socket);
        });
        FaultException fault = both(FaultException.class, address);
        assertEquals("TOO_MANY_PEERS", fault.name());
        assertEquals(10, fault.limit());
    }

    @Test
    void node_that_greets_with_the_address_of_another_is_left() {
        String address = serve(socket -> {
            ByteBuffer node = ByteBuffer.allocate(14).order(ByteOrder.LITTLE_ENDIAN);
            node.put(new byte[] {127, 0, 0, 1}).putShort((short) 1).putLong(1);
            MessageWriter hello = new MessageWriter().number(1, 3).number(2, 3).text(3, "treefold");
            write(socket, new Frame(Frame.HELLO, hello.bytes(4, node.array()).toByteArray()));
            await(socket);
        });
        both(UnreachableException.class, address);
    }

    @Test
    void garbage_after_attaching_makes_the_worker_attach_again() throws Exception {
        int[] connections = {0};
        String address = serve(socket -> {
            greet(socket, "treefold", 3);
            write(socket, new Frame(Frame.PUSH_ATTACHED, new MessageWriter().number(1, 1 << 20).toByteArray()));
            connections[0]++;
            if (connections[0] == 1) {
                socket.getOutputStream().write(new byte[100]);
            }
            await(socket);
        });
        try (Worker worker = Worker.builder("words", 0).at(address).attach()) {
            worker.push(1, new byte[10]);
            Treefold.until("it attaches again", () -> connections[0] == 2 && worker.attachedTo() != null);
        }
    }

    @Test
    void node_that_ends_during_a_request_fails_it() throws Exception {
        String address = serve(socket -> {
            greet(socket, "treefold", 3);
            byte[] read = new byte[1_000];
            // The greeting and the request may come together.
            for (int bytes = 0; bytes < 130;) {
                bytes += socket.getInputStream().read(read);
            }
        });
        try (Master master = Master.connect(address)) {
            PushException error = assertThrows(PushException.class,
                    () -> master.announce("words/sum", 1, WorkerSet.of(0)).await());
            assertTrue(error instanceof UnreachableException, error.toString());
        }
    }

    @Test
    void node_that_does_not_answer_a_request_is_silent() throws Exception {
        String address = serve(socket -> {
            greet(socket, "treefold", 3);
            await(socket);
        });
        try (Master master = Master.connect(address)) {
            assertThrows(SilentException.class,
                    () -> master.announce("words/sum", 1, WorkerSet.of(0)).deadline(Duration.ofMillis(50)).await());
        }
    }

    @Test
    void cancelled_requests_of_a_node_that_does_not_read_are_bounded() throws Exception {
        String address = serve(socket -> {
            greet(socket, "treefold", 3);
            try {
                Thread.sleep(SHORT.toMillis() * 100);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        });
        try (Master master = Master.connect(address)) {
            for (int request = 0; request < 10 * Master.OPEN_MAX; request++) {
                master.announce("words/sum", request, WorkerSet.of(0)).params(new byte[1_000]).send().cancel(false);
                assertTrue(master.waiting() <= Master.OPEN_MAX + Connection.BUFFERS_MAX, master.waiting() + " messages wait");
            }
        }
    }

    @Test
    void arguments_are_checked_before_a_node_is_asked() {
        assertThrows(IllegalArgumentException.class, () -> Worker.builder("a/b", 0));
        assertThrows(IllegalArgumentException.class, () -> Worker.builder("", 0));
        assertThrows(IllegalArgumentException.class, () -> Worker.builder("words", -1));
        assertThrows(IllegalArgumentException.class, () -> Worker.builder("words", 0).at("localhost"));
        assertThrows(IllegalArgumentException.class, () -> Worker.builder("words", 0).at("localhost:99999"));
        assertThrows(IllegalArgumentException.class, () -> Worker.builder("words", 0).attach());
        assertThrows(IllegalArgumentException.class, Master::connect);
        assertThrows(IllegalArgumentException.class, () -> Cluster.named(""));
        assertThrows(IllegalArgumentException.class, () -> new Announcement(null, "words", 1, WorkerSet.of(0)));
        assertThrows(IllegalArgumentException.class, () -> new Announcement(null, "a/b", 1, WorkerSet.empty()));
    }
}
