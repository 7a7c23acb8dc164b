package treefold.hadoop;

import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.hadoop.mapred.RawKeyValueIterator;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapred.ShuffleConsumerPlugin;
import org.apache.hadoop.mapred.TaskAttemptID;
import org.apache.hadoop.mapred.TaskStatus;
import org.apache.hadoop.mapreduce.task.reduce.Shuffle;
import org.apache.hadoop.util.Progress;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A reducer's shuffle over relays: {@code mapreduce.job.reduce.shuffle.consumer.plugin.class}. A job that cannot be folded, and
 * a reducer whose folded runs do not come, use Hadoop's own shuffle, and the task's log has the reason.
 */
public final class RelayShuffle<K, V> implements ShuffleConsumerPlugin<K, V> {
    /** The group of this shuffle's counters. */
    public static final String COUNTERS = "Treefold shuffle";
    /** Counts reducers that got folded runs. */
    public static final String FOLDED = "FOLDED_REDUCES";
    /** Counts reducers that used the plain shuffle. */
    public static final String PLAIN = "PLAIN_REDUCES";
    /** Counts second tries. */
    public static final String AGAIN = "SECOND_TRIES";
    /** Milliseconds from the time at which all maps have finished to the last folded run, of all folded reducers. */
    public static final String MILLIS = "FOLDED_MILLIS";

    private static final Logger LOG = LoggerFactory.getLogger(RelayShuffle.class);
    private static final int TRIES = 2;
    private static final long POLL_MILLIS = 500;
    private static final int POLL_FAILURES_MAX = 10;

    private Context<K, V> context;
    private Shuffle<K, V> plain;

    /** A reducer makes it. */
    public RelayShuffle() { }

    @Override
    public void init(Context<K, V> context) {
        this.context = context;
    }

    @Override
    public RawKeyValueIterator run() throws IOException, InterruptedException {
        try {
            return fold();
        } catch (Plain reason) {
            LOG.info("{} uses the plain shuffle: {}", context.getReduceId(), reason.getMessage());
        } catch (IOException | RuntimeException error) {
            LOG.warn("{} uses the plain shuffle", context.getReduceId(), error);
        }
        context.getReporter().incrCounter(COUNTERS, PLAIN, 1);
        plain = new Shuffle<>();
        plain.init(context);
        return plain.run();
    }

    @Override
    public void close() {
        if (plain != null) {
            plain.close();
        }
    }

    private RawKeyValueIterator fold() throws Plain, IOException, InterruptedException {
        if (context.getLocalMapFiles() != null) {
            throw new Plain("the maps ran in this process");
        }
        Fold fold = Fold.of(context.getJobConf(), context.getCodec());
        Settings settings = Settings.of(context.getJobConf());
        TreeMap<String, List<String>> attempts = finishedMaps();
        if (attempts.isEmpty()) {
            throw new Plain("there are no map outputs");
        }
        long began = System.nanoTime();
        Questions questions = new Questions();
        Combiners combiners = fold.kind() == Fold.Kind.COMBINE
                ? new Combiners(settings, questions, context.getJobConf())
                : null;
        Orders orders = new Orders(settings, questions, context.getReduceTask().getShuffleSecret(), attempts);
        Segments<K, V> segments = new Segments<>(context, fold, settings.slices());
        boolean isWhole = false;
        try {
            Wave wave = new Wave(settings, fold, context.getReduceId(), orders, combiners, segments,
                    context.getReporter()::progress);
            run(wave, segments, settings.window());
            isWhole = true;
        } finally {
            if (!isWhole) {
                segments.delete();
            }
        }
        Reporter reporter = context.getReporter();
        reporter.incrCounter(COUNTERS, FOLDED, 1);
        reporter.incrCounter(COUNTERS, MILLIS, (System.nanoTime() - began) / 1_000_000);
        context.getShuffledMapsCounter().increment(orders.maps());
        context.getReduceShuffleBytes().increment(segments.bytes());
        return sort(segments);
    }

    /** Gets all slices, one window after another, so that relays and agents hold no more than a window of them. */
    private void run(Wave wave, Segments<K, V> segments, int window) throws Plain, InterruptedException {
        int attempt = 0;
        int failures = 0;
        Optional<Wanted> wanted = segments.wanted(window);
        while (wanted.isPresent()) {
            try {
                wave.run(attempt, wanted.get());
                failures = 0;
            } catch (Wave.AgainException error) {
                attempt++;
                failures++;
                if (failures == TRIES) {
                    throw new Plain(error.getMessage());
                }
                LOG.info("{} tries the relays again: {}", context.getReduceId(), error.getMessage());
                context.getReporter().incrCounter(COUNTERS, AGAIN, 1);
            }
            wanted = segments.wanted(window);
        }
    }

    /** Waits until all maps have finished. */
    private TreeMap<String, List<String>> finishedMaps() throws Plain, IOException, InterruptedException {
        int count = context.getJobConf().getNumMapTasks();
        Maps maps = new Maps(count);
        Progress copy = context.getCopyPhase();
        int failures = 0;
        while (true) {
            try {
                maps.update(context.getUmbilical(), (TaskAttemptID) context.getReduceId());
                failures = 0;
            } catch (IOException error) {
                failures++;
                if (failures == POLL_FAILURES_MAX) {
                    throw error;
                }
            }
            if (maps.areAllFinished()) {
                return maps.byHandler();
            }
            copy.setStatus(maps.finished() + " of " + count + " maps have finished");
            context.getReporter().progress();
            Thread.sleep(POLL_MILLIS);
        }
    }

    private RawKeyValueIterator sort(Segments<K, V> segments) throws IOException {
        context.getCopyPhase().complete();
        context.getStatus().setPhase(TaskStatus.Phase.SORT);
        context.getReduceTask().statusUpdate(context.getUmbilical());
        return segments.merge();
    }
}
