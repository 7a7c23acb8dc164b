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
    /** On a full link the first packets of a connection may be lost; the system sends them again after 1, 3 and 7 seconds. */
    private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(10);
    private static final HttpClient CLIENT = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1).connectTimeout(CONNECT_TIMEOUT).build();

    /** Longest reply of a shard, as much as an agent may push. */
    static final int REPLY_BYTES_MAX = 64 << 20;
    /** Longest answer of an agent. */
    static final int ANSWER_BYTES_MAX = 64 << 10;

    private Shard() { }

    /** Sends a form to {@code host:port/path}. A longer response than allowed is a {@link BoundedBody.TooLong}. */
    static CompletableFuture<HttpResponse<byte[]>> post(String address, Form form, Duration timeout, int bytesMax) {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + address)).timeout(timeout)
                .header("Content-Type", "application/x-www-form-urlencoded")
                .POST(HttpRequest.BodyPublishers.ofString(form.encode())).build();
        return sendTwice(request, bytesMax);
    }

    /** Gets {@code host:port/path}, like {@link #post}. */
    static CompletableFuture<HttpResponse<byte[]>> get(String address, Duration timeout, int bytesMax) {
        return sendTwice(HttpRequest.newBuilder(URI.create("http://" + address)).timeout(timeout).build(), bytesMax);
    }

    private static CompletableFuture<HttpResponse<byte[]>> sendTwice(HttpRequest request, int bytesMax) {
        return send(request, bytesMax).exceptionallyCompose(
                error -> wasCutOff(error) ? send(request, bytesMax) : CompletableFuture.failedFuture(error));
    }

    private static CompletableFuture<HttpResponse<byte[]>> send(HttpRequest request, int bytesMax) {
        return CLIENT.sendAsync(request, BoundedBody.handler(bytesMax));
    }

    /**
     * True if the server may have closed an idle connection in the moment in which it was used. Sending again is safe: a query
     * changes nothing, and an agent's second result of a request is dropped.
     */
    private static boolean wasCutOff(Throwable error) {
        Throwable cause = error.getCause() == null ? error : error.getCause();
        boolean isFinal = cause instanceof HttpTimeoutException || cause instanceof ConnectException
                || cause instanceof BoundedBody.TooLong;
        return cause instanceof IOException && !isFinal;
    }

    /** The failure of a request to a shard. A reply that is too long is code 502: asking again does not help. */
    static Failure failure(String shard, Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null && !(cause instanceof BoundedBody.TooLong)) {
            cause = cause.getCause();
        }
        if (cause instanceof BoundedBody.TooLong) {
            return new Failure(Reason.SHARD_REPLY, 502, "the shard " + shard + ": " + cause.getMessage());
        }
        return new Failure(Reason.SHARD_SILENT, 500, "the shard " + shard + " does not answer: " + error);
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
            throw new Failure(Reason.SHARD_REPLY, response.statusCode() == 200 ? 502 : response.statusCode(), error.getMessage());
        }
        if (response.statusCode() != 200) {
            throw new Failure(Reason.SHARD, response.statusCode(), Javabin.message(reply, response.statusCode()));
        }
        return reply;
    }
}
