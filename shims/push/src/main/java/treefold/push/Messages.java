package treefold.push;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** The headers of docs/protocol.proto that workers and masters write and read. */
final class Messages {
    static final int VERSION = 3;
    /** The longest text about a problem; a longer one is cut. */
    static final int TEXT_BYTES_MAX = 512;
    static final int NAME_BYTES_MAX = 128;

    private static final int MISSING_MAX = 4_096;
    private static final int WAITING_STAGED = 2;

    private Messages() { }

    /** The greeting of a client: port 0, and a generation that no other process has. */
    static Frame hello(String cluster, long generation) {
        ByteBuffer node = ByteBuffer.allocate(14).order(ByteOrder.LITTLE_ENDIAN);
        node.putInt(0).putShort((short) 0).putLong(generation);
        MessageWriter hello = new MessageWriter().number(1, VERSION).number(2, VERSION).text(3, cluster);
        return new Frame(Frame.HELLO, hello.bytes(4, node.array()).toByteArray());
    }

    static Frame fault(int code, String field, long limit) {
        return new Frame(Frame.FAULT, new MessageWriter().number(1, code).text(2, field).number(3, limit).toByteArray());
    }

    static Frame attach(String application, int worker) {
        return new Frame(Frame.PUSH_ATTACH, new MessageWriter().text(1, application).number(2, worker).toByteArray());
    }

    static Frame push(long request, int sequence, boolean last, byte[] payload) {
        MessageWriter header = new MessageWriter().number(1, request).number(2, sequence).flag(3, last);
        return new Frame(Frame.PUSH, header.toByteArray(), payload);
    }

    static Frame failed(long request, String problem) {
        return new Frame(Frame.PUSH_FAILED, new MessageWriter().number(1, request).text(2, problem).toByteArray());
    }

    static Frame cancel(long id) {
        return new Frame(Frame.CANCEL_REQUEST, new MessageWriter().number(1, id).toByteArray());
    }

    /** A question that every node answers at once. */
    static Frame statusRequest() {
        return new Frame(Frame.STATUS_REQUEST, new MessageWriter().number(1, 1).toByteArray());
    }

    static Frame request(long id, Announcement announcement) {
        MessageWriter push = new MessageWriter().number(1, announcement.request);
        push.number(2, micros(announcement.patience));
        MessageWriter header = new MessageWriter().number(1, id).text(2, announcement.kind);
        header.number(3, micros(announcement.deadline)).real(4, announcement.minCoverage).text(5, "auto");
        header.number(7, WAITING_STAGED).flag(9, true).packed(10, announcement.workers.toRow()).message(20, push);
        return new Frame(Frame.REQUEST, header.toByteArray(), announcement.params);
    }

    /** Cuts a text to the longest that is sent, between two characters. */
    static String clipped(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        if (bytes.length <= TEXT_BYTES_MAX) {
            return text;
        }
        int end = TEXT_BYTES_MAX;
        while ((bytes[end] & 0xC0) == 0x80) {
            end--;
        }
        return new String(bytes, 0, end, StandardCharsets.UTF_8);
    }

    private static long micros(Duration duration) {
        return Math.min(duration.toNanos() / 1_000, Long.MAX_VALUE);
    }

    /**
     * The greeting of a node.
     *
     * @param version the newest version that it speaks
     * @param versionLeast the oldest
     * @param node its address, port and generation, as on the wire
     */
    record Hello(long version, long versionLeast, String cluster, byte[] node) {
        static Hello read(Frame frame) throws MalformedException {
            long version = 0;
            long versionLeast = 0;
            String cluster = "";
            byte[] node = new byte[0];
            MessageReader reader = new MessageReader(frame.header);
            while (reader.next()) {
                switch (reader.field()) {
                    case 1 -> version = reader.number();
                    case 2 -> versionLeast = reader.number();
                    case 3 -> cluster = reader.text();
                    case 4 -> node = reader.bytes();
                    default -> { }
                }
            }
            if (node.length != 14 && node.length != 26) {
                throw new MalformedException("node", "has " + node.length + " bytes; allowed: 14 or 26");
            }
            return new Hello(version, versionLeast, cluster, node);
        }
    }

    static FaultException readFault(Frame frame) throws MalformedException {
        long code = 0;
        String field = "";
        long limit = 0;
        MessageReader reader = new MessageReader(frame.header);
        while (reader.next()) {
            switch (reader.field()) {
                case 1 -> code = reader.number();
                case 2 -> field = reader.text();
                case 3 -> limit = reader.number();
                default -> { }
            }
        }
        return new FaultException(code, field, limit);
    }

