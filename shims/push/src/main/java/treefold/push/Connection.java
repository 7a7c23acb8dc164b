package treefold.push;

import java.io.Closeable;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.ArrayDeque;

/**
 * A connection that carries messages. It belongs to one thread, which waits in {@link #await}. Another thread may call
 * {@link Selector#wakeup} of its selector.
 */
final class Connection implements Closeable {
    /** How often a connection that is waited for is looked at. */
    static final long LOOK_MILLIS = 1_000;

    private static final int READ_BYTES = 64 << 10;
    /** How long a node may say nothing, while it is waited for, before it is asked for a sign of life. */
    private static final long QUIET_NANOS = 1_000_000_000L;
    /** How long it may take to give one. A node answers at once, even while it folds. */
    private static final long SILENCE_NANOS = 4_000_000_000L;

    /** Buffers that wait for the socket; a message has one or two. */
    static final int BUFFERS_MAX = 4_096;

    private final String address;
    private final Tunnel tunnel;
    private final Selector selector;
    private final SelectionKey key;
    private final FrameReader reader;
    private final ArrayDeque<ByteBuffer> outbox = new ArrayDeque<>();
    private final ByteBuffer arrived = ByteBuffer.allocate(READ_BYTES);
    private boolean isOver;
    /** When the node was last heard, or began to be waited for. */
    private long heardAt = System.nanoTime();
    /** When it was first asked for a sign of life since then. */
    private long askedAt;
    private boolean wasAsked;

    Connection(String address, Tunnel tunnel, Selector selector, SelectionKey key, int payloadBytesMax) {
        this.address = address;
        this.tunnel = tunnel;
        this.selector = selector;
        this.key = key;
        this.reader = new FrameReader(payloadBytesMax);
    }

    /** The address by which it was made. */
    String address() {
        return address;
    }

    Tunnel tunnel() {
        return tunnel;
    }

    /** True if another message may be queued. */
    boolean hasRoom() {
        return outbox.size() < BUFFERS_MAX;
    }

    /** Queues a message. The caller asks for room first. */
    void send(Frame frame) {
        outbox.add(frame.head());
        if (frame.payload != null && frame.payload.length > 0) {
            outbox.add(ByteBuffer.wrap(frame.payload));
        }
    }

    /** True if the socket has accepted all messages. */
    boolean hasWritten() {
        return outbox.isEmpty() && !tunnel.hasUnsent();
    }

    /** Goes on with a TLS handshake, waiting up to the time. Returns true when it is complete. */
    boolean handshake(long millis) throws IOException {
        if (tunnel.handshake()) {
            return true;
        }
        select(millis, tunnel.hasUnsent());
        return tunnel.handshake();
    }

    /** Writes what waits as far as the socket accepts it, without waiting. */
    void writeSome() throws IOException {
        tunnel.write(outbox);
    }

    /**
     * The next message, or null after the time or a wakeup without one. Writes queued messages in the meantime.
     *
     * @throws IOException if the connection is over
     */
    Frame await(long millis) throws IOException {
        Frame frame = next();
        if (frame != null) {
            return frame;
        }
        writeSome();
        select(millis, !hasWritten());
        writeSome();
        return next();
    }

    /** The next message that has arrived, or null. */
    Frame next() throws IOException {
        while (true) {
            Frame frame = reader.next();
            if (frame != null) {
                if (frame.kind == Frame.FAULT) {
                    throw Messages.readFault(frame);
                }
                return frame;
            }
            if (isOver) {
                throw new UnreachableException(address + " closed the connection");
            }
            arrived.clear();
            int count = tunnel.read(arrived);
            if (count == 0) {
                return null;
            }
            hearNow();
            isOver = count < 0;
            reader.take(arrived.flip());
        }
    }

    private void hearNow() {
        heardAt = System.nanoTime();
        wasAsked = false;
    }

    /**
     * Asks a quiet node for a sign of life. A process that is stopped keeps its connections, so only its silence tells. Call
     * this after reading, every {@link #LOOK_MILLIS}.
     *
     * @param isWaiting true if something is expected of the node
     * @throws UnreachableException if it gives no sign
     */
    void probe(boolean isWaiting) throws UnreachableException {
        long now = System.nanoTime();
        if (!isWaiting) {
            hearNow();
        } else if (wasAsked && now - askedAt > SILENCE_NANOS) {
            throw new UnreachableException(address + " gives no sign of life");
        } else if (!wasAsked && now - heardAt > QUIET_NANOS) {
            send(Messages.statusRequest());
            wasAsked = true;
            askedAt = now;
        }
    }

    private void select(long millis, boolean hasMore) throws IOException {
        key.interestOps(SelectionKey.OP_READ | (hasMore ? SelectionKey.OP_WRITE : 0));
        if (millis > 0) {
            selector.select(millis);
        } else {
            selector.selectNow();
        }
        selector.selectedKeys().clear();
    }

    @Override
    public void close() {
        key.cancel();
        try {
            tunnel.close();
            // The key leaves its selector only now.
            selector.selectNow();
        } catch (IOException error) {
            // Nothing more is expected of it.
        }
    }
}
