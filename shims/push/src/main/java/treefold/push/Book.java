package treefold.push;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * The book of a worker: its pushes, which of them are sent, in flight or folded, until their request ends. It knows no
 * clock, no thread and no socket: the caller passes the time in nanoseconds, and holds a lock.
 *
 * <p>For each request, {@code taken <= sent}. The pushes between them are in flight, and within the node's window. One
 * push larger than the window is allowed among open requests, and one among the others. Pushes sent over a connection that is
 * lost are held: they are sent again only if a node asks for them, because they may have gone up already.
 */
final class Book {
    /** Cost of a push in addition to its payload. */
    static final int PUSH_BYTES = 256;
    /** Requests with pushes, and requests with failures, that are kept. A node has no more open for an application. */
    static final int REQUESTS_MAX = 16_384;
    /** Ended requests that are remembered. */
    static final int ENDED_MAX = 4_096;
    /** Pushes held after a loss are given up after this time if no node asks for them. */
    static final long HOLD_NANOS = 30_000_000_000L;

    private final TreeMap<Long, Kept> requests = new TreeMap<>();
    private final Set<Long> ended = new HashSet<>();
    private final ArrayDeque<Long> endedRow = new ArrayDeque<>();
    /** Failures that are not sent yet. */
    private final ArrayDeque<Failure> failures = new ArrayDeque<>();
    /** The worker's own failures until their requests end, the oldest first: a lost node may not have passed them on. */
    private final Map<Long, String> failed = new LinkedHashMap<>();
    private final long keptBytesMax;
    private long window;
    private long inFlight;
    private long keptBytes;

    Book(long keptBytesMax) {
        this.keptBytesMax = keptBytesMax;
    }

    private record Failure(long request, String problem) { }

    /** The pushes of one request. */
    private static final class Kept {
        /** Pushes that are still here; the first has the number {@code gone + 1}. */
        final Pushes pushes = new Pushes();
        int gone;
        int sent;
        int taken;
        /** True when the last push is here. */
        boolean isWhole;
        /** True when a node has said that the request is open. */
        boolean isOpen;
        boolean isHeld;
        long heldSince;

        int end() {
            return gone + pushes.size();
        }

        /** Cost of the pushes after {@code from} up to {@code upto}. */
        long cost(int from, int upto) {
            long cost = 0;
            for (int number = Math.max(from, gone); number < Math.min(upto, end()); number++) {
                cost += costOf(pushes.get(number - gone));
            }
            return cost;
        }
    }

    private static long costOf(byte[] push) {
        return (long) push.length + PUSH_BYTES;
    }

    /** True if more may be pushed for a request. Folded pushes are dropped first to make room. */
    boolean hasRoom(long request) {
        return hasBytes() && (requests.size() < REQUESTS_MAX || requests.containsKey(request) || ended.contains(request));
    }

    private boolean hasBytes() {
        while (keptBytes >= keptBytesMax) {
            Kept goneUp = null;
            for (Kept kept : requests.values()) {
                if ((kept.taken > kept.gone || kept.isHeld) && kept.pushes.size() > 0) {
                    goneUp = kept;
                    break;
                }
            }
            if (goneUp == null) {
                return false;
            }
            keptBytes -= costOf(goneUp.pushes.removeFirst());
            goneUp.gone++;
            goneUp.sent = Math.max(goneUp.sent, goneUp.gone);
            goneUp.taken = Math.max(goneUp.taken, goneUp.gone);
        }
        return true;
    }

    /** True if nothing is kept of any request. */
    boolean isEmpty() {
        return requests.isEmpty() && failures.isEmpty() && failed.isEmpty();
    }

    /** Cost of the pushes that are sent and not folded. */
    long inFlight() {
        return inFlight;
    }

    /** Cost of all that is kept. */
    long keptBytes() {
        return keptBytes;
    }

    /** Adds a push, for which there is room. If the request is over, nothing changes. */
    void push(long request, byte[] payload, boolean last) throws OverException {
        Kept kept = requests.get(request);
        if (ended.contains(request) || kept != null && kept.isWhole) {
            throw new OverException(request);
        }
        if (kept == null) {
            if (requests.size() >= REQUESTS_MAX) {
                throw new IllegalStateException("invariant: the caller asks for room first");
            }
            kept = new Kept();
            requests.put(request, kept);
        }
        kept.isWhole = last;
        keptBytes += costOf(payload);
        kept.pushes.add(payload);
    }

    /**
     * Notes that the worker's result will not come. If too many failures are kept, the oldest is repeated no more: a node that
     * has not heard of it finds the worker late.
     */
    void fail(long request, String problem) {
        if (!ended.contains(request)) {
            forget(request);
            noteEnded(request);
            if (failed.size() >= REQUESTS_MAX) {
                forget(failed.keySet().iterator().next());
            }
            keptBytes += costOf(problem);
            failed.put(request, problem);
            report(request, problem);
        }
    }

