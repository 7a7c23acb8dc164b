package treefold.solr;

import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.apache.solr.common.util.NamedList;

/** Requests to a real shard over HTTP/1.1, and to an agent. */
final class Shard {
    private static final HttpClient CLIENT = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1).connectTimeout(Duration.ofSeconds(2)).build();

    private Shard() { }

    /** Sends a form to {@code host:port/path}. */
    static CompletableFuture<HttpResponse<byte[]>> post(String address, Form form, Duration timeout) {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + address)).timeout(timeout)
                .header("Content-Type", "application/x-www-form-urlencoded")
                .POST(HttpRequest.BodyPublishers.ofString(form.encode())).build();
        return send(request).exceptionallyCompose(
                error -> wasCutOff(error) ? send(request) : CompletableFuture.failedFuture(error));
    }

    private static CompletableFuture<HttpResponse<byte[]>> send(HttpRequest request) {
        return CLIENT.sendAsync(request, HttpResponse.BodyHandlers.ofByteArray());
    }

    /**
     * True if the server may have closed an idle connection in the moment in which it was used. Sending again is safe: a query
     * changes nothing, and an agent's second result of a request is dropped.
     */
    private static boolean wasCutOff(Throwable error) {
        Throwable cause = error.getCause() == null ? error : error.getCause();
        return cause instanceof IOException && !(cause instanceof HttpTimeoutException) && !(cause instanceof ConnectException);
    }

    /**
     * The reply of a shard to a select.
     *
     * @throws Failure if the shard answers with an error
     */
    static NamedList<Object> reply(HttpResponse<byte[]> response) throws Failure {
        NamedList<Object> reply;
        try {
            reply = Javabin.read(response.body());
        } catch (IOException error) {
            throw new Failure(response.statusCode() == 200 ? 502 : response.statusCode(), error.getMessage());
        }
        if (response.statusCode() != 200) {
            throw new Failure(response.statusCode(), Javabin.message(reply, response.statusCode()));
        }
        return reply;
    }
}
