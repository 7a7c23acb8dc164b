package treefold.solr;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.util.concurrent.TimeoutException;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.http2.server.HTTP2CServerConnectionFactory;
import org.eclipse.jetty.server.ConnectionLimit;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.AbstractHandler;
import org.eclipse.jetty.util.BlockingArrayQueue;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

/** A server for HTTP/1.1 and cleartext HTTP/2 at one port, without encryption and without sessions. */
final class Http implements AutoCloseable {
    /** Longest body of a request. */
    static final int BODY_BYTES_MAX = 8 << 20;
    /** Limits of agents and stands. */
    static final Limits LIMITS = new Limits(256, 4_096, 1_024);
    private static final System.Logger LOG = System.getLogger(Http.class.getName());
    private static final int QUEUE_STEP = 64;
    private static final int THREADS_MIN = 8;
    private static final int IDLE_MILLIS = 60_000;
    private static final long STOP_MILLIS = 2_000;

    private final Server server;
    private final ServerConnector connector;

    /**
     * Limits of a server.
     *
     * @param threads threads that serve
     * @param waiting requests and connections that wait for a thread; the connection of one too many is closed
     * @param connections connections at a time; more wait in the system until one ends
     */
    record Limits(int threads, int waiting, int connections) { }

    /** An answer to a request. */
    record Answer(int status, String type, byte[] body) { }

    /** Answers requests, on the server's threads. */
    interface Serving {
        Answer serve(String method, String path, String query, byte[] body);
    }

    /** Begins to serve at an address; port 0 takes any free port. */
    Http(InetSocketAddress address, Serving serving) throws IOException {
        this(address, serving, LIMITS);
    }

    Http(InetSocketAddress address, Serving serving, Limits limits) throws IOException {
        int least = Math.min(THREADS_MIN, limits.threads);
        QueuedThreadPool threads = new QueuedThreadPool(limits.threads, least, IDLE_MILLIS,
                new BlockingArrayQueue<>(Math.min(QUEUE_STEP, limits.waiting), QUEUE_STEP, limits.waiting));
        threads.setDaemon(true);
        server = new Server(threads);
        HttpConfiguration config = new HttpConfiguration();
        config.setSendServerVersion(false);
        connector =
                new ServerConnector(server, new HttpConnectionFactory(config), new HTTP2CServerConnectionFactory(config));
        connector.setHost(address.getHostString());
        connector.setPort(address.getPort());
        server.addConnector(connector);
        server.addBean(new ConnectionLimit(limits.connections, connector));
        server.setHandler(new Handler(serving));
        server.setStopTimeout(STOP_MILLIS);
        try {
            server.start();
        } catch (Exception error) {
            throw new IOException("can't listen at " + address + ": " + error.getMessage(), error);
        }
    }

    /** The port at which it listens. */
    int port() {
        return connector.getLocalPort();
    }

    /** Waits until the server ends. */
    void join() throws InterruptedException {
        server.join();
    }

    @Override
    public void close() {
        try {
            server.stop();
        } catch (TimeoutException cut) {
            LOG.log(System.Logger.Level.DEBUG, "connections that did not end in time were cut");
        } catch (Exception error) {
            throw new IllegalStateException("the server can't be stopped", error);
        }
    }

    private static final class Handler extends AbstractHandler {
        private final Serving serving;

        Handler(Serving serving) {
            this.serving = serving;
        }

        @Override
        public void handle(String target, Request base, HttpServletRequest request, HttpServletResponse response)
                throws IOException {
            base.setHandled(true);
            byte[] body;
            try (InputStream in = request.getInputStream()) {
                body = in.readNBytes(BODY_BYTES_MAX + 1);
            }
            if (body.length > BODY_BYTES_MAX) {
                response.sendError(413);
                return;
            }
            String query = request.getQueryString();
            Answer answer = serving.serve(request.getMethod(), request.getRequestURI(), query == null ? "" : query, body);
            response.setStatus(answer.status());
            response.setContentType(answer.type());
            response.setContentLength(answer.body().length);
            response.getOutputStream().write(answer.body());
        }
    }
}
