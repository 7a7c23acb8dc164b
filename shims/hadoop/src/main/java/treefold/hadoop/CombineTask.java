package treefold.hadoop;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.hadoop.mapreduce.JobID;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.TaskID;
import org.apache.hadoop.mapreduce.TaskType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import treefold.push.Master;
import treefold.push.OverException;
import treefold.push.PushException;
import treefold.push.Reply;
import treefold.push.Worker;
import treefold.push.WorkerSet;

/** The work on one order to a combiner: a push request for each slice, whose folded value it combines and pushes on. */
final class CombineTask implements Runnable {
    /** How long the job's code may go on after its order has failed. Then the process ends, because a thread can't be. */
    static final Duration GRACE = Duration.ofSeconds(10);
    /** The exit status of a process whose job's code did not end. */
    static final int STUCK = 70;

    private static final Logger LOG = LoggerFactory.getLogger(CombineTask.class);
    private static final Duration ANSWER = Duration.ofSeconds(1);
    private static final Duration LOOK = Duration.ofSeconds(5);

    private final CombineOrder order;
    private final long request;
    private final ClassLoader loader;
    private final Worker worker;
    private final Attachment attachment;
    /** Slices that are not pushed. */
    private final Set<Integer> left = ConcurrentHashMap.newKeySet();
    /** The job's combiner. Made when the first slice has come: only then has a job's signature been verified. */
    private Combining<?, ?> combining;
    /** The thread that runs the job's code now; null if none does. */
    private volatile Thread running;

    /**
     * Prepares the work.
     *
     * @param request the first request of the agents, which is made of the order
     * @param loader the loader of the job's classes
     */
    CombineTask(CombineOrder order, long request, ClassLoader loader, Worker worker, Attachment attachment) {
        this.order = order;
        this.request = request;
        this.loader = loader;
        this.worker = worker;
        this.attachment = attachment;
    }

    @Override
    public void run() {
        order.wanted().all().forEach(left::add);
        try (Master master = Master.connect(attachment.cluster(), attachment.relays())) {
            long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(order.seconds()) + ANSWER.toNanos();
            for (CompletableFuture<Void> slice : announce(master)) {
                await(slice, until);
            }
        } catch (OverException error) {
            LOG.info("nobody waits for the combined slices of {} for reducer {} any more", order.job(), order.reduce());
        } catch (PushException error) {
            fail("the relays: " + error.getMessage());
        } catch (ExecutionException error) {
            Throwable cause = error.getCause();
            LOG.warn("a slice of {} for reducer {} failed", order.job(), order.reduce(), cause);
            fail(cause.getMessage() == null ? cause.toString() : cause.getMessage());
        } catch (TimeoutException error) {
            fail("the combiner did not end within " + order.seconds() + " s");
        } catch (InterruptedException closed) {
            fail("the combiner is closed");
        }
        awaitEnd();
    }

    private List<CompletableFuture<Void>> announce(Master master) throws PushException {
        WorkerSet workers = WorkerSet.of(order.workers());
        List<CompletableFuture<Void>> slices = new ArrayList<>();
        for (int slice : left) {
            // On the master's thread: it reads the next answer when this one is combined, so memory has one at a time.
            slices.add(master.announce(attachment.application() + "/append", request + slice, workers)
                    .deadline(Duration.ofSeconds(order.seconds())).patience(Wave.PATIENCE).send()
                    .thenAccept(reply -> combine(slice, reply)));
        }
        return slices;
    }

    /** Waits for a slice. Asks the relays now and then whether the reducer still waits for any, by a push that adds nothing. */
    private void await(CompletableFuture<Void> slice, long until)
            throws PushException, ExecutionException, TimeoutException, InterruptedException {
        while (true) {
            long wait = Math.min(until - System.nanoTime(), LOOK.toNanos());
            try {
                slice.get(wait, TimeUnit.NANOSECONDS);
                return;
            } catch (TimeoutException error) {
                if (wait < LOOK.toNanos()) {
                    throw error;
                }
                for (int some : left) {
                    worker.push(order.into() + some, new byte[0]);
                    break;
                }
            }
        }
    }

    private void combine(int slice, Reply reply) {
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        try {
            byte[] gathered = reply.value().orElseThrow(() -> new IOException("slice " + slice + ": agents are missing: "
                    + reply.missing()));
            thread.setContextClassLoader(loader);
            running = thread;
            if (combining == null) {
                TaskID task = new TaskID(JobID.forName(order.job()), TaskType.REDUCE, order.reduce());
                combining = new Combining<>(order.conf(loader), new TaskAttemptID(task, 0));
            }
            byte[] combined = combining.combine(KeptRun.all(gathered), attachment.cluster().payloadBytesMax());
            running = null;
            push(slice, combined);
        } catch (IOException error) {
            throw new CompletionException(error);
        } catch (InterruptedException error) {
            throw new CompletionException("the combiner was interrupted", error);
        } finally {
            running = null;
            thread.setContextClassLoader(before);
        }
    }

    private void push(int slice, byte[] combined) throws IOException, InterruptedException {
        try {
            worker.pushLast(order.into() + slice, combined);
        } catch (OverException error) {
            LOG.debug("slice {} of {} is needed no more", slice, order.job());
        }
        left.remove(slice);
    }

    private void fail(String problem) {
        LOG.warn("can't combine {} for reducer {}: {}", order.job(), order.reduce(), problem);
        try {
            for (int slice : left) {
                worker.fail(order.into() + slice, problem);
            }
        } catch (PushException closed) {
            LOG.debug("the worker is closed");
        }
    }

    /** Ends the process if the job's code does not end by itself. */
    private void awaitEnd() {
        long until = System.nanoTime() + GRACE.toNanos();
        Thread thread = running;
        while (thread != null) {
            thread.interrupt();
            if (System.nanoTime() > until) {
                LOG.error("the combiner of {} does not end; this process does", order.job());
                Runtime.getRuntime().halt(STUCK);
            }
            try {
                TimeUnit.MILLISECONDS.sleep(100);
            } catch (InterruptedException closed) {
                return;
            }
            thread = running;
        }
    }
}
