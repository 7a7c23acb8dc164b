package treefold.hadoop;

import java.io.IOException;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.util.GenericOptionsParser;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import treefold.hadoop.RequestServer.Answer;
import treefold.push.PushException;

/**
 * Runs the combiners of jobs beside a relay: the master of the agents that push into the relay, and a worker of the reducer. It
 * takes the map outputs that the relay has gathered, a slice at a time, runs the job's own combiner over them, and pushes the
 * result.
 *
 * <p>{@code GET /worker} returns the worker's number. {@code POST /combine} has a {@link CombineOrder}; the answer is 202 when
 * the combiner works on it. The same order may be sent twice.
 */
public final class Combiner implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(Combiner.class);
    private static final int USAGE = 2;

    private final CombinerSettings settings;
    private final Jars jars;
    private final RequestServer server;
    private final Membership membership;
    private final ExecutorService threads;
    /** The first requests of the orders that are worked on. */
    private final Set<Long> open = ConcurrentHashMap.newKeySet();

    Combiner(CombinerSettings settings) throws IOException {
        this.settings = settings;
        this.jars = new Jars(settings.jars());
        this.server = new RequestServer(settings.listen(), "treefold combiner");
        this.membership = new Membership(settings.attachment(), server.port());
        // An order that waits for a place could be awaited by the one that has it, at another relay: so none waits.
        this.threads = RequestServer.pool("treefold combine", settings.orders(), 0);
        server.serve("GET", "/worker", this::number);
        server.serve("POST", "/combine", this::accept);
        server.start();
    }

    /**
     * Runs a combiner until the process ends. Properties are those of the Hadoop configuration on the class path and of options
     * {@code -D KEY=VALUE}.
     */
    public static void main(String[] args) throws Exception {
        Configuration conf = new Configuration();
        conf.addResource("yarn-site.xml");
        String[] rest = new GenericOptionsParser(conf, args).getRemainingArgs();
        try {
            if (rest.length > 0) {
                throw new IllegalArgumentException("unexpected argument " + rest[0] + "; allowed: -D KEY=VALUE");
            }
            // The threads of the server are daemons, but the one that accepts connections is not.
            System.out.println("listening on port " + new Combiner(CombinerSettings.of(conf)).port());
        } catch (IllegalArgumentException error) {
            System.err.println("treefold combiner: " + error.getMessage());
            System.exit(USAGE);
        }
    }

    /** The port at which it listens. */
    int port() {
        return server.port();
    }

    @Override
    public void close() {
        server.close();
        threads.shutdownNow();
        membership.close();
    }

    private Answer number(String body) throws InterruptedException {
        try {
            return new Answer(200, membership.member().text());
        } catch (PushException error) {
            return new Answer(503, "no relay takes the combiner in: " + error.getMessage());
        }
    }

    private Answer accept(String body) throws InterruptedException {
        CombineOrder order = CombineOrder.parse(body);
        Optional<ClassLoader> loader;
        try {
            loader = jars.find(order.jar());
        } catch (IOException error) {
            return new Answer(500, "can't read the folder of jars: " + error);
        }
        if (loader.isEmpty()) {
            return new Answer(404, "no jar in " + CombinerSettings.JARS_KEY + " has the SHA-256 " + order.jar());
        }
        Membership.Member member;
        try {
            member = membership.member();
        } catch (PushException error) {
            return new Answer(503, "no relay takes the combiner in: " + error.getMessage());
        }
        long request = order.request();
        if (!open.add(request)) {
            return new Answer(202, member.text());
        }
        CombineTask task = new CombineTask(order, request, loader.get(), member.worker(), settings.attachment());
        boolean isTaken = false;
        try {
            threads.execute(() -> {
                try {
                    task.run();
                } finally {
                    open.remove(request);
                }
            });
            isTaken = true;
            LOG.info("combines {} for reducer {} with {}", order.job(), order.reduce(), loader.get());
            return new Answer(202, member.text());
        } catch (RejectedExecutionException error) {
            return new Answer(503, "the combiner has " + settings.orders() + " orders, and may have no more");
        } finally {
            if (!isTaken) {
                open.remove(request);
            }
        }
    }
}
