package treefold.push;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Encrypted connections: clusters with certificates, and clear errors for all that does not fit. */
@Timeout(120)
final class CertificatesTest {
    @TempDir
    Path folder;

    private Path keys;

    @BeforeEach
    void issue() throws Exception {
        keys = folder.resolve("keys");
        Treefold.run("keys", "init", "--cluster", "prod", "--dir", keys.toString());
        client("node", "n1", "--at", "127.0.0.0/8");
        client("client", "app", "--may", "push,call", "--services", "words");
        client("client", "caller", "--may", "call");
    }

    private void client(String role, String name, String... args) throws Exception {
        String[] line = new String[args.length + 6];
        System.arraycopy(new String[] {"keys", "issue", role, name, "--dir", keys.toString()}, 0, line, 0, 6);
        System.arraycopy(args, 0, line, 6, args.length);
        Treefold.run(line);
    }

    private Treefold relay() throws Exception {
        return Treefold.node("--relay", "--accept", "words", "--keys", keys.resolve("n1.pem").toString());
    }

    private Cluster cluster(String name) {
        return Cluster.certificates(keys.resolve(name + ".pem"));
    }

    @Test
    void worker_and_master_speak_to_a_cluster_with_certificates() throws Exception {
        try (Treefold relay = relay();
                Worker worker = Worker.builder("words", 0).at(relay.address()).cluster(cluster("app")).attach();
                Master master = Master.connect(cluster("app"), relay.address())) {
            byte[] large = "x".repeat(3 << 20).getBytes(UTF_8);
            worker.push(7, large);
            worker.pushLast(7, large);
            Reply reply = master.announce("words/append", 7, WorkerSet.of(0)).deadline(Duration.ofSeconds(30)).await();
            assertEquals(2 * large.length, reply.requireValue().length);
            worker.idle();
        }
    }

    @Test
    void certificate_without_the_right_to_push_is_refused() throws Exception {
        try (Treefold relay = relay()) {
            RefusedException error = assertThrows(RefusedException.class, () -> Worker.builder("words", 0)
                    .at(relay.address()).cluster(cluster("caller")).timeout(Duration.ofMillis(500)).attach());
            assertTrue(error.getMessage().contains("push"), error.getMessage());
        }
    }

    @Test
    void sides_that_do_not_encrypt_alike_say_so() throws Exception {
        try (Treefold relay = relay();
                Treefold plain = Treefold.node("--relay", "--accept", "words");
                Treefold token = Treefold.node("--relay", "--accept", "words", "--token", "secret")) {
            EncryptionException error = assertThrows(EncryptionException.class, () -> Master.connect(relay.address()));
            assertTrue(error.getMessage().contains("Cluster.certificates"), error.getMessage());
            error = assertThrows(EncryptionException.class, () -> Master.connect(token.address()));
            assertTrue(error.getMessage().contains("token is not supported"), error.getMessage());
            assertThrows(EncryptionException.class, () -> Master.connect(cluster("app"), plain.address()));
            assertThrows(EncryptionException.class, () -> Master.connect(cluster("app"), token.address()));
        }
    }

    @Test
    void node_of_another_authority_or_without_the_right_to_join_is_refused() throws Exception {
        Path others = folder.resolve("others");
        Treefold.run("keys", "init", "--cluster", "prod", "--dir", others.toString());
        Treefold.run("keys", "issue", "client", "app", "--may", "push", "--dir", others.toString());
        try (Treefold relay = relay()) {
            Cluster other = Cluster.certificates(others.resolve("app.pem"));
            PushException error = assertThrows(PushException.class, () -> Master.connect(other, relay.address()));
            assertTrue(error instanceof EncryptionException, error.toString());
        }
    }

    @Test
    void file_that_is_no_file_of_keys_is_named() {
        Path none = folder.resolve("none.pem");
        EncryptionException error =
                assertThrows(EncryptionException.class, () -> Master.connect(Cluster.certificates(none), "127.0.0.1:1"));
        assertTrue(error.getMessage().contains(none.toString()), error.getMessage());
    }
}
