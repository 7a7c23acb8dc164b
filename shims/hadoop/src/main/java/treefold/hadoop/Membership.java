package treefold.hadoop;

import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.net.UnknownHostException;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import treefold.push.PushException;
import treefold.push.Worker;
import treefold.push.WorkerSet;

/**
 * The worker of an agent or a combiner. If its number is not set, it is made of the host's name, its addresses and the port, so
 * it is the same after a restart. A process that loses its number to another draws a new one.
 */
final class Membership implements AutoCloseable {
    private static final Duration ATTACH_TIMEOUT = Duration.ofSeconds(2);
    private static final int ADDRESSES_MAX = 64;

    /** An attached worker, and its number. */
    record Member(Worker worker, int number) {
        /** The number and, behind a space, the relay to which the worker is attached now, if it is. */
        String text() {
            String relay = worker.attachedTo();
            return relay == null ? Integer.toString(number) : number + " " + relay;
        }
    }

    private final Attachment attachment;
    private final SecureRandom random = new SecureRandom();
    private int number;
    private Worker worker;
    private boolean isClosed;

    Membership(Attachment attachment, int port) {
        this.attachment = attachment;
        this.number = attachment.number().orElseGet(() -> Math.floorMod(Objects.hash(host(), port), WorkerSet.NUMBERS_MAX));
    }

    /** The host's name and addresses: hosts that are copies of one image may have one name. */
    private static List<String> host() {
        List<String> parts = new ArrayList<>();
        try {
            NetworkInterface.networkInterfaces().flatMap(NetworkInterface::inetAddresses)
                    .map(InetAddress::getHostAddress).sorted().limit(ADDRESSES_MAX).forEach(parts::add);
            parts.add(InetAddress.getLocalHost().getHostName());
        } catch (SocketException | UnknownHostException error) {
            parts.add(error.toString());
        }
        return parts;
    }

    /**
     * The worker. Attaches it if it is not attached yet, or has lost its number.
     *
     * @throws PushException if no relay takes it in
     */
    synchronized Member member() throws PushException, InterruptedException {
        if (isClosed) {
            throw new IllegalStateException("the process is closed");
        }
        if (worker != null && worker.detached().isPresent()) {
            worker.close();
            worker = null;
            if (attachment.number().isEmpty()) {
                number = random.nextInt(WorkerSet.NUMBERS_MAX);
            }
        }
        if (worker == null) {
            worker = Worker.builder(attachment.application(), number).at(attachment.relays()).cluster(attachment.cluster())
                    .timeout(ATTACH_TIMEOUT).attach();
        }
        return new Member(worker, number);
    }

    @Override
    public synchronized void close() {
        isClosed = true;
        if (worker != null) {
            worker.close();
        }
    }
}
