package treefold.hadoop;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.OptionalInt;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import treefold.push.Cluster;
import treefold.push.PushException;
import treefold.push.Treefold;

/** The numbers of agents. */
@Timeout(60)
final class MembershipTest {
    private static Attachment settings(String relay) {
        return new Attachment(new String[] {relay}, "hadoop", Cluster.plain(), OptionalInt.empty());
    }

    @Test
    void agent_that_loses_its_number_draws_another() throws Exception {
        try (Treefold relay = Treefold.node("--relay", "--accept", "hadoop");
                Membership one = new Membership(settings(relay.address()), 7);
                Membership other = new Membership(settings(relay.address()), 7)) {
            Membership.Member first = one.member();
            assertEquals(first.number(), other.member().number(), "both have the addresses of this host");
            Treefold.until("the first one has heard of it", () -> first.worker().detached().isPresent());
            assertNotEquals(first.number(), one.member().number());
            assertEquals(first.number(), other.member().number());
        }
    }

    @Test
    void agent_without_a_relay_says_so() {
        try (Membership alone = new Membership(settings("127.0.0.1:1"), 7)) {
            assertThrows(PushException.class, alone::member);
        }
    }
}
