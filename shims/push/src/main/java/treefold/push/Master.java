package treefold.push;

import java.io.IOException;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.Selector;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/**
 * The master of an application: it announces requests to the workers, and gets one folded result for each. Its methods may
 * be called by any thread, and many requests may be open at a time.
 *
 * <p>A daemon thread owns the connection to one node. If the connection breaks, open requests fail, because their numbers
 * cannot be used again, and the next request makes a new connection, to the first address that answers.
 */
public final class Master implements AutoCloseable {
    /** Requests that may be open at a time. */
    public static final int OPEN_MAX = 4_096;

    /** How long after its deadline a request waits for the node's answer. */
    private static final Duration NODE_PATIENCE = Duration.ofSeconds(1);
    private static final long CLOSE_MILLIS = 5_000;
    private static final long IDLE_MILLIS = 60_000;

    private final List<String> addresses;
    private final Cluster cluster;
    private final Selector selector;
    private final Dialer dialer;
    private final Thread thread = new Thread(this::run, "treefold-push master");
    private volatile boolean isClosed;

    /** Guarded by this. */
    private final Map<Long, Open> open = new HashMap<>();
    /** Guarded by this. Requests that the thread has not given to the connection, among the open ones. */
    private final Map<Long, Frame> unsent = new LinkedHashMap<>();
    /** Guarded by this. Requests that the connection has, and of which nobody waits for the answer. */
    private final ArrayDeque<Long> cancelled = new ArrayDeque<>();
    /** Guarded by this. */
    private long lastId;

    /** A request without its answer; {@code until} is on the clock of {@link System#nanoTime}. */
    private record Open(CompletableFuture<Reply> reply, long until, Duration waited) { }

    private Master(Cluster cluster, String... addresses) throws IOException {
        this.addresses = List.of(addresses);
        this.cluster = cluster;
        this.selector = Selector.open();
        this.dialer = new Dialer(cluster, selector, () -> isClosed);
        thread.setDaemon(true);
    }

    /** Connects to the first of these nodes that answers, {@code host:port}, in a cluster without secrets. */
    public static Master connect(String... addresses) throws PushException {
        return connect(Cluster.plain(), addresses);
    }

    /**
     * Connects to the first of these nodes that answers.
     *
     * @throws PushException the error of the last address, if none answers
     */
    public static Master connect(Cluster cluster, String... addresses) throws PushException {
        if (addresses.length == 0) {
            throw new IllegalArgumentException("addresses: give at least one");
        }
        Arrays.stream(addresses).forEach(Address::check);
        Master master;
        try {
            master = new Master(cluster, addresses);
        } catch (IOException error) {
            throw new UnreachableException(addresses[0], error);
        }
        Connection first;
        try {
            first = master.dialAny();
        } catch (PushException error) {
            master.closeSelector();
            throw error;
        }
        master.first = first;
        master.thread.start();
        return master;
    }

    /** The connection with which the thread begins. Written before it starts. */
    private Connection first;

    /**
     * Begins the announcement of a request.
     *
     * @param kind {@code application/reduce}, as in {@code words/sum-lines}
     * @param request the request's number, which must not be used for another
     * @param workers the workers that are expected to push
     */
    public Announcement announce(String kind, long request, WorkerSet workers) {
        return new Announcement(this, kind, request, workers);
    }

