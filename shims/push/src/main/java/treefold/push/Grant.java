package treefold.push;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateParsingException;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;

/**
 * A certificate's grant: who its process is, and where it may be.
 *
 * @param cluster the cluster's name
 * @param isNode true for a node, false for a client
 * @param may names of rights
 * @param at places: an address, an address with a port, or a network
 */
record Grant(String cluster, boolean isNode, List<String> may, List<String> at) {
    private static final String SCHEME = "treefold://";
    private static final int URI = 6;

    /** The grant in a certificate's only URI. */
    static Grant of(X509Certificate certificate) throws EncryptionException {
        List<String> uris = new ArrayList<>();
        try {
            Collection<List<?>> names = certificate.getSubjectAlternativeNames();
            for (List<?> name : names == null ? List.<List<?>>of() : names) {
                if (name.get(0).equals(URI)) {
                    uris.add((String) name.get(1));
                }
            }
        } catch (CertificateParsingException error) {
            throw new EncryptionException("the certificate is malformed", error);
        }
        if (uris.size() != 1 || !uris.get(0).startsWith(SCHEME)) {
            throw new EncryptionException("the certificate has no grant of Treefold");
        }
        return read(uris.get(0).substring(SCHEME.length()));
    }

    private static Grant read(String rest) throws EncryptionException {
        String[] halves = rest.split("\\?", 2);
        String[] path = halves[0].split("/");
        if (path.length != 3 || halves.length != 2) {
            throw new EncryptionException("the certificate's grant is malformed");
        }
        List<String> may = List.of();
        List<String> at = new ArrayList<>();
        for (String part : halves[1].split("&")) {
            String[] pair = part.split("=", 2);
            if (pair.length == 2 && pair[0].equals("may")) {
                may = Arrays.asList(pair[1].split(","));
            } else if (pair.length == 2 && pair[0].equals("at")) {
                at.add(decode(pair[1]));
            }
        }
        return new Grant(decode(path[0]), path[1].equals("node"), may, at);
    }

    private static String decode(String text) throws EncryptionException {
        try {
            return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
        } catch (IllegalArgumentException error) {
            throw new EncryptionException("the certificate's grant is malformed", error);
        }
    }

    /** True if its process may be the member at this address. */
    boolean covers(InetSocketAddress node) {
        return isNode && may.contains("join") && at.stream().anyMatch(place -> covers(place, node));
    }

    private static boolean covers(String place, InetSocketAddress node) {
        byte[] octets = node.getAddress().getAddress();
        int slash = place.indexOf('/');
        if (slash > 0) {
            byte[] network = literal(place.substring(0, slash));
            String bits = place.substring(slash + 1);
            boolean isNumber = !bits.isEmpty() && bits.length() < 4 && bits.chars().allMatch(Character::isDigit);
            return network.length == octets.length && isNumber && sameBits(network, octets, Integer.parseInt(bits));
        }
        if (Arrays.equals(literal(place), octets)) {
            return true;
        }
        int colon = place.lastIndexOf(':');
        return colon > 0 && place.substring(colon + 1).equals(Integer.toString(node.getPort()))
                && Arrays.equals(literal(place.substring(0, colon)), octets);
    }

    private static boolean sameBits(byte[] one, byte[] other, int bits) {
        for (int bit = 0; bit < bits; bit++) {
            int at = bit / 8;
            if (at == one.length || ((one[at] ^ other[at]) & 0x80 >>> bit % 8) != 0) {
                return false;
            }
        }
        return true;
    }

    /** The octets of an address in numbers; none if the text is another. Never looks a name up. */
    private static byte[] literal(String text) {
        String bare = text.startsWith("[") && text.endsWith("]") ? text.substring(1, text.length() - 1) : text;
        boolean isV6 = bare.contains(":") && bare.matches("[0-9a-fA-F:.]+");
        boolean isV4 = bare.matches("[0-9]{1,3}(\\.[0-9]{1,3}){3}");
        try {
            return isV6 || isV4 ? InetAddress.getByName(bare).getAddress() : new byte[0];
        } catch (UnknownHostException error) {
            return new byte[0];
        }
    }
}
