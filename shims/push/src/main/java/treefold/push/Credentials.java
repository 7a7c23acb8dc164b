package treefold.push;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.TrustManagerFactory;

/** A process's private key and certificate, and the authorities that it trusts, from a file of keys. */
final class Credentials {
    private static final Pattern BLOCK =
            Pattern.compile("-----BEGIN ([A-Z ]+)-----([A-Za-z0-9+/=\\s]+)-----END \\1-----");
    private static final long FILE_BYTES_MAX = 1 << 20;
    private static final String PROTOCOL = "treefold-certificates";

    private final SSLContext context;
    private final Grant grant;

    private Credentials(SSLContext context, Grant grant) {
        this.context = context;
        this.grant = grant;
    }

    /**
     * Reads a file of keys: the process's certificate and those of its issuers, the private key, and then the authorities.
     */
    static Credentials load(Path path) throws EncryptionException {
        List<X509Certificate> chain = new ArrayList<>();
        List<X509Certificate> authorities = new ArrayList<>();
        PrivateKey key = null;
        try {
            if (Files.size(path) > FILE_BYTES_MAX) {
                throw new EncryptionException(path + " has more than " + FILE_BYTES_MAX + " bytes; it is no file of keys");
            }
            Matcher block = BLOCK.matcher(Files.readString(path, StandardCharsets.US_ASCII));
            while (block.find()) {
                byte[] der = Base64.getMimeDecoder().decode(block.group(2));
                if (block.group(1).equals("PRIVATE KEY")) {
                    key = readKey(der);
                } else if (block.group(1).equals("CERTIFICATE")) {
                    (key == null ? chain : authorities).add(readCertificate(der));
                }
            }
            if (chain.isEmpty() || authorities.isEmpty()) {
                throw new EncryptionException(path + " is no file of keys; make one with treefold keys issue");
            }
            return new Credentials(context(key, chain, authorities), Grant.of(chain.get(0)));
        } catch (GeneralSecurityException | IllegalArgumentException | IOException error) {
            if (error instanceof EncryptionException known) {
                throw known;
            }
            throw new EncryptionException("can't use the keys in " + path + ": " + error, error);
        }
    }

    private static X509Certificate readCertificate(byte[] der) throws GeneralSecurityException {
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        return (X509Certificate) factory.generateCertificate(new ByteArrayInputStream(der));
    }

    private static PrivateKey readKey(byte[] der) throws GeneralSecurityException {
        PKCS8EncodedKeySpec spec = new PKCS8EncodedKeySpec(der);
        try {
            return KeyFactory.getInstance("EC").generatePrivate(spec);
        } catch (GeneralSecurityException notOfCurve) {
            return KeyFactory.getInstance("Ed25519").generatePrivate(spec);
        }
    }

    private static SSLContext context(PrivateKey key, List<X509Certificate> chain, List<X509Certificate> authorities)
            throws GeneralSecurityException, IOException {
        char[] none = new char[0];
        KeyStore own = KeyStore.getInstance("PKCS12");
        own.load(null, none);
        own.setKeyEntry("own", key, none, chain.toArray(new X509Certificate[0]));
        KeyManagerFactory keys = KeyManagerFactory.getInstance("PKIX");
        keys.init(own, none);
        KeyStore trusted = KeyStore.getInstance("PKCS12");
        trusted.load(null, none);
        for (int at = 0; at < authorities.size(); at++) {
            trusted.setCertificateEntry("authority-" + at, authorities.get(at));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
        trust.init(trusted);
        SSLContext context = SSLContext.getInstance("TLSv1.3");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
    }

    /** The name of the cluster in this process's certificate. */
    String cluster() {
        return grant.cluster();
    }

    /** The client's side of a new session. It verifies the node's chain, the time, and that the certificate is for a server. */
    SSLEngine engine() {
        SSLEngine engine = context.createSSLEngine();
        engine.setUseClientMode(true);
        SSLParameters parameters = engine.getSSLParameters();
        parameters.setProtocols(new String[] {"TLSv1.3"});
        parameters.setApplicationProtocols(new String[] {PROTOCOL});
        engine.setSSLParameters(parameters);
        return engine;
    }
}
