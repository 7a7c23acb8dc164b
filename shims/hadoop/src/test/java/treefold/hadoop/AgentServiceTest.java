package treefold.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;

/** The agent as a part of a NodeManager. */
final class AgentServiceTest {
    private static Configuration conf(int port) {
        Configuration conf = new Configuration();
        conf.set(AgentSettings.ADDRESS_KEY, "127.0.0.1:" + port);
        conf.set(Settings.RELAYS_KEY, "127.0.0.1:1");
        return conf;
    }

    private static int port(Configuration conf) throws IOException {
        try (AgentService service = new AgentService()) {
            service.init(conf);
            service.start();
            return service.getMetaData().getInt(0);
        }
    }

    @Test
    void agent_starts_before_its_relays_and_says_that_they_are_missing() throws Exception {
        try (AgentService service = new AgentService()) {
            service.init(conf(0));
            service.start();
            URI worker = URI.create("http://127.0.0.1:" + service.getMetaData().getInt(0) + "/worker");
            HttpResponse<String> answer = HttpClient.newHttpClient()
                    .send(HttpRequest.newBuilder(worker).build(), HttpResponse.BodyHandlers.ofString());
            assertEquals(503, answer.statusCode());
            assertTrue(answer.body().startsWith("no relay takes the agent in"), answer.body());
        }
    }

    @Test
    void node_manager_starts_without_an_agent_that_cannot_start() throws Exception {
        try (ServerSocket taken = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            assertEquals(0, port(conf(taken.getLocalPort())));
        }
        Configuration without = conf(0);
        without.unset(Settings.RELAYS_KEY);
        assertEquals(0, port(without));
        Configuration wrong = conf(0);
        wrong.setInt(AgentSettings.NUMBER_KEY, 1 << 20);
        assertThrows(IllegalArgumentException.class, () -> AgentSettings.of(wrong));
        assertEquals(0, port(wrong));
    }
}
