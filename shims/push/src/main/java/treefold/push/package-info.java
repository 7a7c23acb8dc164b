/**
 * Push waves from Java: workers push their results to a relay near them, relays fold the results on the way, and the master
 * gets one result.
 *
 * <pre>{@code
 *   // in the program of worker 0
 *   try (Worker worker = Worker.builder("words", 0).at("10.0.0.1:7700", "10.0.0.2:7700").attach()) {
 *       worker.push(7, "a\t2\n".getBytes(UTF_8));      // a part of its result; folded as it comes
 *       worker.pushLast(7, "c\t1\n".getBytes(UTF_8));  // with it, and not before, the worker has contributed
 *       worker.idle();                                 // every request has ended
 *   }
 *
 *   // in the program of the master
 *   try (Master master = Master.connect("10.0.0.1:7700")) {
 *       Reply reply = master.announce("words/sum-lines", 7, WorkerSet.range(0, 4))
 *               .deadline(Duration.ofSeconds(2)).minCoverage(0.75).await();
 *       byte[] lines = reply.requireValue();
 *       if (reply.coverage() < 1) {
 *           System.err.println("missing: " + reply.missing());
 *       }
 *   }
 * }</pre>
 *
 * <p>{@link treefold.push.Worker} and {@link treefold.push.Master} each have one thread, which owns the connection. The
 * worker's decisions (which push to send, to send again, to forget) are made in {@code Book}, which knows neither threads
 * nor sockets. docs/push.md describes push waves, and docs/protocol.md the bytes.
 *
 * <p>All errors of an operation are {@link treefold.push.PushException}s. An argument that is invalid by itself is an
 * {@link java.lang.IllegalArgumentException}.
 */
package treefold.push;