    /** Ends the connection. Open requests fail with a {@link DetachedException}, and are cancelled at the node. */
    @Override
    public void close() {
        isClosed = true;
        selector.wakeup();
        try {
            thread.join(CLOSE_MILLIS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    CompletableFuture<Reply> send(Announcement announcement) throws PushException {
        if (announcement.params.length > cluster.payloadBytesMax()) {
            throw new TooLargeException("params", announcement.params.length, cluster.payloadBytesMax());
        }
        Duration waited = announcement.deadline.plus(NODE_PATIENCE);
        CompletableFuture<Reply> reply = new CompletableFuture<>();
        long id;
        synchronized (this) {
            if (isClosed) {
                throw new DetachedException("the master is closed");
            }
            if (open.size() >= OPEN_MAX) {
                throw new RejectedException(RejectedException.Why.TOO_MANY_CALLS, "this master has " + OPEN_MAX
                        + " open requests, and may have no more");
            }
            id = ++lastId;
            open.put(id, new Open(reply, System.nanoTime() + waited.toNanos(), waited));
            unsent.put(id, Messages.request(id, announcement));
        }
        selector.wakeup();
        reply.whenComplete((value, error) -> cancel(id));
        return reply;
    }

    Reply await(Announcement announcement) throws PushException, InterruptedException {
        CompletableFuture<Reply> reply = send(announcement);
        try {
            return reply.get();
        } catch (InterruptedException error) {
            reply.cancel(false);
            throw error;
        } catch (ExecutionException error) {
            if (error.getCause() instanceof PushException known) {
                throw known;
            }
            throw new IllegalStateException("only a PushException ends a request", error);
        }
    }

    /** Tells the node that nobody waits for a request, if it is open. */
    private void cancel(long id) {
        synchronized (this) {
            if (open.remove(id) == null) {
                return;
            }
            withdraw(id);
        }
        selector.wakeup();
    }

    /** Guarded by this. Cancels a request that is open no longer, if the connection has it. */
    private void withdraw(long id) {
        if (unsent.remove(id) == null) {
            cancelled.add(id);
        }
    }

    /** The number of messages that wait for the connection. */
    synchronized int waiting() {
        return unsent.size() + cancelled.size();
    }

    private Connection dialAny() throws PushException {
        PushException last = null;
        for (String address : addresses) {
            try {
                return dialer.dial(address);
            } catch (PushException error) {
                last = error;
            }
        }
        throw last;
    }

    private void run() {
        Connection connection = first;
        try {
            while (!isClosed) {
                try {
                    if (connection == null) {
                        if (isIdle()) {
                            selector.select(IDLE_MILLIS);
                            selector.selectedKeys().clear();
                            continue;
                        }
                        connection = dialAny();
                    }
                    step(connection);
                } catch (PushException error) {
                    connection = lose(connection, error);
                } catch (IOException error) {
                    connection = lose(connection, new UnreachableException("the node", error));
                }
            }
            if (connection != null) {
                cancelAll(connection);
            }
        } catch (IOException | ClosedSelectorException error) {
            // The requests fail below.
        } finally {
            isClosed = true;
            lose(connection, new DetachedException("the master is closed"));
            closeSelector();
        }
    }

    private synchronized boolean isIdle() {
        return unsent.isEmpty() && cancelled.isEmpty();
    }

    private void step(Connection connection) throws IOException {
        synchronized (this) {
            while (!cancelled.isEmpty() && connection.hasRoom()) {
                connection.send(Messages.cancel(cancelled.remove()));
            }
            Iterator<Frame> requests = unsent.values().iterator();
            while (requests.hasNext() && connection.hasRoom()) {
                connection.send(requests.next());
                requests.remove();
            }
        }
        Frame frame = connection.await(expire());
        while (frame != null) {
            if (frame.kind == Frame.REPLY) {
                answer(Messages.Answer.read(frame));
            }
            frame = connection.next();
        }
        connection.probe(hasOpen());
    }

    private synchronized boolean hasOpen() {
        return !open.isEmpty();
    }

    private void answer(Messages.Answer answer) {
        Open asked;
        synchronized (this) {
            asked = open.remove(answer.id());
        }
        if (asked == null) {
            return;
        }
        if (answer.rejection() != null) {
            asked.reply.completeExceptionally(answer.rejection());
        } else {
            asked.reply.complete(answer.reply());
        }
    }

    /** Ends requests that the node did not answer in time. Returns the milliseconds until the next one. */
    private long expire() {
        List<Open> silent = new ArrayList<>();
        long now = System.nanoTime();
        long least;
        synchronized (this) {
            least = (open.isEmpty() ? IDLE_MILLIS : Connection.LOOK_MILLIS) * 1_000_000;
            for (Iterator<Map.Entry<Long, Open>> each = open.entrySet().iterator(); each.hasNext();) {
                Map.Entry<Long, Open> entry = each.next();
                long left = entry.getValue().until - now;
                if (left <= 0) {
                    silent.add(entry.getValue());
                    withdraw(entry.getKey());
                    each.remove();
                } else {
                    least = Math.min(least, left);
                }
            }
        }
        silent.forEach(asked -> asked.reply.completeExceptionally(new SilentException("the node", asked.waited)));
        return silent.isEmpty() ? least / 1_000_000 + 1 : 0;
    }

    /** Fails all open requests. */
    private Connection lose(Connection connection, PushException error) {
        if (connection != null) {
            connection.close();
        }
        List<Open> lost;
        synchronized (this) {
            lost = new ArrayList<>(open.values());
            open.clear();
            unsent.clear();
            cancelled.clear();
        }
        lost.forEach(asked -> asked.reply.completeExceptionally(error));
        return null;
    }

    private void cancelAll(Connection connection) throws IOException {
        synchronized (this) {
            open.keySet().stream().filter(id -> !unsent.containsKey(id))
                    .forEach(id -> connection.send(Messages.cancel(id)));
        }
        connection.writeSome();
    }

    private void closeSelector() {
        try {
            selector.close();
        } catch (IOException error) {
            // Its keys are gone with their sockets.
        }
    }
}
