package treefold.hadoop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.CompressionCodecFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import treefold.hadoop.RequestServer.Answer;
import treefold.push.OverException;
import treefold.push.PushException;

/**
 * The agent of a node: a worker of push waves whose results are the node's map outputs. It reads them as any reducer does, from
 * the node's ShuffleHandler, with the signature of the reducer that orders them.
 *
 * <p>{@code GET /worker} returns the worker's number and, behind a space, the relay to which it is attached. {@code POST
 * /orders} has a line for each part of an order, with its signature, a space and its path; the answer is 202 when the
 * ShuffleHandler has accepted the first part.
 */
final class Agent implements AutoCloseable {
    /** Orders that are read at a time. Each holds the memory of {@link Runs} and {@link Slices}. */
    static final int ORDERS_MAX = 4;
    /** Orders that wait, each with an open connection to the ShuffleHandler. */
    static final int QUEUE_MAX = 64;
    /** Requests of orders that are remembered, so that none is pushed twice. */
    static final int KNOWN_MAX = 16_384;

    private static final Logger LOG = LoggerFactory.getLogger(Agent.class);

    private final AgentSettings settings;
    private final Configuration conf;
    private final RequestServer server;
    private final Membership membership;
    private final ExecutorService orders = RequestServer.pool("treefold order", ORDERS_MAX, QUEUE_MAX);
    /** Guarded by itself. The first requests of orders. */
    private final Map<Long, Boolean> known = new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Long, Boolean> eldest) {
            return size() > KNOWN_MAX;
        }
    };

    /** Begins to listen. The worker attaches when it is first needed, so an agent may start before its relays. */
    Agent(AgentSettings settings, Configuration conf) throws IOException {
        this.settings = settings;
        this.conf = conf;
        this.server = new RequestServer(settings.listen(), "treefold agent");
        this.membership = new Membership(settings.attachment(), server.port());
        server.serve("GET", "/worker", this::number);
        server.serve("POST", "/orders", this::accept);
        server.start();
    }

    /** The port at which it listens. */
    int port() {
        return server.port();
    }

    @Override
    public void close() {
        server.close();
        orders.shutdownNow();
        membership.close();
    }

    private Answer number(String body) throws InterruptedException {
        try {
            Membership.Member member = membership.member();
            return new Answer(200, member.text());
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

    private Answer accept(String body) throws InterruptedException {
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
            return new Answer(202, member.text());
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
            for (int slice : order.wanted().all().toArray()) {
                member.worker().fail(order.request() + slice, problem);
            }
        } catch (PushException closed) {
            LOG.debug("the worker is closed");
        }
    }
}
