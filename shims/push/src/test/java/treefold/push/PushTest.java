package treefold.push;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Workers and masters in Java, with real relays. */
@Timeout(120)
final class PushTest {
    private static final Duration LONG = Duration.ofSeconds(30);

    private final List<Treefold> nodes = new ArrayList<>();
    private final List<AutoCloseable> clients = new ArrayList<>();

    @AfterEach
    void end() throws Exception {
        for (AutoCloseable client : clients) {
            client.close();
        }
        Treefold.killAll(nodes);
    }

    private void relays(int count) throws Exception {
        nodes.addAll(Treefold.relays(count, "words"));
    }

    private Worker worker(int number, String... at) throws Exception {
        Worker worker = Worker.builder("words", number).at(at).attach();
        clients.add(worker);
        return worker;
    }

    private Master master(String... at) throws Exception {
        Master master = Master.connect(at);
        clients.add(master);
        return master;
    }

    private String at(int node) {
        return nodes.get(node).address();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(UTF_8);
    }

    @Test
    void pieces_of_many_workers_become_one_result() throws Exception {
        relays(3);
        int workers = 12;
        int pieces = 20;
        CompletableFuture<Reply> asked = master(at(0)).announce("words/sum-lines", 7, WorkerSet.range(0, workers))
                .deadline(LONG).patience(LONG).send();
        for (int number = 0; number < workers; number++) {
            Worker worker = Worker.builder("words", number).at(at(0), at(1), at(2)).spread().attach();
            clients.add(worker);
            assertEquals(at(number % 3), worker.attachedTo());
            for (int piece = 0; piece < pieces; piece++) {
                worker.push(7, bytes(String.format("all\t1\nkey%02d\t%d\n", piece, number)));
            }
            worker.pushLast(7, new byte[0]);
        }
        Reply reply = asked.get(30, TimeUnit.SECONDS);
        StringBuilder expected = new StringBuilder("all\t" + workers * pieces + "\n");
        for (int piece = 0; piece < pieces; piece++) {
            expected.append(String.format("key%02d\t%d\n", piece, workers * (workers - 1) / 2));
        }
        assertEquals(expected.toString(), new String(reply.requireValue(), UTF_8));
        assertEquals(Reply.Status.FULL, reply.status());
        assertEquals(WorkerSet.range(0, workers), reply.contributed());
        assertEquals(1, reply.coverage());
        for (AutoCloseable client : clients) {
            if (client instanceof Worker worker) {
                worker.idle();
                assertThrows(OverException.class, () -> worker.push(7, new byte[0]));
            }
        }
    }

    @Test
    void pushes_may_come_before_the_announcement() throws Exception {
        relays(1);
        Worker worker = worker(3, at(0));
        worker.push(9, bytes("b\t2\n"));
        worker.pushLast(9, bytes("a\t2\n"));
        Treefold.until("the relay has them", () -> nodes.get(0).status().contains("\"pushes\":2"));
        Reply reply = master(at(0)).announce("words/sum-lines", 9, WorkerSet.of(3)).await();
        assertEquals("a\t2\nb\t2\n", new String(reply.requireValue(), UTF_8));
    }

    @Test
    void worker_goes_on_at_another_relay_when_its_relay_is_killed() throws Exception {
        relays(3);
        Worker first = worker(0, at(1), at(2));
        Worker second = worker(1, at(1), at(2));
        CompletableFuture<Reply> asked =
                master(at(0)).announce("words/sum-lines", 9, WorkerSet.range(0, 2)).deadline(LONG).patience(LONG).send();
        for (int piece = 0; piece < 100; piece++) {
            first.push(9, bytes("a\t1\n"));
        }
        Treefold.until("the relay has folded some of them", () -> {
            String status = nodes.get(1).status();
            return status.contains("\"pushes\":100") && !status.contains("\"waves\":0,");
        });
        nodes.get(1).kill();
        Treefold.until("workers attach elsewhere",
                () -> at(2).equals(first.attachedTo()) && at(2).equals(second.attachedTo()));
        first.pushLast(9, bytes("b\t1\n"));
        second.pushLast(9, bytes("a\t10\n"));
        Reply reply = asked.get(30, TimeUnit.SECONDS);
        assertEquals("a\t110\nb\t1\n", new String(reply.requireValue(), UTF_8));
        first.idle();
        second.idle();
    }

