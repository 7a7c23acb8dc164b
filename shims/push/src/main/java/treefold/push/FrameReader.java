package treefold.push;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * Makes messages of the bytes that arrive, and puts payloads in chunks together.
 *
 * <p>Limits: the first frame, a header, a payload, and the payloads in chunks that are open at a time. A message above a limit
 * is an error, after which the connection must be closed. Memory grows with the bytes that have arrived, never by an
 * announced length alone.
 */
final class FrameReader {
    static final int FIRST_FRAME_BYTES_MAX = 1_024;
    static final int HEADER_BYTES_MAX = 4 << 20;
    static final int STREAMS_MAX = 8;
    private static final int STEP_BYTES = 64 << 10;

    private final int payloadBytesMax;
    private final ByteBuffer prefix = ByteBuffer.allocate(Frame.PREFIX_BYTES).order(ByteOrder.LITTLE_ENDIAN);
    private final ArrayDeque<Frame> ready = new ArrayDeque<>();
    private final Map<Integer, Pending> chunked = new HashMap<>();
    private Gathered body;
    private boolean isFirst = true;

    FrameReader(int payloadBytesMax) {
        this.payloadBytesMax = payloadBytesMax;
    }

    /** The next complete message, or null. */
    Frame next() {
        return ready.poll();
    }

    /** Takes all bytes that arrived. */
    void take(ByteBuffer arrived) throws MalformedException {
        while (arrived.hasRemaining()) {
            if (body == null) {
                Tunnel.move(arrived, prefix);
                if (prefix.hasRemaining()) {
                    return;
                }
                body = new Gathered(bodyBytes());
            }
            body.take(arrived);
            if (body.isWhole()) {
                complete(body.bytes);
                body = null;
                prefix.clear();
            }
        }
    }

    private int bodyBytes() throws MalformedException {
        long length = Integer.toUnsignedLong(prefix.getInt(0));
        long header = Integer.toUnsignedLong(prefix.getInt(6));
        long most = (long) Frame.COUNTED_BYTES + HEADER_BYTES_MAX + payloadBytesMax;
        if (length < Frame.COUNTED_BYTES || length - Frame.COUNTED_BYTES < header) {
            throw new MalformedException("length", "is " + length + ", with a header of " + header + " bytes");
        }
        if (isFirst && length + 4 > FIRST_FRAME_BYTES_MAX) {
            throw new MalformedException("first frame", "has more than " + FIRST_FRAME_BYTES_MAX + " bytes");
        }
        if (length > most || length > Integer.MAX_VALUE) {
            throw new MalformedException("length", "is " + length + "; at most " + most);
        }
        if (header > HEADER_BYTES_MAX) {
            throw new MalformedException("header", "has " + header + " bytes; at most " + HEADER_BYTES_MAX);
        }
        isFirst = false;
        return (int) length - Frame.COUNTED_BYTES;
    }

    private void complete(byte[] bytes) throws MalformedException {
        int kind = prefix.get(4) & 0xFF;
        int flags = prefix.get(5);
        int headerBytes = prefix.getInt(6);
        byte[] header = Arrays.copyOf(bytes, headerBytes);
        boolean hasPayload = (flags & Frame.FLAG_PAYLOAD) != 0;
        if (!hasPayload && kind != Frame.CHUNK && bytes.length > headerBytes) {
            throw new MalformedException("payload", "is there without its flag");
        }
        if (kind == Frame.CHUNK) {
            chunk(header, bytes, headerBytes);
        } else if (hasPayload && (flags & Frame.FLAG_CHUNKED) != 0) {
            announce(new Frame(kind, header), Arrays.copyOfRange(bytes, headerBytes, bytes.length));
        } else {
            byte[] payload = hasPayload ? Arrays.copyOfRange(bytes, headerBytes, bytes.length) : null;
            within(payload == null ? 0 : payload.length);
            ready.add(new Frame(kind, header, payload));
        }
    }

    private void announce(Frame frame, byte[] announcement) throws MalformedException {
        int stream = 0;
        long bytes = 0;
        MessageReader reader = new MessageReader(announcement);
        while (reader.next()) {
            switch (reader.field()) {
                case 1 -> stream = (int) reader.number();
                case 2 -> bytes = reader.number();
                default -> { }
            }
        }
        if (bytes < 1) {
            throw new MalformedException("announcement", "has no bytes");
        }
        within(bytes);
        long open = bytes;
        for (Pending pending : chunked.values()) {
            open += pending.payload.total;
        }
        if (chunked.size() == STREAMS_MAX || chunked.containsKey(stream) || open > 2L * payloadBytesMax) {
            throw new MalformedException("announcement", "opens the stream " + stream + " beside " + chunked.size());
        }
        chunked.put(stream, new Pending(frame, new Gathered((int) bytes)));
    }

    private void chunk(byte[] header, byte[] bytes, int headerBytes) throws MalformedException {
        int stream = 0;
        MessageReader reader = new MessageReader(header);
        while (reader.next()) {
            if (reader.field() == 1) {
                stream = (int) reader.number();
            }
        }
        Pending pending = chunked.get(stream);
        ByteBuffer part = ByteBuffer.wrap(bytes, headerBytes, bytes.length - headerBytes);
        if (pending == null || !part.hasRemaining() || part.remaining() > pending.payload.missing()) {
            throw new MalformedException("chunk", "of the stream " + stream + " does not fit");
        }
        pending.payload.take(part);
        if (pending.payload.isWhole()) {
            chunked.remove(stream);
            ready.add(new Frame(pending.frame.kind, pending.frame.header, pending.payload.bytes));
        }
    }

    private void within(long payloadBytes) throws MalformedException {
        if (payloadBytes < 0 || payloadBytes > payloadBytesMax) {
            String given = Long.toUnsignedString(payloadBytes);
            throw new MalformedException("payload", "has " + given + " bytes; at most " + payloadBytesMax);
        }
    }

    /** A message whose payload arrives in chunks. */
    private record Pending(Frame frame, Gathered payload) { }

    /** So many bytes, of which some have arrived. */
    private static final class Gathered {
        final int total;
        byte[] bytes;
        private int length;

        Gathered(int total) {
            this.total = total;
            this.bytes = new byte[Math.min(total, STEP_BYTES)];
        }

        int missing() {
            return total - length;
        }

        boolean isWhole() {
            return length == total;
        }

        void take(ByteBuffer arrived) {
            int count = Math.min(missing(), arrived.remaining());
            if (bytes.length - length < count) {
                long doubled = 2L * bytes.length;
                bytes = Arrays.copyOf(bytes, (int) Math.min(total, Math.max(doubled, (long) length + count)));
            }
            arrived.get(bytes, length, count);
            length += count;
        }
    }
}
