package treefold.solr;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.solr.common.util.JavaBinCodec;
import org.apache.solr.common.util.NamedList;

/** Solr's binary form of replies. */
final class Javabin {
    static final String TYPE = "application/octet-stream";

    private Javabin() { }

    static byte[] write(Object reply) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (JavaBinCodec codec = new JavaBinCodec()) {
            codec.marshal(reply, out);
        } catch (IOException error) {
            throw new UncheckedIOException("invariant: memory does not fail", error);
        }
        return out.toByteArray();
    }

    @SuppressWarnings("unchecked")
    static NamedList<Object> read(byte[] bytes) throws IOException {
        if (readAny(bytes) instanceof NamedList<?> reply) {
            return (NamedList<Object>) reply;
        }
        throw new IOException("the reply is no map");
    }

    /** Reads any value. The bytes are checked first: {@link JavabinCheck}. */
    static Object readAny(byte[] bytes) throws IOException {
        try {
            JavabinCheck.check(bytes);
        } catch (IOException error) {
            throw new IOException("the reply is not javabin: " + error.getMessage(), error);
        }
        try (JavaBinCodec codec = new JavaBinCodec()) {
            return codec.unmarshal(new ByteArrayInputStream(bytes));
        } catch (RuntimeException | AssertionError error) {
            // Of a text that is not UTF-8, the codec throws whichever comes first.
            throw new IOException("the reply is not javabin: " + error.getMessage(), error);
        }
    }

    /** An error as Solr reports it. */
    static byte[] error(int code, String message) {
        NamedList<Object> error = new NamedList<>();
        NamedList<String> metadata = new NamedList<>();
        metadata.add("error-class", "org.apache.solr.common.SolrException");
        metadata.add("root-error-class", "org.apache.solr.common.SolrException");
        error.add("metadata", metadata);
        error.add("msg", message);
        error.add("code", code);
        NamedList<Object> header = new NamedList<>();
        header.add("status", code);
        header.add("QTime", 0);
        NamedList<Object> reply = new NamedList<>();
        reply.add("responseHeader", header);
        reply.add("error", error);
        return write(reply);
    }

    /** The message of an error reply, or the code if there is none. */
    static String message(NamedList<?> reply, int code) {
        Object message = reply.findRecursive("error", "msg");
        return message == null ? "HTTP " + code : message.toString();
    }
}