    @Test
    void worker_and_master_leave_a_relay_that_is_stopped() throws Exception {
        relays(3);
        Worker worker = worker(0, at(1), at(2));
        Master master = master(at(0), at(2));
        worker.push(9, bytes("a\t1\n"));
        nodes.get(1).stop();
        worker.pushLast(9, bytes("b\t1\n"));
        Treefold.until("the worker attaches elsewhere", () -> at(2).equals(worker.attachedTo()));
        Reply reply = master.announce("words/sum-lines", 9, WorkerSet.of(0)).deadline(LONG).patience(LONG).await();
        assertEquals("a\t1\nb\t1\n", new String(reply.requireValue(), UTF_8));
        nodes.get(0).stop();
        assertThrows(UnreachableException.class,
                () -> master.announce("words/sum-lines", 10, WorkerSet.of(0)).deadline(LONG).await());
        worker.pushLast(11, bytes("c\t1\n"));
        reply = master.announce("words/sum-lines", 11, WorkerSet.of(0)).deadline(LONG).patience(LONG).await();
        assertEquals("c\t1\n", new String(reply.requireValue(), UTF_8));
    }

    @Test
    void no_piece_is_lost_or_counted_twice_when_a_relay_is_killed_while_workers_push() throws Exception {
        relays(3);
        int pieces = 3_000;
        CompletableFuture<Reply> asked =
                master(at(0)).announce("words/sum-lines", 11, WorkerSet.range(0, 4)).deadline(LONG).patience(LONG).send();
        List<Thread> pushing = new ArrayList<>();
        for (int number = 0; number < 4; number++) {
            Worker worker = worker(number, at(1), at(2));
            pushing.add(new Thread(() -> {
                try {
                    for (int piece = 0; piece < pieces; piece++) {
                        worker.push(11, bytes("a\t1\n"));
                        Thread.sleep(piece % 10 == 0 ? 1 : 0);
                    }
                    worker.pushLast(11, bytes("b\t1\n"));
                } catch (PushException | InterruptedException error) {
                    asked.completeExceptionally(error);
                }
            }));
        }
        pushing.forEach(Thread::start);
        Treefold.until("pushes arrive", () -> nodes.get(1).status().matches(".*\"pushes\":[0-9]{4,}.*"));
        nodes.get(1).kill();
        Reply reply = asked.get(30, TimeUnit.SECONDS);
        assertEquals("a\t" + 4 * pieces + "\nb\t4\n", new String(reply.requireValue(), UTF_8));
    }

    @Test
    void fast_worker_waits_for_its_window(@TempDir Path folder) throws Exception {
        Path config = Files.writeString(folder.resolve("node.toml"), "[limits]\npush_window_bytes = 16384\n");
        nodes.add(Treefold.node("--relay", "--accept", "words", "--config", config.toString()));
        Worker worker = Worker.builder("words", 0).at(at(0)).keptBytesMax(40_000).attach();
        clients.add(worker);
        AtomicInteger pushed = new AtomicInteger();
        CountDownLatch done = new CountDownLatch(1);
        int pieces = 200;
        Thread fast = new Thread(() -> {
            try {
                for (int piece = 1; piece <= pieces; piece++) {
                    worker.push(5, bytes("x".repeat(999) + "\t1\n"));
                    pushed.set(piece);
                }
                worker.pushLast(5, new byte[0]);
                done.countDown();
            } catch (PushException | InterruptedException error) {
                pushed.set(-1);
            }
        });
        fast.start();
        Treefold.until("it waits", () -> fast.getState() == Thread.State.WAITING);
        // Half of the window for a request that is not announced, and the rest is kept until the limit.
        assertTrue(pushed.get() >= 30 && pushed.get() < 40, "pushed " + pushed.get());
        String status = nodes.get(0).status();
        assertTrue(status.contains("\"pushes\":6,"), status);
        Reply reply = master(at(0)).announce("words/sum-lines", 5, WorkerSet.of(0)).deadline(LONG).await();
        assertTrue(done.await(10, TimeUnit.SECONDS), "pushed " + pushed.get());
        assertEquals("x".repeat(999) + "\t" + pieces + "\n", new String(reply.requireValue(), UTF_8));
    }

