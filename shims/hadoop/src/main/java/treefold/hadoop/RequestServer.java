package treefold.hadoop;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** The HTTP server of an agent or a combiner, with bounds on connections, threads and bodies. */
final class RequestServer implements AutoCloseable {
    private static final int BODY_BYTES_MAX = 2 << 20;
    private static final int SERVERS_MAX = 16;
    private static final int SERVERS_QUEUE_MAX = 256;
    private static final int BACKLOG = 256;
    /** Seconds in which a request must have arrived; the JDK's server has no limit by default. */
    private static final String REQUEST_SECONDS_KEY = "sun.net.httpserver.maxReqTime";
    private static final String REQUEST_SECONDS = "10";

    private final HttpServer server;
    private final ExecutorService servers;

    /** The answer to a request. */
    record Answer(int status, String text) { }

    /** Answers a request with this body. */
    interface Serving {
        Answer serve(String body) throws InterruptedException;
    }

    /** Binds the address. Requests are answered after {@link #start}. */
    RequestServer(InetSocketAddress listen, String name) throws IOException {
        if (System.getProperty(REQUEST_SECONDS_KEY) == null) {
            System.setProperty(REQUEST_SECONDS_KEY, REQUEST_SECONDS);
        }
        server = HttpServer.create(listen, BACKLOG);
        servers = pool(name, SERVERS_MAX, SERVERS_QUEUE_MAX);
        server.setExecutor(servers);
    }

    /** Threads that end when they have nothing to do. With no room to wait, a task is refused if all threads are busy. */
    static ExecutorService pool(String name, int threads, int waiting) {
        BlockingQueue<Runnable> queue = waiting == 0 ? new SynchronousQueue<>() : new ArrayBlockingQueue<>(waiting);
        ThreadPoolExecutor pool = new ThreadPoolExecutor(threads, threads, 60, TimeUnit.SECONDS, queue, task -> {
            Thread thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        });
        pool.allowCoreThreadTimeOut(true);
        return pool;
    }

    /** Answers requests of a method for a path. */
    void serve(String method, String path, Serving serving) {
        server.createContext(path, exchange -> answer(exchange, method, serving));
    }

    void start() {
        server.start();
    }

    /** The port at which it listens. */
    int port() {
        return server.getAddress().getPort();
    }

    @Override
    public void close() {
        server.stop(0);
        servers.shutdownNow();
    }

    private static void answer(HttpExchange exchange, String method, Serving serving) throws IOException {
        try (exchange) {
            byte[] body = exchange.getRequestBody().readNBytes(BODY_BYTES_MAX + 1);
            Answer answer;
            try {
                if (!exchange.getRequestMethod().equals(method)) {
                    answer = new Answer(405, "expected " + method);
                } else if (body.length > BODY_BYTES_MAX) {
                    answer = new Answer(413, "an order has at most " + BODY_BYTES_MAX + " bytes");
                } else {
                    answer = serving.serve(new String(body, StandardCharsets.UTF_8));
                }
            } catch (IllegalArgumentException error) {
                answer = new Answer(400, String.valueOf(error.getMessage()));
            } catch (IllegalStateException error) {
                answer = new Answer(503, String.valueOf(error.getMessage()));
            } catch (InterruptedException closed) {
                Thread.currentThread().interrupt();
                answer = new Answer(503, "the process is closed");
            }
            byte[] text = answer.text().getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(answer.status(), text.length == 0 ? -1 : text.length);
            exchange.getResponseBody().write(text);
        }
    }
}
