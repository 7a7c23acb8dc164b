package treefold.push;

import java.io.IOException;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.Selector;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * One worker of an application, attached to a node. Its methods may be called by any thread.
 *
 * <p>A daemon thread owns the connection. A push waits only while the worker keeps as many bytes as it may, so a busy relay
 * slows its workers. The program does not notice a lost relay: the thread attaches elsewhere, and sends again the pushes that
 * the new node asks for.
 *
 * <p>Payloads are not copied: do not change an array after it was pushed.
 */
public final class Worker implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(Worker.class.getName());
    /** First pause after a round in which no address took the worker in. */
    private static final long PAUSE_LEAST_MILLIS = 50;
    /** Longest pause between two rounds. */
    private static final long PAUSE_MAX_MILLIS = 1_000;
    /** How long a node may take to answer whether it takes the worker in. */
    private static final Duration ATTACH_TIMEOUT = Duration.ofSeconds(5);
    /** How long {@link #close} waits for the thread. */
    private static final long CLOSE_MILLIS = 5_000;

    private final WorkerBuilder settings;
    private final Selector selector;
    private final Dialer dialer;
    private final Thread thread = new Thread(this::run);

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    /** Guarded by the lock. */
    private final Book book;
    /** Guarded by the lock. True if all messages are written. */
    private boolean hasWritten = true;
    /** Guarded by the lock. The address of the node; null while there is none. */
    private String attachedTo;
    /** Guarded by the lock. Why no node takes the worker in; null if none was tried, or one does. */
    private PushException refused;
    /** Guarded by the lock. Why the worker is detached for good; null before that. */
    private String ended;
    /** Guarded by the lock. True once a node has taken the worker in. */
    private boolean wasAttached;
    private volatile boolean isClosed;

    private Worker(WorkerBuilder settings) throws IOException {
        this.settings = settings;
        this.selector = Selector.open();
        this.dialer = new Dialer(settings.cluster, selector, () -> isClosed);
        this.book = new Book(settings.keptBytesMax);
        thread.setDaemon(true);
        thread.setName("treefold-push " + settings.application + " " + settings.worker);
    }

    /** Configures worker {@code worker} of an application; {@link WorkerBuilder#attach} then attaches it. */
    public static WorkerBuilder builder(String application, int worker) {
        return new WorkerBuilder(application, worker);
    }

    static Worker attach(WorkerBuilder settings) throws PushException, InterruptedException {
        Worker worker;
        try {
            worker = new Worker(settings);
        } catch (IOException error) {
            throw new UnreachableException(settings.addresses.get(0), error);
        }
        worker.thread.start();
        boolean isAttached = false;
        try {
            worker.awaitAttached();
            isAttached = true;
            return worker;
        } finally {
            if (!isAttached) {
                worker.close();
            }
        }
    }

    private void awaitAttached() throws PushException, InterruptedException {
        long left = settings.timeout.toNanos();
        lock.lockInterruptibly();
        try {
            while (!wasAttached) {
                if (ended != null) {
                    throw new DetachedException(ended);
                }
                if (left <= 0) {
                    throw refused == null ? new SilentException(settings.addresses.toString(), settings.timeout) : refused;
                }
                left = changed.awaitNanos(left);
            }
        } finally {
            lock.unlock();
        }
    }

    /**
     * Pushes a piece of this worker's result of a request. More pieces must follow, and they are folded in their order. Waits
     * while the worker keeps as many bytes as it may, or, with a new request, as many requests.
     *
     * @throws OverException if the request is over
     * @throws TooLargeException if the payload is above the limit
     * @throws DetachedException if the worker is closed, or a node has detached it for good
     * @throws InterruptedException if the thread is interrupted while it waits; nothing was pushed
     */
    public void push(long request, byte[] payload) throws PushException, InterruptedException {
        give(request, payload, false);
    }

    /**
     * Pushes the last piece of the result, or all of it. Only with this has the worker contributed. An empty payload adds
     * nothing to the result.
     *
     * @throws PushException as {@link #push}
     * @throws InterruptedException as {@link #push}
     */
    public void pushLast(long request, byte[] payload) throws PushException, InterruptedException {
        give(request, payload, true);
    }

    private void give(long request, byte[] payload, boolean last) throws PushException, InterruptedException {
        int bytesMax = settings.cluster.payloadBytesMax();
        if (payload.length > bytesMax) {
            throw new TooLargeException("payload", payload.length, bytesMax);
        }
        lock.lockInterruptibly();
        try {
            while (ended == null && !book.hasRoom(request)) {
                changed.await();
            }
            check();
            book.push(request, payload, last);
        } finally {
            lock.unlock();
        }
        selector.wakeup();
    }

    /**
     * Reports that this worker's result of a request will not come, so that no node waits for it. Until the request has ended,
     * the worker repeats this at every node to which it attaches, and {@link #idle} waits for the end. At most 512 bytes of
     * the problem are sent, and 16,384 failures repeated.
     *
     * @throws DetachedException if the worker is closed, or a node has detached it for good
     */
    public void fail(long request, String problem) throws PushException {
        lock.lock();
        try {
            check();
            book.fail(request, Messages.clipped(problem));
        } finally {
            lock.unlock();
        }
        selector.wakeup();
    }

    /**
     * Waits until every request with pushes or a failure has ended. Then no pushes are kept, and all messages are written.
     *
     * @throws DetachedException if the worker is detached for good before that
     * @throws InterruptedException if the thread is interrupted
     */
    public void idle() throws PushException, InterruptedException {
        idle(Duration.ofNanos(Long.MAX_VALUE));
    }

    /** As {@link #idle()}, but not longer than this. Returns true if the worker is idle. */
    public boolean idle(Duration timeout) throws PushException, InterruptedException {
        long left = timeout.toNanos();
        lock.lockInterruptibly();
        try {
            while (!(book.isEmpty() && hasWritten)) {
                check();
                if (left <= 0) {
                    return false;
                }
                left = changed.awaitNanos(left);
            }
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** The address of the node to which the worker is attached now; null while there is none. */
    public String attachedTo() {
        lock.lock();
        try {
            return attachedTo;
        } finally {
            lock.unlock();
        }
    }

    /** Why the worker is detached for good: it is closed, or another program has attached with its number. Empty before. */
    public Optional<String> detached() {
        lock.lock();
        try {
            return Optional.ofNullable(ended);
        } finally {
            lock.unlock();
        }
    }

    /**
     * Detaches the worker at once. Messages that the socket does not accept at once are lost; call {@link #idle} before, if
     * they matter.
     */
    @Override
    public void close() {
        end("the worker is closed");
        isClosed = true;
        selector.wakeup();
        if (Thread.currentThread() == thread) {
            return;
        }
        try {
            thread.join(CLOSE_MILLIS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private void check() throws DetachedException {
        if (ended != null) {
            throw new DetachedException(ended);
        }
    }

    private void end(String why) {
        lock.lock();
        try {
            ended = ended == null ? why : ended;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    private void run() {
        try (selector) {
            Connection connection = attachAnywhere();
            while (connection != null) {
                if (!serve(connection)) {
                    return;
                }
                connection = attachAnywhere();
            }
        } catch (IOException | ClosedSelectorException error) {
            end("the worker's thread ended: " + error);
        } finally {
            end("the worker's thread ended");
        }
    }

    /** Attaches to the first address that takes the worker in, and tries until one does. Null if the worker is closed. */
    private Connection attachAnywhere() throws IOException {
        long pause = PAUSE_LEAST_MILLIS;
        while (!isClosed) {
            for (String address : settings.addresses) {
                try {
                    return attachAt(address);
                } catch (PushException error) {
                    if (isClosed) {
                        return null;
                    }
                    LOG.log(System.Logger.Level.DEBUG, "a worker can't attach: {0}", error.getMessage());
                    lock.lock();
                    refused = error;
                    lock.unlock();
                }
            }
            pause(pause);
            pause = Math.min(2 * pause, PAUSE_MAX_MILLIS);
        }
        return null;
    }

    private void pause(long millis) throws IOException {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        for (long left = millis; left > 0 && !isClosed; left = (until - System.nanoTime()) / 1_000_000) {
            selector.select(left);
        }
    }

    private Connection attachAt(String address) throws PushException {
        Connection connection = dialer.dial(address);
        boolean isAttached = false;
        try {
            connection.send(Messages.attach(settings.application, settings.worker));
            long until = System.nanoTime() + ATTACH_TIMEOUT.toNanos();
            while (!isClosed) {
                long left = (until - System.nanoTime()) / 1_000_000;
                if (left <= 0) {
                    throw new SilentException(address, ATTACH_TIMEOUT);
                }
                Frame frame = connection.await(left);
                if (frame != null && frame.kind == Frame.PUSH_ATTACHED) {
                    Messages.Attached attached = Messages.Attached.read(frame);
                    if (attached.problem() != null) {
                        throw new RefusedException(address, attached.problem());
                    }
                    noteAttached(address, attached.window());
                    isAttached = true;
                    return connection;
                }
            }
            throw new DetachedException("the worker is closed");
        } catch (PushException error) {
            throw error;
        } catch (IOException error) {
            throw new UnreachableException(address, error);
        } finally {
            if (!isAttached) {
                connection.close();
            }
        }
    }

    private void noteAttached(String address, long window) {
        lock.lock();
        try {
            book.attached(System.nanoTime(), window);
            attachedTo = address;
            wasAttached = true;
            refused = null;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Serves a connection until it is lost. Returns false if the worker needs no other. */
    private boolean serve(Connection connection) {
        try (connection) {
            while (true) {
                enqueue(connection);
                if (isClosed) {
                    connection.writeSome();
                    return false;
                }
                Frame frame = connection.await(Connection.LOOK_MILLIS);
                while (frame != null) {
                    if (!hear(connection, frame)) {
                        return false;
                    }
                    frame = connection.next();
                }
                connection.probe(look());
            }
        } catch (IOException error) {
            System.Logger.Level level = error instanceof MalformedException || error instanceof FaultException
                    ? System.Logger.Level.WARNING
                    : System.Logger.Level.DEBUG;
            LOG.log(level, "a worker lost its node {0}: {1}", connection.address(), error.getMessage());
            return true;
        } finally {
            lock.lock();
            attachedTo = null;
            lock.unlock();
        }
    }

    /** Gives up pushes for which no node asks. Returns true if something is expected of the node. */
    private boolean look() {
        lock.lock();
        try {
            book.expire(System.nanoTime());
            return !book.isEmpty();
        } finally {
            lock.unlock();
        }
    }

    /** Gives the connection the messages that may be sent. The window bounds pushes, and the connection all messages. */
    private void enqueue(Connection connection) throws IOException {
        lock.lock();
        try {
            Frame frame = connection.hasRoom() ? book.poll() : null;
            while (frame != null) {
                connection.send(frame);
                frame = connection.hasRoom() ? book.poll() : null;
            }
            connection.writeSome();
            hasWritten = connection.hasWritten();
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Handles a message of the node. Returns false if it detaches the worker for good. */
    private boolean hear(Connection connection, Frame frame) throws PushException {
        switch (frame.kind) {
            case Frame.PUSH_ATTACHED -> {
                Messages.Attached attached = Messages.Attached.read(frame);
                if (attached.problem() != null) {
                    end(connection.address() + " has detached the worker: " + attached.problem());
                    return false;
                }
            }
            case Frame.PUSH_WANTED, Frame.PUSH_TAKEN, Frame.PUSH_ENDED -> {
                Messages.Word word = Messages.Word.read(frame);
                lock.lock();
                try {
                    switch (frame.kind) {
                        case Frame.PUSH_WANTED -> book.wanted(word.request(), word.push(), word.again());
                        case Frame.PUSH_TAKEN -> book.taken(word.request(), word.push());
                        default -> book.ended(word.request());
                    }
                } finally {
                    lock.unlock();
                }
            }
            default -> { }
        }
        return true;
    }
}
