package treefold.hadoop;

import java.io.IOException;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.http.HttpRequest;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import javax.crypto.SecretKey;
import org.apache.hadoop.mapreduce.security.SecureShuffleUtils;

/** A reducer's requests to the agents of the nodes with its map outputs. */
final class Orders {
    private final Settings settings;
    private final Questions questions;
    private final SecretKey secret;
    /** The attempts of maps at each node, by the address of its ShuffleHandler. */
    private final TreeMap<String, List<String>> attempts;

    Orders(Settings settings, Questions questions, SecretKey secret, TreeMap<String, List<String>> attempts) throws Plain {
        this.settings = settings;
        this.questions = questions;
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
     * The workers of all nodes with map outputs, by the address of the ShuffleHandler.
     *
     * @throws Plain if an agent does not answer
     * @throws Wave.AgainException if two have one number; one of them draws another
     */
    TreeMap<String, Attached> workers() throws Plain, Wave.AgainException, InterruptedException {
        Map<String, HttpRequest> requests = new TreeMap<>();
        for (String handler : attempts.keySet()) {
            requests.put(handler, request(handler, "/worker").GET().build());
        }
        TreeMap<String, Attached> workers = new TreeMap<>();
        Set<Integer> numbers = new HashSet<>();
        for (Map.Entry<String, String> answer : questions.ask("agent", requests, 200).entrySet()) {
            Attached worker = Attached.read(answer.getValue()).orElseThrow(() ->
                    new Plain("the agent of " + answer.getKey() + " answers \"" + answer.getValue() + "\""));
            if (!numbers.add(worker.number)) {
                throw new Wave.AgainException("two agents have the number " + worker.number);
            }
            workers.put(answer.getKey(), worker);
        }
        return workers;
    }

    /**
     * A worker that is attached to a relay.
     *
     * @param relay the relay's address; empty if it is attached to none now
     */
    record Attached(int number, String relay) {
        /** Reads {@link Membership.Member#text}. */
        static Optional<Attached> read(String text) {
            String[] parts = text.split(" ", 2);
            try {
                return Optional.of(new Attached(Integer.parseInt(parts[0]), parts.length == 2 ? parts[1] : ""));
            } catch (NumberFormatException error) {
                return Optional.empty();
            }
        }
    }

    /**
     * Orders the map outputs of all nodes.
     *
     * @param like what all orders have in common; maps, requests and places are not used
     * @param requests the first slice's push request of each node, by the address of the ShuffleHandler
     * @throws Plain if an agent refuses
     */
    void order(Order like, Map<String, Long> requests) throws Plain, InterruptedException {
        Map<String, HttpRequest> orders = new TreeMap<>();
        for (Map.Entry<String, List<String>> node : attempts.entrySet()) {
            String body = body(like, node.getKey(), node.getValue(), requests.get(node.getKey()));
            HttpRequest.BodyPublisher publisher = HttpRequest.BodyPublishers.ofString(body);
            orders.put(node.getKey(), request(node.getKey(), "/orders").POST(publisher).build());
        }
        questions.ask("agent", orders, 202);
    }

    /** The signed parts of the order to a node. */
    private String body(Order like, String handler, List<String> maps, long request) throws Plain {
        int parts = (maps.size() + Order.MAPS_MAX - 1) / Order.MAPS_MAX;
        StringBuilder body = new StringBuilder();
        for (int part = 0; part < parts; part++) {
            int from = part * Order.MAPS_MAX;
            List<String> some = maps.subList(from, Math.min(from + Order.MAPS_MAX, maps.size()));
            String path = like.with(some, request, part, parts).path();
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
        return Questions.to(settings.agentOf(handler), path);
    }
}