    /** The window of a worker that is attached, or the problem. */
    record Attached(long window, String problem) {
        static Attached read(Frame frame) throws MalformedException {
            long window = 0;
            String problem = null;
            MessageReader reader = new MessageReader(frame.header);
            while (reader.next()) {
                switch (reader.field()) {
                    case 1 -> window = reader.number();
                    case 2 -> problem = reader.text();
                    default -> { }
                }
            }
            return new Attached(window < 0 ? Long.MAX_VALUE : window, problem);
        }
    }

    /** PushWanted, PushTaken or PushEnded: the request, the number of a push, and `again`. */
    record Word(long request, int push, boolean again) {
        static Word read(Frame frame) throws MalformedException {
            long request = 0;
            int push = 0;
            boolean again = false;
            MessageReader reader = new MessageReader(frame.header);
            while (reader.next()) {
                switch (reader.field()) {
                    case 1 -> request = reader.number();
                    case 2 -> push = reader.count();
                    case 3 -> again = reader.flag();
                    default -> { }
                }
            }
            return new Word(request, push, again);
        }
    }

    /** A reply, or the reason why there is none. One of `reply` and `rejection` is null. */
    record Answer(long id, Reply reply, RejectedException rejection) {
        static Answer read(Frame frame) throws MalformedException {
            long id = 0;
            long status = 0;
            RejectedException rejection = null;
            WorkerSet asked = WorkerSet.empty();
            WorkerSet contributed = WorkerSet.empty();
            List<Missing> missing = new ArrayList<>();
            long elapsed = 0;
            MessageReader reader = new MessageReader(frame.header);
            while (reader.next()) {
                switch (reader.field()) {
                    case 1 -> id = reader.number();
                    case 2 -> status = reader.number();
                    case 3 -> rejection = readRejection(reader.message());
                    case 4 -> asked = WorkerSet.ofRow("asked", reader.packed());
                    case 5 -> contributed = WorkerSet.ofRow("contributed", reader.packed());
                    case 6 -> {
                        if (missing.size() == MISSING_MAX) {
                            throw new MalformedException("missing", "has more than " + MISSING_MAX + " entries");
                        }
                        missing.add(readMissing(reader.message()));
                    }
                    case 7 -> elapsed = reader.number();
                    default -> { }
                }
            }
            if (status == 4) {
                return new Answer(id, null, rejection == null ? unexplained() : rejection);
            }
            if (status < 1 || status > 3) {
                throw new MalformedException("status", "is " + Long.toUnsignedString(status));
            }
            Reply.Status kind = Reply.Status.values()[(int) status - 1];
            byte[] value = kind == Reply.Status.INSUFFICIENT ? null : frame.payload;
            return new Answer(id, new Reply(kind, value, asked, contributed, missing, Duration.ofNanos(elapsed)), null);
        }
    }

    private static Missing readMissing(MessageReader reader) throws MalformedException {
        WorkerSet workers = WorkerSet.empty();
        long reason = 0;
        String detail = "";
        while (reader.next()) {
            switch (reader.field()) {
                case 1 -> workers = WorkerSet.ofRow("partitions", reader.packed());
                case 3 -> reason = reader.number();
                case 4 -> detail = reader.text();
                default -> { }
            }
        }
        return new Missing(workers, Missing.Reason.of(reason), detail);
    }

    private static RejectedException unexplained() {
        return new RejectedException(RejectedException.Why.OTHER, "without a reason");
    }

    private static RejectedException readRejection(MessageReader reader) throws MalformedException {
        long error = 0;
        String[] texts = new String[8];
        long callsMax = 0;
        while (reader.next()) {
            switch (reader.field()) {
                case 1 -> error = reader.number();
                case 2, 3, 4, 5, 7 -> texts[reader.field()] = reader.text();
                case 6 -> callsMax = reader.number();
                default -> { }
            }
        }
        RejectedException.Why[] known = RejectedException.Why.values();
        boolean isKnown = error >= 1 && error < known.length;
        RejectedException.Why why = isKnown ? known[(int) error - 1] : RejectedException.Why.OTHER;
        return new RejectedException(why, switch (why) {
            case BAD_FIELD -> texts[2] + " is " + texts[3] + "; allowed: " + texts[4];
            case UNKNOWN_SERVICE -> "the node does not accept " + texts[5];
            case TOO_MANY_CALLS -> "the node has " + callsMax + " open calls, and may have no more";
            case SHUTTING_DOWN -> "the node is leaving the cluster";
            case DENIED -> "the certificate does not give the right to " + texts[7] + " for " + texts[5];
            case OTHER -> "error " + Long.toUnsignedString(error);
        });
    }
}
