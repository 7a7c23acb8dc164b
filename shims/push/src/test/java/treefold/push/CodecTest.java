package treefold.push;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** Frames and their headers: the lines of golden.txt, and bytes that are none. */
final class CodecTest {
    private static final Path GOLDEN = Path.of("../../crates/treefold/src/wire/tests/golden.txt");

    private static Map<String, byte[]> golden() throws IOException {
        Map<String, byte[]> frames = new HashMap<>();
        for (String line : Files.readAllLines(GOLDEN)) {
            int colon = line.indexOf(": ");
            if (colon > 0 && !line.startsWith("#")) {
                frames.put(line.substring(0, colon), HexFormat.of().parseHex(line.substring(colon + 2).replaceAll("[ |;]", "")));
            }
        }
        return frames;
    }

    private static byte[] encode(Frame frame) {
        byte[] head = frame.head().array();
        byte[] all = java.util.Arrays.copyOf(head, head.length + (frame.payload == null ? 0 : frame.payload.length));
        if (frame.payload != null) {
            System.arraycopy(frame.payload, 0, all, head.length, frame.payload.length);
        }
        return all;
    }

    private static Frame decode(byte[] bytes) throws MalformedException {
        FrameReader reader = new FrameReader(1 << 20);
        reader.take(ByteBuffer.wrap(bytes));
        return reader.next();
    }

    private static void assertHex(byte[] expected, Frame frame) {
        assertEquals(HexFormat.of().formatHex(expected), HexFormat.of().formatHex(encode(frame)));
    }

    @Test
    void messages_of_workers_and_masters_are_those_of_the_specification() throws Exception {
        Map<String, byte[]> golden = golden();
        assertHex(golden.get("push-attach"), Messages.attach("words", 3));
        assertHex(golden.get("push"), Messages.push(7, 2, true, "run".getBytes(UTF_8)));
        assertHex(golden.get("push-failed"), Messages.failed(7, "no disk"));
        assertHex(golden.get("cancel-request"), Messages.cancel(7));
        assertHex(golden.get("fault"), Messages.fault(6, "payload", 64 << 20));
        // The request in golden.txt is that of search/topk for partitions 2 and 3 with codes of its own.
        Announcement announcement = new Announcement(null, "search/topk", 7, WorkerSet.range(2, 6));
        announcement.params("rust".getBytes(UTF_8));
        Frame expected = decode(golden.get("request-announced"));
        Frame request = Messages.request(7, announcement);
        assertEquals(expected.kind, request.kind);
        assertEquals(fields(expected.header).keySet(), fields(request.header).keySet());
    }

    private static Map<Integer, Integer> fields(byte[] header) throws MalformedException {
        Map<Integer, Integer> fields = new HashMap<>();
        MessageReader reader = new MessageReader(header);
        while (reader.next()) {
            fields.merge(reader.field(), 1, Integer::sum);
        }
        return fields;
    }

    @Test
    void messages_of_nodes_are_read() throws Exception {
        Map<String, byte[]> golden = golden();
        Messages.Hello hello = Messages.Hello.read(decode(golden.get("hello")));
        assertEquals(3, hello.version());
        assertEquals("treefold", hello.cluster());
        assertEquals(7700, Address.ofNode(hello.node()).getPort());
        assertEquals(1 << 20, Messages.Attached.read(decode(golden.get("push-attached"))).window());
        assertEquals("shutting down", Messages.Attached.read(decode(golden.get("push-refused"))).problem());
        assertEquals(new Messages.Word(7, 1, true), Messages.Word.read(decode(golden.get("push-wanted"))));
        assertEquals(new Messages.Word(7, 2, false), Messages.Word.read(decode(golden.get("push-taken"))));
        assertEquals(new Messages.Word(7, 0, false), Messages.Word.read(decode(golden.get("push-ended"))));
        FaultException fault = Messages.readFault(decode(golden.get("fault")));
        assertEquals("TOO_LARGE", fault.name());
        Messages.Answer answer = Messages.Answer.read(decode(golden.get("reply")));
        assertEquals(7, answer.id());
        assertEquals(Reply.Status.PARTIAL, answer.reply().status());
        assertEquals(WorkerSet.range(0, 4), answer.reply().asked());
        assertEquals(WorkerSet.range(0, 3), answer.reply().contributed());
        assertEquals("3: local_failed (disk)", answer.reply().missing().get(0).toString());
        assertTrue(answer.reply().elapsed().compareTo(Duration.ZERO) > 0);
    }

    @Test
    void every_frame_of_the_specification_passes_byte_by_byte() throws Exception {
        Map<String, byte[]> golden = golden();
        for (String line : Files.readAllLines(GOLDEN)) {
            byte[] bytes = golden.get(line.split(": ")[0]);
            if (bytes == null) {
                continue;
            }
            FrameReader reader = new FrameReader(1 << 20);
            int frames = 0;
            for (byte octet : bytes) {
                reader.take(ByteBuffer.wrap(new byte[] {octet}));
                frames += reader.next() == null ? 0 : 1;
            }
            // Several frames may carry one message in pieces.
            long most = 1 + line.chars().filter(sign -> sign == ';').count();
            assertTrue(frames <= most, line);
        }
    }

