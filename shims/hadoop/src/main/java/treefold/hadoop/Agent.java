package treefold.hadoop;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import treefold.push.OverException;
import treefold.push.PushException;

/**
 * The agent of a node: a worker of push waves whose results are the node's map outputs. It reads them as any reducer does, from
 * the node's ShuffleHandler, with the signature of the reducer that orders them.
 *
 * <p>{@code GET /worker} returns the worker's number. {@code POST /orders} has a line for each part of an order, with its
 * signature, a space and its path; the answer is 202 when the ShuffleHandler has accepted the first part.
 */
final class Agent implements AutoCloseable {
    /** Orders that are read at a time. Each holds the memory of {@link Runs} and {@link Slices}. */
    static final int ORDERS_MAX = 4;
    /** Orders that wait, each with an open connection to the ShuffleHandler. */
    static final int QUEUE_MAX = 64;
    /** Requests of orders that are remembered, so that none is pushed twice. */
    static final int KNOWN_MAX = 16_384;

    private static final Logger LOG = LoggerFactory.getLogger(Agent.class);
    private static final int BODY_BYTES_MAX = 2 << 20;
    private static final int SERVERS_MAX = 16;
    private static final int SERVERS_QUEUE_MAX = 256;
    private static final int BACKLOG = 256;
    /** Seconds in which a request must have arrived; the JDK's server has no limit by default. */
    private static final String REQUEST_SECONDS_KEY = "sun.net.httpserver.maxReqTime";
    private static final String REQUEST_SECONDS = "10";

