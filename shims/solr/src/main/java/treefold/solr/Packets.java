package treefold.solr;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

/** The typed packets of docs/protocol.md that this shim pushes and reads, and the parameters of {@code top-k}. */
final class Packets {
    private static final int F64 = 0x03;
    private static final int F64S = 0x13;
    private static final int BLOBS = 0x16;

    private Packets() { }

    /**
     * Rows for {@code top-k}, of format {@code f64s blobs}. All scores are 0: of equal scores, the lesser payload comes first, so
     * the payloads alone decide.
     */
    static byte[] rows(List<byte[]> payloads) {
        if (payloads.isEmpty()) {
            return new byte[0];
        }
        int bytes = payloads.stream().mapToInt(payload -> 4 + payload.length).sum();
        ByteBuffer packet = little(1 + 1 + 4 + 8 * payloads.size() + 1 + 4 + 4 + bytes);
        packet.put((byte) 2).put((byte) F64S).putInt(payloads.size());
        payloads.forEach(payload -> packet.putDouble(0));
        packet.put((byte) BLOBS).putInt(payloads.size()).putInt(bytes);
        payloads.forEach(payload -> packet.putInt(payload.length).put(payload));
        return packet.array();
    }

    /** Reads {@link #rows}. */
    static List<byte[]> readRows(byte[] bytes) throws Failure {
        List<byte[]> rows = new ArrayList<>();
        if (bytes.length == 0) {
            return rows;
        }
        try {
            ByteBuffer packet = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
            check(packet.get() == 2 && packet.get() == F64S);
            int count = packet.getInt();
            check(count >= 0 && count <= packet.remaining() / 8);
            packet.position(packet.position() + 8 * count);
            check(packet.get() == BLOBS && packet.getInt() == count && packet.getInt() == packet.remaining());
            for (int row = 0; row < count; row++) {
                int length = packet.getInt();
                check(length >= 0 && length <= packet.remaining());
                byte[] payload = new byte[length];
                packet.get(payload);
                rows.add(payload);
            }
            return rows;
        } catch (BufferUnderflowException error) {
            throw new Failure(Reason.FOLDED, 502, "a folded packet ends early");
        }
    }

    /** A number for {@code max}. */
    static byte[] number(double value) {
        return little(10).put((byte) 1).put((byte) F64).putDouble(value).array();
    }

    /** Reads {@link #number}; NaN if there is none. */
    static double readNumber(byte[] bytes) throws Failure {
        if (bytes.length == 0) {
            return Double.NaN;
        }
        check(bytes.length == 10 && bytes[0] == 1 && bytes[1] == F64);
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).getDouble(2);
    }

    /** The MessagePack map {@code {"k": k}}. */
    static byte[] topParams(int k) {
        return ByteBuffer.allocate(8).put((byte) 0x81).put((byte) 0xA1).put((byte) 'k').put((byte) 0xCE).putInt(k).array();
    }

    private static ByteBuffer little(int bytes) {
        return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static void check(boolean isRight) throws Failure {
        if (!isRight) {
            throw new Failure(Reason.FOLDED, 502, "a folded packet has another format");
        }
    }
}
