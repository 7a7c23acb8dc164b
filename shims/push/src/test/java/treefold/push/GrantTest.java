package treefold.push;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.InetSocketAddress;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The places of a node's certificate. */
final class GrantTest {
    @ParameterizedTest
    @CsvSource({
        "10.0.0.7, 10.0.0.7, 1, true",
        "10.0.0.7, 10.0.0.8, 1, false",
        "10.0.0.7:7700, 10.0.0.7, 7700, true",
        "10.0.0.7:7700, 10.0.0.7, 7701, false",
        "10.0.0.0/24, 10.0.0.255, 1, true",
        "10.0.0.0/24, 10.0.1.0, 1, false",
        "10.0.0.0/33, 10.0.0.0, 1, false",
        "0.0.0.0/0, 10.0.0.0, 1, true",
        "0.0.0.0/0, ::1, 1, false",
        "fd00::/8, fd12::1, 1, true",
        "[fd12::1]:7700, fd12::1, 7700, true",
        "[fd12::1]:7700, fd12::1, 7701, false",
        "localhost, 127.0.0.1, 1, false",
        "10.0.0.0/, 10.0.0.0, 1, false",
        "/8, 10.0.0.0, 1, false",
    })
    void place_covers_addresses(String place, String host, int port, boolean expected) {
        InetSocketAddress node = new InetSocketAddress(host, port);
        assertEquals(expected, new Grant("c", true, List.of("join"), List.of(place)).covers(node));
        assertEquals(false, new Grant("c", false, List.of("join"), List.of(place)).covers(node), "a client");
        assertEquals(false, new Grant("c", true, List.of("call"), List.of(place)).covers(node), "may not join");
    }
}
