package treefold.push;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Addresses of nodes: as users write them, {@code host:port}, and as names of nodes on the wire have them. */
final class Address {
    private Address() { }

    /** Checks the form of {@code host:port} or {@code [v6]:port}, without looking the host up. */
    static void check(String given) {
        int colon = given.lastIndexOf(':');
        String port = given.substring(colon + 1);
        if (colon < 1 || port.isEmpty() || port.length() > 5 || !port.chars().allMatch(Character::isDigit)
                || Integer.parseInt(port) > 0xFFFF) {
            throw new IllegalArgumentException("address \"" + given + "\"; expected host:port");
        }
    }

    /** All addresses that the host has. */
    static List<InetSocketAddress> resolve(String given) throws UnreachableException {
        int colon = given.lastIndexOf(':');
        int port = Integer.parseInt(given.substring(colon + 1));
        List<InetSocketAddress> found = new ArrayList<>();
        try {
            for (InetAddress host : InetAddress.getAllByName(given.substring(0, colon))) {
                found.add(new InetSocketAddress(host, port));
            }
        } catch (UnknownHostException error) {
            throw new UnreachableException(given, error);
        }
        return found;
    }

    /** The address in a node's name of 14 or 26 bytes. */
    static InetSocketAddress ofNode(byte[] node) throws MalformedException {
        int octets = node.length - 10;
        int port = ByteBuffer.wrap(node).order(ByteOrder.LITTLE_ENDIAN).getShort(octets) & 0xFFFF;
        try {
            return new InetSocketAddress(InetAddress.getByAddress(Arrays.copyOf(node, octets)), port);
        } catch (UnknownHostException error) {
            throw new MalformedException("node", "is not a name");
        }
    }
}
