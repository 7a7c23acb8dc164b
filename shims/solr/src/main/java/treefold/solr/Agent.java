package treefold.solr;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.solr.common.SolrDocumentList;
import org.apache.solr.common.util.NamedList;
import treefold.push.OverException;
import treefold.push.PushException;
import treefold.push.Worker;
import treefold.push.WorkerBuilder;

/**
 * An agent beside a shard: it takes the queries of stands, asks its shard, and pushes the reply into the relays. It is one
 * worker of the application; its number is the shard's, in the order of addresses.
 */
public final class Agent implements AutoCloseable {
    /** Where stands send queries. */
    static final String PATH = "/treefold/fold";
    /** The push requests of a query, and its number of rows. They are not passed on to the shard. */
    static final String ROWS = "treefold.rows";
    static final String COUNTS = "treefold.counts";
    static final String SCORE = "treefold.score";

    private static final System.Logger LOG = System.getLogger(Agent.class.getName());
    private static final int THREADS_MAX = 64;
    private static final int QUEUE_MAX = 1_024;
    private static final Duration SHARD_TIMEOUT = Duration.ofSeconds(60);

    private final String shard;
    private final int number;
    private final MissingValues missing;
    private final Worker worker;
    private final ThreadPoolExecutor threads = new ThreadPoolExecutor(
            THREADS_MAX, THREADS_MAX, 10, TimeUnit.SECONDS, new ArrayBlockingQueue<>(QUEUE_MAX), Agent::thread);
    private final Http http;
    private final int port;

    /**
     * Attaches to a relay, and begins to listen.
     *
     * @param listen where stands find it; port 0 takes any free port
     * @param shard the shard's address, {@code host:port/solr/CORE}
     * @param worker the worker, configured with the shard's number and the relays
     */
    public Agent(InetSocketAddress listen, String shard, int number, WorkerBuilder worker)
            throws IOException, InterruptedException {
        this.shard = shard;
        this.number = number;
        this.missing = new MissingValues(shard);
        this.worker = worker.attach();
        threads.allowCoreThreadTimeOut(true);
        try {
            this.http = new Http(listen, this::serve);
            this.port = http.port();
        } catch (IOException error) {
            this.worker.close();
            throw error;
        }
    }

    private static Thread thread(Runnable run) {
        Thread thread = new Thread(run, "treefold-solr agent");
        thread.setDaemon(true);
        return thread;
    }

    /** The port at which it listens. */
    public int port() {
        return port;
    }

    /** Waits until it is closed. */
    void join() throws InterruptedException {
        http.join();
    }

    @Override
    public void close() {
        http.close();
        threads.shutdownNow();
        worker.close();
    }

    private Http.Answer serve(String method, String path, String query, byte[] body) {
        if (!method.equals("POST") || !path.equals(PATH)) {
            return text(404, "this is an agent of Treefold; stands send queries to " + PATH);
        }
        if (worker.detached().isPresent()) {
            return text(503, worker.detached().get());
        }
        try {
            Form form = Form.read(new String(body, StandardCharsets.UTF_8));
            Plan plan = Plan.of(form);
            Requests requests = Requests.of(form);
            threads.execute(() -> fold(form, plan, requests));
            return text(202, "");
        } catch (IllegalArgumentException error) {
            return text(400, String.valueOf(error.getMessage()));
        } catch (Failure failure) {
            return text(failure.code(), failure.getMessage());
        } catch (RejectedExecutionException error) {
            return text(503, "the agent has " + QUEUE_MAX + " waiting queries, and may have no more");
        }
    }

    private static Http.Answer text(int status, String text) {
        return new Http.Answer(status, "text/plain; charset=utf-8", text.getBytes(StandardCharsets.UTF_8));
    }

    /** The numbers of the push requests of a query; a number is null if there is no such request. */
    private record Requests(Long rows, Long counts, Long score) {
        static Requests of(Form form) {
            return new Requests(number(form, ROWS), number(form, COUNTS), number(form, SCORE));
        }

        private static Long number(Form form, String name) {
            String text = form.remove(name);
            return text == null ? null : Long.valueOf(Long.parseUnsignedLong(text));
        }

        List<Long> all() {
            return java.util.stream.Stream.of(rows, counts, score).filter(java.util.Objects::nonNull).toList();
        }
    }

    private void fold(Form form, Plan plan, Requests requests) {
        try {
            NamedList<Object> reply = ask(form, plan);
            if (requests.counts != null) {
                worker.pushLast(requests.counts, Counts.of(reply).write());
            }
            if (requests.rows != null) {
                worker.pushLast(requests.rows, Packets.rows(Rows.of(reply, plan, number, missing)));
            }
            if (requests.score != null) {
                Float best = ((SolrDocumentList) reply.get("response")).getMaxScore();
                worker.pushLast(requests.score, best == null ? new byte[0] : Packets.number(best));
            }
        } catch (OverException late) {
            LOG.log(System.Logger.Level.DEBUG, "a query ended before its reply");
        } catch (Failure failure) {
            fail(requests, failure.code() + " " + failure.getMessage());
        } catch (IOException | RuntimeException error) {
            fail(requests, "500 " + error);
        } catch (OutOfMemoryError | StackOverflowError error) {
            // The stand need not wait for its deadline. The thread ends, and the pool makes another.
            fail(requests, "500 the agent: " + error);
            throw error;
        } catch (InterruptedException closed) {
            fail(requests, "503 the agent is closed");
        }
    }

    private void fail(Requests requests, String problem) {
        try {
            for (long request : requests.all()) {
                worker.fail(request, problem);
            }
        } catch (PushException closed) {
            LOG.log(System.Logger.Level.DEBUG, "a closed agent has failed: {0}", problem);
        }
    }

    private NamedList<Object> ask(Form form, Plan plan) throws Failure, InterruptedException {
        try {
            return Shard.reply(Shard.post(shard + "/select", plan.forShard(form), SHARD_TIMEOUT, Shard.REPLY_BYTES_MAX).get());
        } catch (ExecutionException error) {
            throw Shard.failure(shard, error.getCause());
        }
    }
}