    /** Sends a failure soon. A node that asks for more than it reads is not answered each time. */
    private void report(long request, String problem) {
        if (failures.size() < REQUESTS_MAX) {
            failures.add(new Failure(request, problem));
        }
    }

    private static long costOf(String problem) {
        return PUSH_BYTES + (long) problem.getBytes(StandardCharsets.UTF_8).length;
    }

    /** Notes that a node has attached the worker, with this window. */
    void attached(long now, long window) {
        this.window = window;
        inFlight = 0;
        expire(now);
        failures.clear();
        failed.forEach(this::report);
        // The node that asked for it is lost, and may never say that the request has ended.
        requests.values().removeIf(kept -> kept.end() == 0);
        for (Kept kept : requests.values()) {
            kept.isOpen = false;
            if (kept.sent > 0) {
                kept.sent = kept.gone;
                kept.taken = kept.gone;
                kept.heldSince = kept.isHeld ? kept.heldSince : now;
                kept.isHeld = true;
            }
        }
    }

    /**
     * Gives up held pushes for which no node asks. If not all pushes of a request have been made, the request ends, because
     * the rest must not count as the whole.
     */
    void expire(long now) {
        List<Long> old = new ArrayList<>();
        requests.forEach((request, kept) -> {
            if (kept.isHeld && now - kept.heldSince >= HOLD_NANOS) {
                old.add(request);
            }
        });
        for (long request : old) {
            boolean isWhole = requests.get(request).isWhole;
            forget(request);
            if (!isWhole) {
                noteEnded(request);
            }
        }
    }

    /** A node has the request open, and its pushes up to {@code after}. */
    void wanted(long request, int after, boolean again) {
        String problem = failed.get(request);
        if (problem != null) {
            report(request, problem);
            return;
        }
        if (ended.contains(request)) {
            report(request, "the worker was told that the request had ended");
            return;
        }
        if (!requests.containsKey(request) && requests.size() >= REQUESTS_MAX) {
            return;
        }
        Kept kept = requests.computeIfAbsent(request, unused -> new Kept());
        kept.isOpen = true;
        boolean wasHeld = kept.isHeld;
        kept.isHeld = false;
        if (!again && !wasHeld) {
            return;
        }
        if (after < kept.gone) {
            fail(request, "push " + (after + 1) + " is no longer kept");
            return;
        }
        inFlight -= kept.cost(kept.taken, kept.sent);
        kept.sent = after;
        kept.taken = after;
    }

    /** A node has folded the pushes up to {@code upto}. */
    void taken(long request, int upto) {
        Kept kept = requests.get(request);
        if (kept != null && Math.min(upto, kept.sent) > kept.taken) {
            int to = Math.min(upto, kept.sent);
            inFlight -= kept.cost(kept.taken, to);
            kept.taken = to;
        }
    }

    /** A node will ask for nothing more of the request. */
    void ended(long request) {
        forget(request);
        noteEnded(request);
    }

    /** The next message to send, or null if none may be sent now. */
    Frame poll() {
        Failure failure = failures.poll();
        if (failure != null) {
            return Messages.failed(failure.request, failure.problem);
        }
        // Open requests go first, and the others leave half of the window to them.
        Frame next = nextOf(true, window);
        return next == null ? nextOf(false, window / 2) : next;
    }

    private Frame nextOf(boolean isOpen, long room) {
        for (Map.Entry<Long, Kept> entry : requests.entrySet()) {
            Kept kept = entry.getValue();
            if (kept.isOpen != isOpen || kept.isHeld || kept.sent >= kept.end()) {
                continue;
            }
            int sequence = kept.sent + 1;
            byte[] payload = kept.pushes.get(kept.sent - kept.gone);
            if (inFlight + costOf(payload) > room && isOnItsWay(isOpen)) {
                return null;
            }
            inFlight += costOf(payload);
            kept.sent = sequence;
            return Messages.push(entry.getKey(), sequence, kept.isWhole && sequence == kept.end(), payload);
        }
        return null;
    }

    /**
     * True if a push is in flight that counts here. For open requests, only pushes of open requests count: a push that no node
     * has asked for may stay in flight for long.
     */
    private boolean isOnItsWay(boolean ofOpen) {
        for (Kept kept : requests.values()) {
            if ((kept.isOpen || !ofOpen) && kept.taken < kept.sent) {
                return true;
            }
        }
        return false;
    }

    private void forget(long request) {
        Kept kept = requests.remove(request);
        if (kept != null) {
            inFlight -= kept.cost(kept.taken, kept.sent);
            keptBytes -= kept.cost(kept.gone, kept.end());
        }
        String problem = failed.remove(request);
        if (problem != null) {
            keptBytes -= costOf(problem);
        }
    }

    private void noteEnded(long request) {
        if (ended.add(request)) {
            endedRow.add(request);
        }
        if (endedRow.size() > ENDED_MAX) {
            ended.remove(endedRow.remove());
        }
    }
}
