package treefold.solr;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;

/** The body of a response, up to a number of bytes. A longer one is an {@link TooLong}, and the connection is closed. */
final class BoundedBody implements HttpResponse.BodySubscriber<byte[]> {
    private final int bytesMax;
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private final CompletableFuture<byte[]> whole = new CompletableFuture<>();
    private Flow.Subscription subscription;

    /** The response has more bytes than are allowed. */
    static final class TooLong extends IOException {
        TooLong(int bytesMax) {
            super("the reply has more than " + bytesMax + " bytes");
        }
    }

    private BoundedBody(int bytesMax) {
        this.bytesMax = bytesMax;
    }

    /** Reads a body. A length that is announced and too long is refused before the body is read. */
    static HttpResponse.BodyHandler<byte[]> handler(int bytesMax) {
        return response -> {
            BoundedBody body = new BoundedBody(bytesMax);
            if (response.headers().firstValueAsLong("Content-Length").orElse(0) > bytesMax) {
                body.whole.completeExceptionally(new TooLong(bytesMax));
            }
            return body;
        };
    }

    @Override
    public CompletionStage<byte[]> getBody() {
        return whole;
    }

    @Override
    public void onSubscribe(Flow.Subscription given) {
        subscription = given;
        if (whole.isDone()) {
            given.cancel();
        } else {
            given.request(Long.MAX_VALUE);
        }
    }

    @Override
    public void onNext(List<ByteBuffer> buffers) {
        for (ByteBuffer buffer : buffers) {
            if (buffer.remaining() > bytesMax - bytes.size()) {
                subscription.cancel();
                bytes.reset();
                whole.completeExceptionally(new TooLong(bytesMax));
            }
            if (whole.isDone()) {
                return;
            }
            byte[] next = new byte[buffer.remaining()];
            buffer.get(next);
            bytes.writeBytes(next);
        }
    }

    @Override
    public void onError(Throwable error) {
        whole.completeExceptionally(error);
    }

    @Override
    public void onComplete() {
        whole.complete(bytes.toByteArray());
    }
}
