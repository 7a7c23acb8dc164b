package treefold.solr;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import treefold.push.Treefold;

/** The programs as processes: their arguments, their exit codes, and a query that fails. */
@Timeout(120)
final class MainTest {
    private static Process start(String... args) throws IOException {
        String java = System.getProperty("java.home") + "/bin/java";
        List<String> line =
                new ArrayList<>(List.of(java, "-cp", System.getProperty("java.class.path"), "treefold.solr.Main"));
        line.addAll(List.of(args));
        return new ProcessBuilder(line).redirectErrorStream(true).start();
    }

    private static String portOf(Process process) throws IOException {
        BufferedReader out = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        for (String said = out.readLine(); said != null; said = out.readLine()) {
            if (said.startsWith("listening on ")) {
                return said.substring("listening on ".length());
            }
        }
        throw new IOException("it has ended");
    }

    private static void assertExit(int code, String text, String... args) throws Exception {
        Process process = start(args);
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(code, process.waitFor(), said);
        assertTrue(said.contains(text), said);
    }

    @Test
    void wrong_arguments_exit_with_2_and_an_outage_with_5() throws Exception {
        assertExit(2, "expected agent or stand");
        assertExit(2, "--relays is missing", "stand", "--listen", "127.0.0.1:0");
        assertExit(2, "is no option", "stand", "--lisen", "127.0.0.1:0");
        assertExit(2, "expected SHARD=AGENT", "stand", "--listen", "127.0.0.1:0", "--relays", "127.0.0.1:1", "--shards", "a");
        assertExit(5, "can't connect to 127.0.0.1:1",
                "stand", "--listen", "127.0.0.1:0", "--relays", "127.0.0.1:1", "--shards", "a:1/solr/c=b:2");
    }

    @Test
    void shard_without_a_process_is_an_error_with_its_address() throws Exception {
        try (Treefold relay = Treefold.node("--relay", "--accept", "solr")) {
            String shard = "127.0.0.1:1/solr/docs";
            Process agent = start(
                    "agent", "--listen", "127.0.0.1:0", "--shard", shard, "--number", "0", "--relays", relay.address());
            Process stand = start("stand", "--listen", "127.0.0.1:0", "--relays", relay.address(), "--deadline", "5",
                    "--shards", shard + "=127.0.0.1:" + portOf(agent));
            try {
                String body = "q=*:*&fl=id&fl=score&shards.purpose=16388&rows=10&fsv=true";
                URI select = URI.create("http://127.0.0.1:" + portOf(stand) + "/solr/docs/select");
                HttpRequest request = HttpRequest.newBuilder(select)
                        .header("Content-Type", "application/x-www-form-urlencoded")
                        .POST(HttpRequest.BodyPublishers.ofString(body)).build();
                HttpResponse<byte[]> response =
                        HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofByteArray());
                assertEquals(500, response.statusCode());
                String message = Javabin.message(Javabin.read(response.body()), 500);
                assertTrue(message.contains(shard + " does not answer"), message);
            } finally {
                agent.destroyForcibly();
                stand.destroyForcibly();
            }
        }
    }
}
