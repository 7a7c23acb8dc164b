package treefold.hadoop;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import treefold.hadoop.Orders.Attached;
import treefold.push.Master;
import treefold.push.Missing;
import treefold.push.PushException;
import treefold.push.Reply;
import treefold.push.WorkerSet;

/** One try to get a window of the slices of a reducer's folded map outputs: a push request for each. */
final class Wave {
    /** How long a request waits for an agent that has lost its relay. */
    static final Duration PATIENCE = Duration.ofSeconds(10);
    private static final long LOOK_MILLIS = 500;

    /** Reasons that another try may not meet: relays or agents were lost, or had too much work. */
    private static final Set<Missing.Reason> PASSING = EnumSet.of(Missing.Reason.NO_REPLICA, Missing.Reason.LOST,
            Missing.Reason.TOO_BUSY, Missing.Reason.FULL, Missing.Reason.OVERLAP, Missing.Reason.SHUTTING_DOWN);

    private final Settings settings;
    private final Fold fold;
    private final TaskAttemptID reduce;
    private final Orders orders;
    /** Null if the job's combiner does not run. */
    private final Combiners combiners;
    private final Segments<?, ?> segments;
    private final Runnable progress;

    /** A slice's answer, after it was stored. */
    private record Slice(int slice, CompletableFuture<Reply> reply, CompletableFuture<Void> stored) { }

    Wave(Settings settings, Fold fold, TaskAttemptID reduce, Orders orders, Combiners combiners, Segments<?, ?> segments,
            Runnable progress) {
        this.settings = settings;
        this.fold = fold;
        this.reduce = reduce;
        this.orders = orders;
        this.combiners = combiners;
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
     * Gets slices.
     *
     * @param attempt the number of failed tries before this one
     * @param wanted the slices
     * @throws AgainException if slices are missing for a reason that may pass
     * @throws Plain if they are missing for another
     */
    void run(int attempt, Wanted wanted) throws AgainException, Plain, InterruptedException {
        TreeMap<String, Attached> agents = orders.workers();
        // The request's number differs for each attempt of a reducer, for each try, and for each window.
        Order order = new Order(reduce.getJobID().toString(), reduce.getTaskID().getId(), List.of(),
                Order.number(reduce + " " + attempt + " " + wanted.from()), wanted, fold, 0, 1);
        List<String> relays = new ArrayList<>(List.of(settings.relays()));
        // Reducers spread over the relays, and the next try begins with the next relay.
        Collections.rotate(relays, -((order.reduce() + attempt) % relays.size()));
        Map<String, Long> requests = new TreeMap<>();
        agents.keySet().forEach(handler -> requests.put(handler, order.request()));
        int[] numbers = agents.values().stream().mapToInt(Attached::number).toArray();
        Combiners.Plan plan = null;
        if (combiners != null) {
            plan = combiners.plan(order, agents, relays);
            requests.putAll(plan.requests());
            numbers = new int[] {plan.root()};
        }
        try (Master master = Master.connect(settings.cluster(), relays.toArray(String[]::new))) {
            List<Slice> slices = announce(master, order, WorkerSet.of(numbers));
            try {
                if (plan != null) {
                    combiners.order(plan);
                }
                orders.order(order, requests);
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
        for (int slice : order.wanted().all().toArray()) {
            CompletableFuture<Reply> reply =
                    master.announce(settings.application() + "/" + fold.reduce(), order.request() + slice, workers)
                            .deadline(settings.deadline()).patience(PATIENCE).send();
            // On the master's thread: it reads the next answer when this one is stored.
            slices.add(new Slice(slice, reply, reply.thenAccept(answer -> store(slice, answer))));
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

    private void check(Slice slice) throws AgainException, Plain {
        Reply reply = slice.reply.join();
        if (reply.value().isPresent()) {
            return;
        }
        boolean isCombined = combiners != null;
        String reasons = "slice " + slice.slice + ": " + (isCombined ? "its combiner is" : "agents are") + " missing: "
                + reply.missing();
        // A combiner fails if it loses agents or relays; with another root, the next try may not.
        if (reply.missing().stream().allMatch(missing -> PASSING.contains(missing.reason())
                || isCombined && missing.reason() == Missing.Reason.LOCAL_FAILED)) {
            throw new AgainException(reasons);
        }
        throw new Plain(reasons);
    }
}
