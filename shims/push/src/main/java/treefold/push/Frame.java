package treefold.push;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A message: its kind, its header, and its payload, which is null if there is none. Arrays are shared, not copied.
 */
final class Frame {
    static final int HELLO = 1;
    static final int FAULT = 2;
    static final int CHUNK = 3;
    static final int REQUEST = 32;
    static final int REPLY = 33;
    static final int CANCEL_REQUEST = 34;
    static final int STATUS_REQUEST = 50;
    static final int PUSH_ATTACH = 80;
    static final int PUSH_ATTACHED = 81;
    static final int PUSH = 82;
    static final int PUSH_FAILED = 83;
    static final int PUSH_WANTED = 84;
    static final int PUSH_TAKEN = 85;
    static final int PUSH_ENDED = 86;

    /** Bytes before the header. */
    static final int PREFIX_BYTES = 30;
    /** Bytes of the prefix that the field `length` counts. */
    static final int COUNTED_BYTES = 26;
    static final int FLAG_PAYLOAD = 1;
    static final int FLAG_CHUNKED = 2;

    final int kind;
    final byte[] header;
    final byte[] payload;

    Frame(int kind, byte[] header) {
        this(kind, header, null);
    }

    Frame(int kind, byte[] header, byte[] payload) {
        this.kind = kind;
        this.header = header;
        this.payload = payload;
    }

    /** The bytes before the payload. */
    ByteBuffer head() {
        int bytes = payload == null ? 0 : payload.length;
        ByteBuffer head = ByteBuffer.allocate(PREFIX_BYTES + header.length).order(ByteOrder.LITTLE_ENDIAN);
        head.putInt(COUNTED_BYTES + header.length + bytes).put((byte) kind);
        head.put((byte) (payload == null ? 0 : FLAG_PAYLOAD)).putInt(header.length);
        head.position(PREFIX_BYTES);
        return head.put(header).flip();
    }
}