    @Test
    void failing_and_absent_workers_are_missing_with_their_reasons() throws Exception {
        relays(2);
        Worker good = worker(0, at(0));
        Worker failing = worker(1, at(1));
        good.pushLast(4, bytes("a\t1\n"));
        failing.push(4, bytes("a\t100\n"));
        failing.fail(4, "no disk");
        Reply reply = master(at(0)).announce("words/sum-lines", 4, WorkerSet.of(0, 1, 3)).deadline(LONG)
                .patience(Duration.ofMillis(200)).minCoverage(0.3).await();
        assertEquals("a\t1\n", new String(reply.requireValue(), UTF_8));
        assertEquals(Reply.Status.PARTIAL, reply.status());
        assertEquals(1.0 / 3, reply.coverage());
        assertEquals(WorkerSet.of(0), reply.contributed());
        assertMissing(reply, 1, Missing.Reason.LOCAL_FAILED, "no disk");
        assertMissing(reply, 3, Missing.Reason.NO_REPLICA, "");
        failing.idle();
        assertThrows(OverException.class, () -> failing.push(4, new byte[0]));

        Reply none = master(at(0)).announce("words/sum-lines", 5, WorkerSet.range(0, 4)).deadline(Duration.ofMillis(300)).await();
        assertEquals(Reply.Status.INSUFFICIENT, none.status());
        assertTrue(none.value().isEmpty());
        assertEquals(none, assertThrows(InsufficientException.class, none::requireValue).reply());
    }

    @Test
    void worker_with_a_push_out_of_order_is_missing() throws Exception {
        relays(1);
        worker(0, at(0)).pushLast(4, bytes("a\t1\n"));
        worker(1, at(0)).pushLast(4, bytes("b\t1\na\t1\n"));
        Reply reply = master(at(0)).announce("words/sum-lines", 4, WorkerSet.range(0, 2)).minCoverage(0).await();
        assertMissing(reply, 1, Missing.Reason.REDUCE_FAILED, "\"a\" comes after \"b\"");
    }

    private static void assertMissing(Reply reply, int worker, Missing.Reason reason, String detail) {
        Missing missing = reply.missing().stream().filter(each -> each.workers().contains(worker)).findFirst().orElseThrow();
        assertEquals(reason, missing.reason(), reply.missing().toString());
        assertTrue(missing.detail().contains(detail), reply.missing().toString());
    }

    @Test
    void unknown_application_is_refused_and_rejected() throws Exception {
        relays(1);
        RefusedException refused = assertThrows(RefusedException.class,
                () -> Worker.builder("hits", 0).at(at(0)).timeout(Duration.ofMillis(300)).attach());
        assertTrue(refused.getMessage().contains("words"), refused.getMessage());
        assertEquals(at(0), refused.address());
        Master master = master(at(0));
        RejectedException rejected = assertThrows(RejectedException.class,
                () -> master.announce("hits/sum", 1, WorkerSet.of(0)).await());
        assertEquals(RejectedException.Why.BAD_FIELD, rejected.why());
        assertTrue(rejected.getMessage().contains("accepts (words)"), rejected.getMessage());
        rejected = assertThrows(RejectedException.class,
                () -> master.announce("words/nonsense", 2, WorkerSet.of(0)).await());
        assertTrue(rejected.getMessage().contains("words/nonsense"), rejected.getMessage());
    }

    @Test
    void payload_may_be_as_long_as_the_limit_and_no_longer(@TempDir Path folder) throws Exception {
        int bytesMax = 1 << 20;
        Path config = Files.writeString(folder.resolve("node.toml"), "[limits]\npayload_bytes_max = " + bytesMax + "\n");
        nodes.add(Treefold.node("--relay", "--accept", "words", "--config", config.toString()));
        Cluster cluster = Cluster.plain().payloadBytesMax(bytesMax);
        Worker worker = Worker.builder("words", 0).at(at(0)).cluster(cluster).attach();
        clients.add(worker);
        byte[] longest = new byte[bytesMax];
        new java.util.Random(1).nextBytes(longest);
        TooLargeException error =
                assertThrows(TooLargeException.class, () -> worker.pushLast(3, new byte[bytesMax + 1]));
        assertEquals(bytesMax, error.bytesMax());
        assertEquals(bytesMax + 1, error.bytes());
        worker.pushLast(3, longest);
        Master master = Master.connect(cluster, at(0));
        clients.add(master);
        // The reply comes in chunks.
        Reply reply = master.announce("words/append", 3, WorkerSet.of(0)).deadline(LONG).await();
        assertArrayEquals(longest, reply.requireValue());
        assertThrows(TooLargeException.class,
                () -> master.announce("words/append", 4, WorkerSet.of(0)).params(new byte[bytesMax + 1]).await());

        // A master with a lower limit says so, and its connection is made anew.
        Master small = Master.connect(Cluster.plain().payloadBytesMax(1_000), at(0));
        clients.add(small);
        worker.pushLast(5, longest);
        MalformedException above = assertThrows(MalformedException.class,
                () -> small.announce("words/append", 5, WorkerSet.of(0)).deadline(LONG).await());
        assertEquals("payload", above.field());
        worker.pushLast(6, new byte[10]);
        assertEquals(10, small.announce("words/append", 6, WorkerSet.of(0)).await().requireValue().length);
    }

