package treefold.hadoop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import treefold.push.PushException;

/**
 * Pushes sorted entries in slices: a key's slice is a hash of it, so all agents put it into the same one. Each slice is a push
 * request of its own, whose folded result must fit a message. Entries of slices that the order does not want are left out.
 *
 * <p>Pieces are held and pushed slice after slice, so that relays fold and pass on the first slices while the others arrive.
 */
final class Slices {
    /** Bytes of entries after which a piece is pushed. A node's window has room for two. */
    static final int PIECE_BYTES = 480 << 10;

    /** Bytes of pieces that are held. */
    static final int HELD_BYTES_MAX = 24 << 20;

    private static final int HASH_BEGIN = 0x811C9DC5;
    private static final int HASH_FACTOR = 0x01000193;
    private static final int MIX_FACTOR = 0x85EBCA6B;

    private final Order order;
    private final Pushing pushing;
    private final int from;
    /** The piece of each wanted slice, from the window's first slice on. */
    private final Packets.Writer[] pieces = new Packets.Writer[Wanted.WINDOW_MAX];
    /** The finished pieces of each slice of the window. */
    private final List<List<byte[]>> held = new ArrayList<>();
    private long heldBytes;
    /** The wanted slices whose requests have not ended, a bit for each of the window. */
    private long open;

    /** Pushes a piece of a slice. May wait. Returns false if the request has ended. */
    interface Pushing {
        boolean push(long request, byte[] piece, boolean isLast) throws PushException, InterruptedException;
    }

    /** The requests of all wanted slices have ended. */
    static final class EndedException extends IOException {
        EndedException() {
            super("all requests of the order have ended");
        }
    }

    Slices(Order order, Pushing pushing) {
        this.order = order;
        this.pushing = pushing;
        this.from = order.wanted().from();
        this.open = order.wanted().bits();
        for (int slice = 0; slice < pieces.length; slice++) {
            pieces[slice] = new Packets.Writer(order.fold().kind());
            held.add(new ArrayList<>());
        }
    }

    /** Adds an entry, whose key is not less than the one before, unless {@link #cut} was called between them. May wait. */
    void add(Entry entry) throws IOException, InterruptedException {
        int slice = Integer.remainderUnsigned(hash(entry), order.wanted().slices()) - from;
        if (slice < 0 || slice >= pieces.length || !isOpen(slice)) {
            return;
        }
        pieces[slice].add(entry);
        if (pieces[slice].bytes() >= PIECE_BYTES) {
            hold(slice);
        }
        if (heldBytes > HELD_BYTES_MAX) {
            for (int each = 0; each < pieces.length; each++) {
                pushHeld(each);
            }
        }
    }

    /** Ends the sorted run. Another may follow. */
    void cut() {
        for (int slice = 0; slice < pieces.length; slice++) {
            if (!pieces[slice].isEmpty()) {
                hold(slice);
            }
        }
    }

    /** Ends all slices, and with it this agent's part of the order. */
    void end() throws IOException, InterruptedException {
        for (int slice = 0; slice < pieces.length; slice++) {
            pushHeld(slice);
            byte[] last = pieces[slice].isEmpty() ? new byte[0] : pieces[slice].take();
            if (isOpen(slice)) {
                push(slice, last, true);
            }
        }
    }

    private boolean isOpen(int slice) {
        return (open >>> slice & 1) == 1;
    }

    private void hold(int slice) {
        byte[] piece = pieces[slice].take();
        heldBytes += piece.length;
        held.get(slice).add(piece);
    }

    private void pushHeld(int slice) throws IOException, InterruptedException {
        for (byte[] piece : held.get(slice)) {
            heldBytes -= piece.length;
            if (isOpen(slice)) {
                push(slice, piece, false);
            }
        }
        held.get(slice).clear();
    }

    private void push(int slice, byte[] piece, boolean isLast) throws IOException, InterruptedException {
        if (!pushing.push(order.request() + from + slice, piece, isLast)) {
            // The reducer needs this slice no more, but perhaps others.
            open &= ~(1L << slice);
            if (open == 0) {
                throw new EndedException();
            }
        }
    }

    private static int hash(Entry entry) {
        int hash = HASH_BEGIN;
        for (int at = entry.keyAt; at < entry.keyEnd; at++) {
            hash = (hash ^ entry.key[at] & 0xFF) * HASH_FACTOR;
        }
        hash = (hash ^ hash >>> 16) * MIX_FACTOR;
        return hash ^ hash >>> 13;
    }
}
