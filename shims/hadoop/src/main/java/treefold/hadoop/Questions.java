package treefold.hadoop;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** A reducer's HTTP requests to agents and combiners. */
final class Questions {
    private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(3);
    private static final Duration ANSWER_TIMEOUT = Duration.ofSeconds(15);

    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(CONNECT_TIMEOUT).proxy(HttpClient.Builder.NO_PROXY).build();

    /** A request to {@code host:port}. */
    static HttpRequest.Builder to(String address, String path) throws Plain {
        try {
            return HttpRequest.newBuilder(URI.create("http://" + address + path)).timeout(ANSWER_TIMEOUT);
        } catch (IllegalArgumentException error) {
            throw new Plain("\"" + address + "\" is no address", error);
        }
    }

    /**
     * Sends all requests at a time. Returns the answers by the requests' keys.
     *
     * @param role the role of the processes that answer, for errors
     * @param expected the status of an answer
     * @throws Plain if a process does not answer, or with another status
     */
    Map<String, String> ask(String role, Map<String, HttpRequest> requests, int expected) throws Plain, InterruptedException {
        Map<String, String> answers = new TreeMap<>();
        Map<String, Plain> failures = new TreeMap<>();
        send(role, requests, expected, answers, failures);
        for (Plain failure : failures.values()) {
            throw failure;
        }
        return answers;
    }

    /** As {@link #ask}, but leaves out processes that do not answer as expected, and puts them into {@code failures}. */
    void send(String role, Map<String, HttpRequest> requests, int expected, Map<String, String> answers,
            Map<String, Plain> failures) throws InterruptedException {
        Map<String, CompletableFuture<HttpResponse<String>>> asked = new TreeMap<>();
        requests.forEach((key, request) ->
                asked.put(key, client.sendAsync(request, HttpResponse.BodyHandlers.ofString())));
        for (Map.Entry<String, CompletableFuture<HttpResponse<String>>> each : asked.entrySet()) {
            String process = "the " + role + " " + requests.get(each.getKey()).uri().getAuthority();
            try {
                HttpResponse<String> answer = each.getValue().get();
                if (answer.statusCode() == expected) {
                    answers.put(each.getKey(), answer.body());
                } else {
                    failures.put(each.getKey(), new Plain(process + " answers " + answer.statusCode() + ": " + answer.body()));
                }
            } catch (ExecutionException error) {
                failures.put(each.getKey(), new Plain(process + " does not answer", error.getCause()));
            }
        }
    }
}
