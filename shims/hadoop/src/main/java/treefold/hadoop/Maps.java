package treefold.hadoop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.hadoop.mapred.MapTaskCompletionEventsUpdate;
import org.apache.hadoop.mapred.TaskAttemptID;
import org.apache.hadoop.mapred.TaskCompletionEvent;
import org.apache.hadoop.mapred.TaskUmbilicalProtocol;

/**
 * The finished maps of a job, as the application master reports them. Each map counts once: its output is that of one attempt,
 * and an attempt that is withdrawn counts no more.
 */
final class Maps {
    /** Events in an answer, as Hadoop's own reducers ask for. */
    private static final int EVENTS_MAX = 10_000;

    private final int maps;
    private final Map<Integer, Done> done = new HashMap<>();
    /** Maps that have failed, which the job allows. They have no output. */
    private final Set<Integer> failed = new HashSet<>();
    private int nextEvent;

    /** The successful attempt of a map, and its node. */
    private record Done(TaskAttemptID attempt, String http) { }

    Maps(int maps) {
        this.maps = maps;
    }

    /** Asks for new events. */
    void update(TaskUmbilicalProtocol umbilical, TaskAttemptID reduce) throws IOException {
        TaskCompletionEvent[] events;
        do {
            MapTaskCompletionEventsUpdate update =
                    umbilical.getMapCompletionEvents(reduce.getJobID(), nextEvent, EVENTS_MAX, reduce);
            if (update.shouldReset()) {
                nextEvent = 0;
                done.clear();
                failed.clear();
            }
            events = update.getMapTaskCompletionEvents();
            nextEvent += events.length;
            for (TaskCompletionEvent event : events) {
                note(event);
            }
        } while (events.length == EVENTS_MAX);
    }

    void note(TaskCompletionEvent event) {
        TaskAttemptID attempt = event.getTaskAttemptId();
        int map = attempt.getTaskID().getId();
        switch (event.getTaskStatus()) {
            case SUCCEEDED -> done.put(map, new Done(attempt, event.getTaskTrackerHttp()));
            case FAILED, KILLED, OBSOLETE -> {
                Done known = done.get(map);
                if (known != null && known.attempt.equals(attempt)) {
                    done.remove(map);
                }
            }
            case TIPFAILED -> failed.add(map);
        }
    }

    /** Maps of which the output is known, or will never be. */
    int finished() {
        Set<Integer> all = new HashSet<>(done.keySet());
        all.addAll(failed);
        return all.size();
    }

    boolean areAllFinished() {
        return finished() >= maps;
    }

    /**
     * The attempts with outputs, by the address of their ShuffleHandler, {@code host:port}.
     *
     * @throws Plain if a ShuffleHandler is reached only over TLS
     */
    TreeMap<String, List<String>> byHandler() throws Plain {
        TreeMap<String, List<String>> attempts = new TreeMap<>();
        for (Done map : done.values()) {
            String address = map.http;
            if (address.startsWith("http://")) {
                address = address.substring("http://".length());
            }
            if (address.contains("/") || address.lastIndexOf(':') < 1) {
                throw new Plain("the ShuffleHandler \"" + map.http + "\" has no address of the kind host:port");
            }
            attempts.computeIfAbsent(address, unused -> new ArrayList<>()).add(map.attempt.toString());
        }
        return attempts;
    }
}
