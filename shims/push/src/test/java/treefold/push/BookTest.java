package treefold.push;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** The decisions of a worker. These are the cases of the book in Rust (crates/core/src/push/book.rs). */
final class BookTest {
    private static final long WINDOW = 4 * 1_256;

    private final Book book = new Book(1 << 20);

    BookTest() {
        book.attached(0, WINDOW);
    }

    private static byte[] piece() {
        return new byte[1_000];
    }

    /** The sequence numbers of all pushes that may be sent now. */
    private static List<Integer> sent(Book book) throws MalformedException {
        List<Integer> sent = new ArrayList<>();
        for (Frame frame = book.poll(); frame != null; frame = book.poll()) {
            assertEquals(Frame.PUSH, frame.kind);
            sent.add(Messages.Word.read(frame).push());
        }
        return sent;
    }

    private void fill(long request, int pieces) throws OverException {
        for (int piece = 1; piece <= pieces; piece++) {
            book.push(request, piece(), piece == pieces);
        }
    }

    private static void assertFailure(Frame frame, long request) throws MalformedException {
        assertEquals(Frame.PUSH_FAILED, frame.kind);
        MessageReader reader = new MessageReader(frame.header);
        assertTrue(reader.next());
        assertEquals(request, reader.number());
    }

    @Test
    void window_bounds_pushes_and_keeps_half_for_open_requests() throws Exception {
        fill(7, 6);
        assertEquals(List.of(1, 2), sent(book), "no node has asked for it yet");
        book.wanted(7, 2, false);
        assertEquals(List.of(3, 4), sent(book));
        book.taken(7, 3);
        assertEquals(List.of(5, 6), sent(book));
        book.ended(7);
        assertTrue(book.isEmpty());
        assertThrows(OverException.class, () -> book.push(7, piece(), true));
        fill(8, 6);
        assertEquals(List.of(1, 2), sent(book), "nothing of the ended request is in flight");
    }

    @Test
    void after_a_loss_only_requested_pushes_are_sent_again() throws Exception {
        fill(7, 3);
        fill(8, 1);
        book.wanted(7, 0, false);
        assertEquals(List.of(1, 2, 3), sent(book));
        book.attached(0, WINDOW);
        fill(9, 1);
        assertEquals(List.of(1, 1), sent(book), "of requests of which no node has received anything");
        book.wanted(7, 2, true);
        assertEquals(List.of(3), sent(book));
    }

    @Test
    void failure_is_repeated_until_its_request_has_ended() throws Exception {
        book.push(7, piece(), false);
        book.fail(7, "no disk");
        assertFailure(book.poll(), 7);
        assertEquals(null, book.poll());
        book.attached(0, WINDOW);
        assertFailure(book.poll(), 7);
        book.wanted(7, 0, false);
        assertFailure(book.poll(), 7);
        assertFalse(book.isEmpty());
        book.ended(7);
        assertTrue(book.isEmpty());
    }

    @Test
    void unrequested_pushes_expire_and_an_unfinished_request_ends() throws Exception {
        book.push(7, piece(), false);
        book.push(8, piece(), true);
        assertEquals(List.of(1, 1), sent(book));
        book.attached(5, WINDOW);
        book.expire(4 + Book.HOLD_NANOS);
        assertFalse(book.isEmpty());
        book.expire(5 + Book.HOLD_NANOS);
        assertTrue(book.isEmpty());
        assertThrows(OverException.class, () -> book.push(7, piece(), true), "the first would be missing");
        book.wanted(7, 0, false);
        assertFailure(book.poll(), 7);
    }

    @Test
    void folded_pushes_make_room_and_cannot_be_sent_again() throws Exception {
        Book small = new Book(3 * 1_256);
        small.attached(0, 1 << 20);
        for (int piece = 0; piece < 3; piece++) {
            small.push(7, piece(), false);
        }
        assertFalse(small.hasRoom(7));
        sent(small);
        small.taken(7, 2);
        assertTrue(small.hasRoom(7));
        small.attached(0, 1 << 20);
        small.wanted(7, 0, true);
        assertFailure(small.poll(), 7);
        small.ended(7);
        assertTrue(small.isEmpty());
        assertTrue(small.hasRoom(7));
    }

    @Test
    void requests_of_a_lost_node_without_pushes_are_forgotten() {
        book.wanted(7, 0, false);
        assertFalse(book.isEmpty(), "the node waits for it");
        book.attached(0, WINDOW);
        assertTrue(book.isEmpty());
    }

    @Test
    void open_requests_do_not_wait_for_other_requests() throws Exception {
        book.push(6, new byte[20_000], true);
        assertEquals(List.of(1), sent(book), "larger than the window, and alone");
        fill(7, 3);
        assertEquals(List.of(), sent(book));
        book.wanted(7, 0, false);
        assertEquals(List.of(1), sent(book), "one at a time");
        book.taken(7, 1);
        assertEquals(List.of(2), sent(book));
    }

