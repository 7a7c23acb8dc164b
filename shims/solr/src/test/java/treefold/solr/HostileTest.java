package treefold.solr;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import org.apache.solr.common.SolrDocument;
import org.apache.solr.common.SolrDocumentList;
import org.apache.solr.common.util.NamedList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import treefold.push.Master;
import treefold.push.Treefold;
import treefold.push.Worker;

/** Peers that send what would exhaust the stack or the memory get an error, and everything else goes on. */
@Timeout(120)
final class HostileTest {
    private static byte[] javabin(int... bytes) {
        byte[] whole = new byte[bytes.length + 1];
        whole[0] = 2;
        for (int at = 0; at < bytes.length; at++) {
            whole[at + 1] = (byte) bytes[at];
        }
        return whole;
    }

    private static byte[] nested(int tag, int depth) {
        byte[] bytes = new byte[depth];
        Arrays.fill(bytes, (byte) tag);
        bytes[0] = 2;
        return bytes;
    }

    private static void assertRefused(String why, byte[] bytes) {
        IOException error = assertThrows(IOException.class, () -> Javabin.readAny(bytes));
        assertTrue(error.getMessage().contains(why), error.getMessage());
    }

    @Test
    void javabin_that_is_nested_deeply_is_refused_before_it_is_decoded() throws Exception {
        // A list of one value, a map iterator, and a document list.
        for (int tag : new int[] {0x81, 17, 12, 14, 19}) {
            assertRefused("nested deeper", nested(tag, 1_000_000));
        }
        Object value = 1;
        for (int depth = 0; depth < JavabinCheck.NESTING_MAX; depth++) {
            value = List.of(value);
        }
        assertEquals(value, Javabin.readAny(Javabin.write(value)), "as deep as allowed");
        assertRefused("nested deeper", Javabin.write(List.of(value)));
    }

    @Test
    void javabin_with_lengths_that_exceed_its_bytes_is_refused_before_memory_is_taken() {
        int[] huge = {0xE0, 0xFF, 0xFF, 0xFF, 0x07};
        for (int tag : new int[] {0x3F, 0x9F, 0xBF, 0xDF, 10, 13}) {
            assertRefused("bytes remain", javabin(tag, huge[0], huge[1], huge[2], huge[3], huge[4]));
            assertRefused("more than 5 bytes", javabin(tag, 255, 255, 255, 255, 255, 255, 1));
        }
        // A document with so many fields, and a negative length.
        assertRefused("bytes remain", javabin(11, 0x9F, 0xFF, 0xFF, 0xFF, 0xFF, 0x07));
        assertRefused("bytes remain", javabin(13, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F));
    }

    @Test
    void javabin_with_too_many_values_is_refused() {
        byte[] many = new byte[JavabinCheck.VALUES_MAX + 16];
        Arrays.fill(many, (byte) 0x80);
        many[0] = 2;
        many[1] = 14;
        assertRefused("more than " + JavabinCheck.VALUES_MAX + " values", many);
    }

    private static NamedList<Object> reply() {
        SolrDocumentList documents = new SolrDocumentList();
        documents.setNumFound(1);
        SolrDocument document = new SolrDocument();
        document.setField("id", "é".repeat(40));
        document.setField("many", List.of(1, 2L, 3f, 4d, "x", true, new java.util.Date(5)));
        SolrDocument child = new SolrDocument();
        child.setField("bytes", new byte[7]);
        document.addChildDocument(child);
        documents.add(document);
        NamedList<Object> reply = new NamedList<>();
        reply.add("response", documents);
        reply.add("map", new HashMap<>(Map.of("a", Map.of("b", (short) 1))));
        reply.add("iterator", List.of(1).iterator());
        return reply;
    }

