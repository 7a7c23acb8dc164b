package treefold.hadoop;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import treefold.push.Master;
import treefold.push.Missing;
import treefold.push.PushException;
import treefold.push.Reply;
import treefold.push.WorkerSet;

/** One try to get the folded map outputs of a reducer: a push request for each slice that has not come. */
final class Wave {
    /** How long a request waits for an agent that has lost its relay. */
    private static final Duration PATIENCE = Duration.ofSeconds(10);
    private static final long LOOK_MILLIS = 500;
    private static final int NUMBER_BITS = 6;

    /** Reasons that another try may not meet: relays or agents were lost, or had too much work. */
    private static final Set<Missing.Reason> PASSING = EnumSet.of(Missing.Reason.NO_REPLICA, Missing.Reason.LOST,
            Missing.Reason.TOO_BUSY, Missing.Reason.FULL, Missing.Reason.OVERLAP, Missing.Reason.SHUTTING_DOWN);

    private final Settings settings;
    private final Fold fold;
    private final TaskAttemptID reduce;
    private final Orders orders;
    private final Segments<?, ?> segments;
    private final Runnable progress;

    /** A slice's answer, after it was stored. */
    private record Slice(int slice, CompletableFuture<Reply> reply, CompletableFuture<Void> stored) { }

    Wave(Settings settings, Fold fold, TaskAttemptID reduce, Orders orders, Segments<?, ?> segments, Runnable progress) {
        this.settings = settings;
        this.fold = fold;
        this.reduce = reduce;
        this.orders = orders;
        this.segments = segments;
        this.progress = progress;
    }

    /** Another try may succeed. */
    static final class AgainException extends Exception {
        AgainException(String reason) {
            super(reason);
        }
    }

    /**
     * Gets all slices that have not come.
     *
     * @param attempt the number of this try, from 0
     * @throws AgainException if slices are missing for a reason that may pass
     * @throws Plain if they are missing for another
     */
    void run(int attempt) throws AgainException, Plain, InterruptedException {
        WorkerSet workers = WorkerSet.of(orders.workers());
        Order order = new Order(reduce.getJobID().toString(), reduce.getTaskID().getId(), List.of(), request(attempt),
                settings.slices(), segments.wanted(), fold, 0, 1);
        List<String> relays = new ArrayList<>(List.of(settings.relays()));
        // Reducers spread over the relays, and the next try begins with the next relay.
        Collections.rotate(relays, -((order.reduce() + attempt) % relays.size()));
        try (Master master = Master.connect(settings.cluster(), relays.toArray(String[]::new))) {
            List<Slice> slices = announce(master, order, workers);
            try {
                orders.order(order);
                for (Slice slice : slices) {
                    await(slice);
                }
            } finally {
                slices.forEach(slice -> slice.reply.cancel(false));
            }
        } catch (PushException error) {
            throw new AgainException("the relays: " + error.getMessage());
        }
    }

    private List<Slice> announce(Master master, Order order, WorkerSet workers) throws PushException {
        List<Slice> slices = new ArrayList<>();
        for (int slice = 0; slice < settings.slices(); slice++) {
            if (order.wants(slice)) {
                int number = slice;
                CompletableFuture<Reply> reply =
                        master.announce(settings.application() + "/" + Fold.REDUCE, order.request() + slice, workers)
                                .deadline(settings.deadline()).patience(PATIENCE).send();
                // On the master's thread: it reads the next answer when this one is stored.
                slices.add(new Slice(slice, reply, reply.thenAccept(answer -> store(number, answer))));
            }
        }
        return slices;
    }

    private void store(int slice, Reply reply) {
        try {
            if (reply.value().isPresent()) {
                segments.store(slice, reply.requireValue());
            }
        } catch (IOException error) {
            throw new CompletionException(error);
        }
    }

    private void await(Slice slice) throws AgainException, Plain, PushException, InterruptedException {
        while (true) {
            try {
                slice.stored.get(LOOK_MILLIS, TimeUnit.MILLISECONDS);
                check(slice);
                return;
            } catch (TimeoutException error) {
                progress.run();
            } catch (ExecutionException error) {
                if (error.getCause() instanceof PushException known) {
                    throw known;
                }
                throw new Plain("the folded run of slice " + slice.slice, error.getCause());
            }
        }
    }

    private static void check(Slice slice) throws AgainException, Plain {
        Reply reply = slice.reply.join();
        if (reply.value().isPresent()) {
            return;
        }
        String reasons = "slice " + slice.slice + ": agents are missing: " + reply.missing();
        if (reply.missing().stream().allMatch(missing -> PASSING.contains(missing.reason()))) {
            throw new AgainException(reasons);
        }
        throw new Plain(reasons);
    }

    /** The number of the first slice's request. It differs for each attempt of a reducer, and for each try. */
    private long request(int attempt) {
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest((reduce + " " + attempt).getBytes());
            return ByteBuffer.wrap(hash).getLong() >>> 1 >>> NUMBER_BITS << NUMBER_BITS;
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException("every JDK has SHA-256", error);
        }
    }
}