    @Test
    void later_program_keeps_the_number_and_the_earlier_one_is_told() throws Exception {
        relays(1);
        Worker earlier = worker(0, at(0));
        earlier.push(1, bytes("a\t1\n"));
        Worker later = worker(0, at(0));
        Treefold.until("it is told", () -> earlier.attachedTo() == null);
        DetachedException error = assertThrows(DetachedException.class, () -> earlier.push(1, new byte[0]));
        assertTrue(error.getMessage().contains(at(0)), error.getMessage());
        assertThrows(DetachedException.class, earlier::idle);
        later.push(1, bytes("a\t1\n"));
        later.pushLast(1, bytes("b\t1\n"));
        Reply reply = master(at(0)).announce("words/sum-lines", 1, WorkerSet.of(0)).await();
        assertEquals("a\t1\nb\t1\n", new String(reply.requireValue(), UTF_8));
    }

    @Test
    void closed_workers_and_masters_say_so() throws Exception {
        relays(1);
        Worker worker = worker(0, at(0));
        worker.push(1, bytes("a\t1\n"));
        worker.close();
        assertThrows(DetachedException.class, () -> worker.push(1, new byte[0]));
        assertThrows(DetachedException.class, worker::idle);
        Master master = master(at(0));
        CompletableFuture<Reply> asked =
                master.announce("words/sum-lines", 1, WorkerSet.of(0)).deadline(LONG).patience(LONG).send();
        Treefold.until("the request is open", () -> !nodes.get(0).status().contains("\"calls\":0,"));
        master.close();
        assertTrue(asked.isCompletedExceptionally());
        Treefold.until("it is cancelled", () -> nodes.get(0).status().contains("\"calls\":0,"));
        assertThrows(DetachedException.class, () -> master.announce("words/sum-lines", 2, WorkerSet.of(0)).await());
    }

    @Test
    void cancelled_request_ends_at_the_node() throws Exception {
        relays(1);
        Master master = master(at(0));
        CompletableFuture<Reply> asked =
                master.announce("words/sum-lines", 1, WorkerSet.of(0)).deadline(LONG).patience(LONG).send();
        Treefold.until("the request is open", () -> !nodes.get(0).status().contains("\"calls\":0,"));
        assertTrue(asked.cancel(false));
        Treefold.until("it is cancelled", () -> nodes.get(0).status().contains("\"calls\":0,"));
    }

    @Test
    void master_connects_again_after_its_node_was_replaced() throws Exception {
        relays(2);
        Master master = master(at(0), at(1));
        CompletableFuture<Reply> asked =
                master.announce("words/sum-lines", 1, WorkerSet.of(0)).deadline(LONG).patience(LONG).send();
        Treefold.until("the request is open", () -> !nodes.get(0).status().contains("\"calls\":0,"));
        nodes.get(0).kill();
        Treefold.until("the request fails", asked::isDone);
        assertTrue(asked.isCompletedExceptionally());
        Worker worker = worker(0, at(1));
        worker.pushLast(2, bytes("a\t1\n"));
        Reply reply = master.announce("words/sum-lines", 2, WorkerSet.of(0)).deadline(LONG).await();
        assertEquals("a\t1\n", new String(reply.requireValue(), UTF_8));
    }

    @Test
    void interrupted_push_leaves_no_piece() throws Exception {
        relays(1);
        Worker worker = Worker.builder("words", 0).at(at(0)).keptBytesMax(1).attach();
        clients.add(worker);
        worker.push(1, bytes("a\t1\n"));
        Thread waiting = new Thread(() -> assertThrows(InterruptedException.class, () -> worker.push(1, bytes("b\t1\n"))));
        waiting.start();
        Treefold.until("it waits", () -> waiting.getState() == Thread.State.WAITING);
        waiting.interrupt();
        waiting.join();
        CompletableFuture<Reply> asked = master(at(0)).announce("words/sum-lines", 1, WorkerSet.of(0)).deadline(LONG).send();
        worker.pushLast(1, bytes("c\t1\n"));
        assertEquals("a\t1\nc\t1\n", new String(asked.get(30, TimeUnit.SECONDS).requireValue(), UTF_8));
        assertFalse(waiting.isAlive());
    }
}