    @Test
    void payload_in_chunks_is_put_together_while_other_frames_pass() throws Exception {
        byte[] payload = new byte[150_000];
        new Random(1).nextBytes(payload);
        FrameReader reader = new FrameReader(1 << 20);
        Frame small = Messages.push(1, 1, true, new byte[] {1});
        reader.take(ByteBuffer.wrap(encode(small)));
        byte[] announcement = new MessageWriter().number(1, 5).number(2, payload.length).toByteArray();
        byte[] announced = encode(new Frame(Frame.REPLY, new byte[] {8, 7}, announcement));
        announced[5] = Frame.FLAG_PAYLOAD | Frame.FLAG_CHUNKED;
        reader.take(ByteBuffer.wrap(announced));
        byte[] header = new MessageWriter().number(1, 5).toByteArray();
        for (int at = 0; at < payload.length; at += 65_536) {
            reader.take(ByteBuffer.wrap(encode(small)));
            byte[] part = java.util.Arrays.copyOfRange(payload, at, Math.min(at + 65_536, payload.length));
            reader.take(ByteBuffer.wrap(encode(new Frame(Frame.CHUNK, header, part))));
        }
        List<Frame> frames = new ArrayList<>();
        for (Frame frame = reader.next(); frame != null; frame = reader.next()) {
            frames.add(frame);
        }
        assertEquals(5, frames.size());
        assertArrayEquals(payload, frames.get(4).payload);
    }

    @Test
    void lengths_above_a_limit_are_errors_and_reserve_nothing() {
        byte[] bytes = encode(Messages.push(1, 1, true, new byte[0]));
        ByteBuffer frame = ByteBuffer.wrap(bytes).order(java.nio.ByteOrder.LITTLE_ENDIAN);
        for (int length : new int[] {0, 25, Integer.MAX_VALUE, -1, 5_000_000}) {
            frame.putInt(0, length);
            assertThrows(MalformedException.class, () -> decode(bytes), "length " + length);
        }
        frame.putInt(0, 26 + 6);
        frame.putInt(6, 7);
        assertThrows(MalformedException.class, () -> decode(bytes), "a header longer than the frame");
        frame.putInt(6, -1);
        assertThrows(MalformedException.class, () -> decode(bytes), "a negative header");
    }

    @Test
    void random_bytes_are_malformed_or_read_and_nothing_else() {
        Random random = new Random(20261126);
        for (int round = 0; round < 20_000; round++) {
            byte[] header = new byte[random.nextInt(40)];
            random.nextBytes(header);
            Frame frame = new Frame(Frame.REPLY, header, new byte[0]);
            for (Reading reading : READINGS) {
                try {
                    reading.read(frame);
                } catch (MalformedException expected) {
                    // It says what is malformed.
                }
            }
            FrameReader reader = new FrameReader(1_000);
            try {
                reader.take(ByteBuffer.wrap(header));
            } catch (MalformedException expected) {
                // So does this.
            }
        }
    }

    /** Reads a message. */
    private interface Reading {
        Object read(Frame frame) throws MalformedException;
    }

    private static final List<Reading> READINGS = List.of(
            Messages.Answer::read, Messages.Attached::read, Messages.Word::read, Messages.Hello::read, Messages::readFault);

    @Test
    void long_texts_are_cut_between_characters() {
        assertEquals("no disk", Messages.clipped("no disk"));
        assertEquals("é".repeat(256), Messages.clipped("é".repeat(300)));
        assertEquals("a" + "é".repeat(255), Messages.clipped("a" + "é".repeat(300)));
    }

    @Test
    void sets_of_workers_have_one_row() throws Exception {
        WorkerSet set = WorkerSet.of(10, 9, 5, 0, 1, 2, 2);
        assertEquals("0-2,5,9-10", set.toString());
        assertArrayEquals(new int[] {0, 2, 1, 0, 2, 1}, set.toRow());
        assertEquals(set, WorkerSet.ofRow("test", set.toRow()));
        assertEquals(6, set.size());
        assertArrayEquals(new int[] {0, 1, 2, 5, 9, 10}, set.stream().toArray());
        assertTrue(set.contains(9) && !set.contains(8) && !set.contains(11));
        assertThrows(MalformedException.class, () -> WorkerSet.ofRow("test", new int[] {1}));
        assertThrows(MalformedException.class, () -> WorkerSet.ofRow("test", new int[] {-1, 0}));
        assertThrows(MalformedException.class, () -> WorkerSet.ofRow("test", new int[] {0, 1 << 20}));
        assertThrows(IllegalArgumentException.class, () -> WorkerSet.of(-1));
        assertThrows(IllegalArgumentException.class, () -> WorkerSet.range(0, WorkerSet.NUMBERS_MAX + 1));
        assertTrue(WorkerSet.range(3, 3).isEmpty());
    }
}