    @Test
    void restarted_worker_continues_where_the_node_says() throws Exception {
        book.wanted(7, 2, true);
        fill(7, 3);
        assertEquals(List.of(3), sent(book));
    }

    @Test
    void requests_that_a_node_names_are_bounded() {
        for (int request = 0; request < 2 * Book.REQUESTS_MAX; request++) {
            book.wanted(request, 0, false);
        }
        int ended = 0;
        while (!book.isEmpty()) {
            book.ended(ended++);
        }
        assertEquals(Book.REQUESTS_MAX, ended);
    }

    @Test
    void requests_with_pushes_are_bounded() throws Exception {
        Book large = new Book(1 << 30);
        large.attached(0, WINDOW);
        for (int request = 0; request < Book.REQUESTS_MAX; request++) {
            assertTrue(large.hasRoom(request));
            large.push(request, piece(), false);
        }
        assertFalse(large.hasRoom(Book.REQUESTS_MAX), "it must wait until a request has ended");
        assertTrue(large.hasRoom(5), "a request that is kept has room");
        large.ended(5);
        assertTrue(large.hasRoom(Book.REQUESTS_MAX));
    }

    @Test
    void failures_are_bounded_and_the_oldest_is_forgotten() throws Exception {
        for (int request = 0; request < Book.REQUESTS_MAX + 10; request++) {
            book.fail(request, "no disk");
        }
        assertTrue(book.keptBytes() <= Book.REQUESTS_MAX * (Book.PUSH_BYTES + 7L), "of " + book.keptBytes() + " bytes");
        book.attached(1, WINDOW);
        assertFailure(book.poll(), 10);
    }

    @Test
    void failures_for_a_node_that_only_asks_are_bounded() throws Exception {
        book.fail(7, "no disk");
        for (int time = 0; time < 2 * Book.REQUESTS_MAX; time++) {
            book.wanted(7, 0, false);
        }
        int sent = 0;
        while (book.poll() != null) {
            sent++;
        }
        assertEquals(Book.REQUESTS_MAX, sent);
    }

    @Test
    void many_pushes_of_one_request_are_found_in_order() throws Exception {
        Book large = new Book(1 << 30);
        large.attached(0, 1 << 30);
        large.wanted(1, 0, false);
        for (int round = 0; round < 20; round++) {
            for (int piece = 0; piece < 1_000; piece++) {
                large.push(1, new byte[] {(byte) piece}, false);
            }
            for (int piece = 0; piece < 1_000; piece++) {
                Frame frame = large.poll();
                assertEquals(1_000 * round + piece + 1, Messages.Word.read(frame).push());
                assertEquals((byte) piece, frame.payload[0]);
            }
            large.taken(1, 1_000 * (round + 1));
        }
    }

    @Test
    void books_balance_under_random_messages() throws Exception {
        for (int seed = 0; seed < 300; seed++) {
            Random random = new Random(seed);
            Book shaken = new Book(20_000);
            long now = 0;
            shaken.attached(now, 4_000);
            for (int step = 0; step < 400; step++) {
                long request = random.nextInt(5);
                int number = random.nextInt(10) == 0 ? random.nextInt() & Integer.MAX_VALUE : random.nextInt(8);
                now += random.nextInt(10) == 0 ? Book.HOLD_NANOS / 3 : 1;
                switch (random.nextInt(9)) {
                    case 0, 1, 2 -> {
                        if (shaken.hasRoom(request)) {
                            push(shaken, request, random);
                        }
                    }
                    case 3 -> shaken.wanted(request, number, random.nextBoolean());
                    case 4 -> shaken.taken(request, number);
                    case 5 -> shaken.expire(now);
                    case 6 -> shaken.attached(now, random.nextInt(6_000));
                    case 7 -> {
                        if (random.nextInt(4) == 0) {
                            shaken.ended(request);
                        } else if (random.nextInt(8) == 0) {
                            shaken.fail(request, "no disk");
                        }
                    }
                    default -> {
                        for (Frame frame = shaken.poll(); frame != null; frame = shaken.poll()) {
                            assertTrue(frame.kind == Frame.PUSH || frame.kind == Frame.PUSH_FAILED);
                        }
                    }
                }
                String where = "seed " + seed + ", step " + step;
                assertTrue(shaken.inFlight() >= 0 && shaken.inFlight() <= shaken.keptBytes(), where);
            }
            for (int request = 0; request < 5; request++) {
                shaken.ended(request);
            }
            while (shaken.poll() != null) {
                // The remaining messages.
            }
            assertEquals(0, shaken.inFlight(), "seed " + seed);
            assertEquals(0, shaken.keptBytes(), "seed " + seed);
            assertTrue(shaken.isEmpty(), "seed " + seed);
        }
    }

    private static void push(Book book, long request, Random random) {
        try {
            book.push(request, new byte[random.nextInt(3_000)], random.nextInt(6) == 0);
        } catch (OverException over) {
            // Nothing changes.
        }
    }
}