    private final AgentSettings settings;
    private final Configuration conf;
    private final HttpServer server;
    private final Membership membership;
    private final ExecutorService servers = pool("treefold agent", SERVERS_MAX, SERVERS_QUEUE_MAX);
    private final ExecutorService orders = pool("treefold order", ORDERS_MAX, QUEUE_MAX);
    /** Guarded by itself. The first requests of orders. */
    private final Map<Long, Boolean> known = new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Long, Boolean> eldest) {
            return size() > KNOWN_MAX;
        }
    };

    /** Begins to listen. The worker attaches when it is first needed, so an agent may start before its relays. */
    Agent(AgentSettings settings, Configuration conf) throws IOException {
        if (System.getProperty(REQUEST_SECONDS_KEY) == null) {
            System.setProperty(REQUEST_SECONDS_KEY, REQUEST_SECONDS);
        }
        this.settings = settings;
        this.conf = conf;
        this.server = HttpServer.create(settings.listen(), BACKLOG);
        this.membership = new Membership(settings, server.getAddress().getPort());
        server.setExecutor(servers);
        server.createContext("/worker", exchange -> answer(exchange, this::number));
        server.createContext("/orders", exchange -> answer(exchange, this::accept));
        server.start();
    }

    private static ExecutorService pool(String name, int threads, int waiting) {
        ThreadPoolExecutor pool = new ThreadPoolExecutor(threads, threads, 60, TimeUnit.SECONDS,
                new ArrayBlockingQueue<>(waiting), task -> {
                    Thread thread = new Thread(task, name);
                    thread.setDaemon(true);
                    return thread;
                });
        pool.allowCoreThreadTimeOut(true);
        return pool;
    }

    /** The port at which it listens. */
    int port() {
        return server.getAddress().getPort();
    }

    @Override
    public void close() {
        server.stop(0);
        servers.shutdownNow();
        orders.shutdownNow();
        membership.close();
    }

    private record Answer(int status, String text) { }

    /** Answers a request with this body. */
    private interface Serving {
        Answer serve(String method, String body) throws InterruptedException;
    }

    private static void answer(HttpExchange exchange, Serving serving) throws IOException {
        try (exchange) {
            byte[] body = exchange.getRequestBody().readNBytes(BODY_BYTES_MAX + 1);
            Answer answer;
            try {
                answer = body.length > BODY_BYTES_MAX
                        ? new Answer(413, "an order has at most " + BODY_BYTES_MAX + " bytes")
                        : serving.serve(exchange.getRequestMethod(), new String(body, StandardCharsets.UTF_8));
            } catch (IllegalArgumentException error) {
                answer = new Answer(400, String.valueOf(error.getMessage()));
            } catch (IllegalStateException error) {
                answer = new Answer(503, String.valueOf(error.getMessage()));
            } catch (InterruptedException closed) {
                Thread.currentThread().interrupt();
                answer = new Answer(503, "the agent is closed");
            }
            byte[] text = answer.text().getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(answer.status(), text.length == 0 ? -1 : text.length);
            exchange.getResponseBody().write(text);
        }
    }

    private Answer number(String method, String body) throws InterruptedException {
        if (!method.equals("GET")) {
            return new Answer(405, "expected GET");
        }
        try {
            return new Answer(200, Integer.toString(membership.member().number()));
        } catch (PushException error) {
            return new Answer(503, "no relay takes the agent in: " + error.getMessage());
        }
    }

    /** A part of an order, with its signature. */
    private record Signed(Order order, String signature) {
        static List<Signed> read(String body) {
            List<Signed> parts = new ArrayList<>();
            for (String line : body.lines().toList()) {
                int space = line.indexOf(' ');
                if (space < 1) {
                    throw new IllegalArgumentException("expected lines of a signature, a space and a path");
                }
                Signed part = new Signed(Order.parse(line.substring(space + 1)), line.substring(0, space));
                if (part.order.part() != parts.size() || !parts.isEmpty() && !part.order.isOf(parts.get(0).order)) {
                    throw new IllegalArgumentException("line " + parts.size() + " is no part of the order of the first line");
                }
                parts.add(part);
            }
            if (parts.isEmpty() || parts.size() != parts.get(0).order.parts()) {
                throw new IllegalArgumentException("the order does not have all its parts");
            }
            return parts;
        }
    }

    private Answer accept(String method, String body) throws InterruptedException {
        if (!method.equals("POST")) {
            return new Answer(405, "expected POST");
        }
        List<Signed> parts = Signed.read(body);
        Order order = parts.get(0).order;
        CompressionCodec codec = codec(order.fold());
        Membership.Member member;
        try {
            member = membership.member();
        } catch (PushException error) {
            return new Answer(503, "no relay takes the agent in: " + error.getMessage());
        }
        Outputs first;
        try {
            first = Outputs.open(settings.handler(), order, parts.get(0).signature);
        } catch (Outputs.RefusedException error) {
            return new Answer(403, error.getMessage());
        } catch (IOException error) {
            return new Answer(502, "the ShuffleHandler at " + settings.handler() + " does not answer: " + error);
        }
        boolean isTaken = false;
        try {
            synchronized (known) {
                if (known.putIfAbsent(order.request(), true) != null) {
                    return new Answer(409, "the order is known");
                }
            }
            orders.execute(() -> push(parts, first, codec, member));
            isTaken = true;
            return new Answer(202, Integer.toString(member.number()));
        } catch (RejectedExecutionException error) {
            return new Answer(503, "the agent has " + QUEUE_MAX + " waiting orders, and may have no more");
        } finally {
            if (!isTaken) {
                first.close();
            }
        }
    }

    private CompressionCodec codec(Fold fold) {
        if (fold.codec().isEmpty()) {
            return null;
        }
        CompressionCodec codec = new CompressionCodecFactory(conf).getCodecByClassName(fold.codec());
        if (codec == null) {
            throw new IllegalArgumentException("the codec " + fold.codec() + " is not among io.compression.codecs");
        }
        return codec;
    }

    private void push(List<Signed> parts, Outputs first, CompressionCodec codec, Membership.Member member) {
        Order order = parts.get(0).order;
        Slices slices = new Slices(order, (request, piece, isLast) -> {
            try {
                if (isLast) {
                    member.worker().pushLast(request, piece);
                } else {
                    member.worker().push(request, piece);
                }
                return true;
            } catch (OverException error) {
                return false;
            }
        });
        Runs runs = new Runs(order.fold(), codec, conf, slices);
        try {
            try (first) {
                runs.take(first);
            }
            for (Signed part : parts.subList(1, parts.size())) {
                try (Outputs outputs = Outputs.open(settings.handler(), part.order, part.signature)) {
                    runs.take(outputs);
                }
            }
            runs.flush();
            slices.end();
        } catch (Slices.EndedException error) {
            LOG.debug("an order of {} ended before its outputs", order.job());
        } catch (IOException | RuntimeException error) {
            fail(order, member, String.valueOf(error.getMessage()));
        } catch (InterruptedException closed) {
            fail(order, member, "the agent is closed");
        }
    }

    private static void fail(Order order, Membership.Member member, String problem) {
        LOG.warn("can't push the outputs of {} for reducer {}: {}", order.job(), order.reduce(), problem);
        try {
            for (int slice = 0; slice < order.slices(); slice++) {
                if (order.wants(slice)) {
                    member.worker().fail(order.request() + slice, problem);
                }
            }
        } catch (PushException closed) {
            LOG.debug("the worker is closed");
        }
    }
}
