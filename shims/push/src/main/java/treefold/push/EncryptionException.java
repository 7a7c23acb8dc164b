package treefold.push;

/**
 * The two sides do not encrypt alike, or one does not accept the other's certificate.
 *
 * <p>This library supports clusters without secrets, and clusters with certificates ({@link Cluster#certificates}). It
 * does not support clusters with a token: their sessions need raw public keys (RFC 7250) and exported secrets (RFC 8446,
 * 7.5), and the TLS of JDK 17 has neither.
 */
public final class EncryptionException extends PushException {
    EncryptionException(String message) {
        super(message);
    }

    EncryptionException(String message, Throwable cause) {
        super(message, cause);
    }
}