    @Test
    void javabin_that_is_changed_at_random_is_read_or_refused() throws Exception {
        byte[] whole = Javabin.write(reply());
        assertEquals(1, ((SolrDocumentList) Javabin.read(whole).get("response")).getNumFound());
        long seed = Long.getLong("treefold.solr.seed", 20261126L);
        Random random = new Random(seed);
        for (int round = 0; round < 200_000; round++) {
            byte[] wrong = Arrays.copyOf(whole, random.nextInt(8) == 0 ? random.nextInt(whole.length) : whole.length);
            for (int change = random.nextInt(4); change >= 0 && wrong.length > 0; change--) {
                wrong[random.nextInt(wrong.length)] = (byte) random.nextInt();
            }
            try {
                Javabin.readAny(wrong);
            } catch (IOException expected) {
                // Nothing else may come of it.
            }
        }
    }

    @Test
    void brackets_of_json_facet_that_are_nested_deeply_are_refused() {
        Form form = new Form();
        form.set("json.facet", "{a:".repeat(200_000));
        Failure failure = assertThrows(Failure.class, () -> JsonFacets.read(form));
        assertEquals(Reason.JSON_FACET, failure.reason());
    }

    @Test
    void owners_are_forgotten_when_their_keys_need_too_much_room() {
        Owners owners = new Owners();
        String key = "k".repeat(1 << 20);
        owners.note("first", Map.of(key, 1));
        assertEquals(1, owners.of("first", key));
        for (int query = 0; query < Owners.LETTERS_MAX >> 20; query++) {
            owners.note("q" + query, Map.of(key, 2));
        }
        assertNull(owners.of("first", key));
        assertNull(owners.of("q0", key));
        assertEquals(2, owners.of("q9", key));
        owners.note("q9", Map.of("k".repeat(Owners.LETTERS_MAX), 3));
        assertNull(owners.of("q9", key), "a query that is too large is not remembered");
        assertEquals(2, owners.of("q8", key));
        for (int query = 0; query <= Owners.QUERIES_MAX; query++) {
            owners.note("small" + query, Map.of("k", 4));
        }
        assertNull(owners.of("small0", "k"));
        assertNull(owners.of("q8", key));
    }

    @Test
    void server_closes_connections_for_which_it_has_no_room() throws Exception {
        CountDownLatch end = new CountDownLatch(1);
        Http.Serving stuck = (method, path, query, body) -> {
            try {
                end.await();
            } catch (InterruptedException closed) {
                Thread.currentThread().interrupt();
            }
            return new Http.Answer(200, "text/plain", new byte[0]);
        };
        List<Socket> sockets = new ArrayList<>();
        InetSocketAddress any = new InetSocketAddress("127.0.0.1", 0);
        try (Http http = new Http(any, stuck, new Http.Limits(16, 8, 400))) {
            for (int count = 0; count < 200; count++) {
                Socket socket = new Socket("127.0.0.1", http.port());
                socket.setSoTimeout(2_000);
                socket.getOutputStream().write("GET / HTTP/1.1\r\nHost: a\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
                sockets.add(socket);
            }
            assertTrue(sockets.stream().anyMatch(HostileTest::isClosed), "all wait");
            end.countDown();
        } finally {
            for (Socket socket : sockets) {
                socket.close();
            }
        }
    }

    private static boolean isClosed(Socket socket) {
        try {
            return socket.getInputStream().read() < 0;
        } catch (SocketTimeoutException waits) {
            return false;
        } catch (IOException reset) {
            return true;
        }
    }

    /** Serves one body for each path, in pieces or with its length. */
    private static HttpServer shard(Map<String, byte[]> bodies, boolean isInPieces) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.setExecutor(Executors.newCachedThreadPool(run -> {
            Thread thread = new Thread(run);
            thread.setDaemon(true);
            return thread;
        }));
        bodies.forEach((path, body) -> server.createContext(path, exchange -> {
            exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(200, isInPieces ? 0 : body.length);
            try (OutputStream out = exchange.getResponseBody()) {
                out.write(body);
            }
        }));
        server.start();
        return server;
    }

