package treefold.hadoop;

import java.io.IOException;
import java.net.MalformedURLException;
import java.net.URI;
import java.net.URL;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import javax.crypto.SecretKey;
import org.apache.hadoop.mapreduce.security.SecureShuffleUtils;

/** A reducer's requests to the agents of the nodes with its map outputs. */
final class Orders {
    private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(3);
    private static final Duration ANSWER_TIMEOUT = Duration.ofSeconds(15);

    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(CONNECT_TIMEOUT).proxy(HttpClient.Builder.NO_PROXY).build();
    private final Settings settings;
    private final SecretKey secret;
    /** The attempts of maps at each node, by the address of its ShuffleHandler. */
    private final TreeMap<String, List<String>> attempts;

    Orders(Settings settings, SecretKey secret, TreeMap<String, List<String>> attempts) throws Plain {
        this.settings = settings;
        this.secret = secret;
        this.attempts = attempts;
        for (Map.Entry<String, List<String>> node : attempts.entrySet()) {
            int most = Order.PARTS_MAX * Order.MAPS_MAX;
            if (node.getValue().size() > most) {
                throw new Plain("the node " + node.getKey() + " has " + node.getValue().size() + " map outputs; an order has "
                        + most);
            }
        }
    }

    /** The number of map outputs. */
    int maps() {
        return attempts.values().stream().mapToInt(List::size).sum();
    }

    /**
     * The workers of all nodes with map outputs.
     *
     * @throws Plain if an agent does not answer
     * @throws Wave.AgainException if two have one number; one of them draws another
     */
    int[] workers() throws Plain, Wave.AgainException, InterruptedException {
        Map<String, HttpRequest> questions = new TreeMap<>();
        for (String handler : attempts.keySet()) {
            questions.put(handler, request(handler, "/worker").GET().build());
        }
        List<Integer> numbers = new ArrayList<>();
        for (Map.Entry<String, String> answer : send(questions, 200).entrySet()) {
            int number;
            try {
                number = Integer.parseInt(answer.getValue());
            } catch (NumberFormatException error) {
                throw new Plain("the agent of " + answer.getKey() + " answers \"" + answer.getValue() + "\"");
            }
            if (numbers.contains(number)) {
                throw new Wave.AgainException("two agents have the number " + number);
            }
            numbers.add(number);
        }
        return numbers.stream().mapToInt(Integer::intValue).toArray();
    }

    /**
     * Orders the map outputs of all nodes.
     *
     * @param like what all parts have in common; its maps and its place are not used
     * @throws Plain if an agent refuses
     */
    void order(Order like) throws Plain, InterruptedException {
        Map<String, HttpRequest> questions = new TreeMap<>();
        for (Map.Entry<String, List<String>> node : attempts.entrySet()) {
            String body = body(like, node.getKey(), node.getValue());
            HttpRequest.BodyPublisher publisher = HttpRequest.BodyPublishers.ofString(body);
            questions.put(node.getKey(), request(node.getKey(), "/orders").POST(publisher).build());
        }
        send(questions, 202);
    }

    /** The signed parts of the order to a node. */
    String body(Order like, String handler, List<String> maps) throws Plain {
        int parts = (maps.size() + Order.MAPS_MAX - 1) / Order.MAPS_MAX;
        StringBuilder body = new StringBuilder();
        for (int part = 0; part < parts; part++) {
            int from = part * Order.MAPS_MAX;
            List<String> some = maps.subList(from, Math.min(from + Order.MAPS_MAX, maps.size()));
            String path = new Order(like.job(), like.reduce(), some, like.request(), like.slices(), like.wanted(), like.fold(),
                    part, parts).path();
            body.append(signature(handler, path)).append(' ').append(path).append('\n');
        }
        return body.toString();
    }

    /** The signature of a request to a ShuffleHandler, as Hadoop's own reducers make it. */
    private String signature(String handler, String path) throws Plain {
        try {
            URL url = new URL("http://" + handler + path);
            return SecureShuffleUtils.hashFromString(SecureShuffleUtils.buildMsgFrom(url), secret);
        } catch (MalformedURLException error) {
            throw new Plain("the ShuffleHandler " + handler + " has no address", error);
        } catch (IOException error) {
            throw new Plain("the order can't be signed", error);
        }
    }

    private HttpRequest.Builder request(String handler, String path) throws Plain {
        String agent = settings.agentOf(handler);
        try {
            return HttpRequest.newBuilder(URI.create("http://" + agent + path)).timeout(ANSWER_TIMEOUT);
        } catch (IllegalArgumentException error) {
            throw new Plain("the agent " + agent + " has no address", error);
        }
    }

    /** Asks all nodes at a time. Returns the answers by node. */
    private Map<String, String> send(Map<String, HttpRequest> questions, int expected) throws Plain, InterruptedException {
        Map<String, CompletableFuture<HttpResponse<String>>> asked = new TreeMap<>();
        questions.forEach((handler, question) ->
                asked.put(handler, client.sendAsync(question, HttpResponse.BodyHandlers.ofString())));
        Map<String, String> answers = new TreeMap<>();
        for (Map.Entry<String, CompletableFuture<HttpResponse<String>>> each : asked.entrySet()) {
            String agent = settings.agentOf(each.getKey());
            HttpResponse<String> answer;
            try {
                answer = each.getValue().get();
            } catch (ExecutionException error) {
                throw new Plain("the agent " + agent + " does not answer", error.getCause());
            }
            if (answer.statusCode() != expected) {
                throw new Plain("the agent " + agent + " answers " + answer.statusCode() + ": " + answer.body());
            }
            answers.put(each.getKey(), answer.body());
        }
        return answers;
    }
}