    @Test
    void reply_that_is_too_long_is_refused_with_and_without_its_length() throws Exception {
        for (boolean isInPieces : new boolean[] {true, false}) {
            HttpServer server = shard(Map.of("/long", new byte[5_000], "/fits", new byte[4_096]), isInPieces);
            try {
                String address = "127.0.0.1:" + server.getAddress().getPort();
                Duration wait = Duration.ofSeconds(10);
                assertEquals(4_096, Shard.post(address + "/fits", new Form(), wait, 4_096).get().body().length);
                Exception error =
                        assertThrows(Exception.class, () -> Shard.post(address + "/long", new Form(), wait, 4_096).get());
                Failure failure = Shard.failure(address, error.getCause());
                assertEquals(502, failure.code());
                assertEquals(Reason.SHARD_REPLY, failure.reason());
                assertTrue(failure.getMessage().contains("more than 4096 bytes"), failure.getMessage());
            } finally {
                server.stop(0);
            }
        }
    }

    @Test
    void shard_that_sends_hostile_javabin_is_an_error_at_once_and_the_agent_lives() throws Exception {
        byte[] deep = nested(0x81, 4 << 20);
        byte[] endless = new byte[Shard.REPLY_BYTES_MAX + 1];
        HttpServer server = shard(Map.of("/deep/select", deep, "/endless/select", endless,
                "/good/select", Javabin.write(reply())), true);
        String host = "127.0.0.1:" + server.getAddress().getPort();
        InetSocketAddress any = new InetSocketAddress("127.0.0.1", 0);
        try (Treefold relay = Treefold.node("--relay", "--accept", "solr")) {
            for (String[] each : new String[][] {{"/deep", "nested deeper"}, {"/endless", "more than"}, {"/good", ""}}) {
                Agent agent = new Agent(any, host + each[0], 0, Worker.builder("solr", 0).at(relay.address()));
                Stand.Settings settings = new Stand.Settings("solr", "id",
                        Map.of(host + each[0], "127.0.0.1:" + agent.port()), Duration.ofSeconds(100));
                try (agent; Stand stand = new Stand(any, settings, Master.connect(relay.address()))) {
                    for (int round = 0; round < 3; round++) {
                        HttpResponse<byte[]> answer = post(stand.port(), "/solr/docs/select",
                                "q=*:*&fl=id&shards.purpose=16388&rows=10&sort=n+asc");
                        String message = Javabin.message(Javabin.read(answer.body()), answer.statusCode());
                        assertTrue(message.contains(each[1]), message);
                    }
                    String counters = new String(get(stand.port(), "/treefold/counters"), StandardCharsets.UTF_8);
                    assertTrue(counters.contains("failed: error of a shard\t3\n"), counters);
                }
            }
        } finally {
            server.stop(0);
        }
    }

    @Test
    void counters_have_no_text_of_requests() throws Exception {
        InetSocketAddress any = new InetSocketAddress("127.0.0.1", 0);
        try (Treefold relay = Treefold.node("--relay", "--accept", "solr")) {
            Stand.Settings settings =
                    new Stand.Settings("solr", "id", Map.of("127.0.0.1:1/solr/docs", "127.0.0.1:2"), Duration.ofSeconds(1));
            try (Stand stand = new Stand(any, settings, Master.connect(relay.address()))) {
                for (int count = 0; count < 200; count++) {
                    post(stand.port(), "/solr/docs/select", "shards.purpose=4&sort=secret" + count + "+up");
                    post(stand.port(), "/solr/docs/select", "shards.purpose=4&rows=secret" + count);
                    post(stand.port(), "/secret" + count, "");
                    post(stand.port(), "/solr/docs/select", "shards.purpose=" + (1 << 30 | count));
                }
                String counters = new String(get(stand.port(), "/treefold/counters"), StandardCharsets.UTF_8);
                assertEquals("failed: path\t200\nrefused: malformed request\t200\nrefused: purpose\t200\nrefused: sort\t200\n",
                        counters);
            }
        }
    }

    private static HttpResponse<byte[]> post(int port, String path, String body) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
                .header("Content-Type", "application/x-www-form-urlencoded")
                .POST(HttpRequest.BodyPublishers.ofString(body)).build();
        return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofByteArray());
    }

    private static byte[] get(int port, String path) throws Exception {
        try (InputStream in = URI.create("http://127.0.0.1:" + port + path).toURL().openStream()) {
            return in.readAllBytes();
        }
    }
}
