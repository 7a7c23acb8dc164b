package treefold.hadoop;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.Objects;
import treefold.push.PushException;
import treefold.push.Worker;
import treefold.push.WorkerSet;

/**
 * The agent's worker. If its number is not set, it is made of the host's name and the port, so it is the same after a restart;
 * an agent that loses its number to another takes the next.
 */
final class Membership implements AutoCloseable {
    private static final Duration ATTACH_TIMEOUT = Duration.ofSeconds(2);
    private static final int NUMBER_STEP = 7_919;

    /** An attached worker, and its number. */
    record Member(Worker worker, int number) { }

    private final AgentSettings settings;
    private int number;
    private Worker worker;
    private boolean isClosed;

    Membership(AgentSettings settings, int port) {
        this.settings = settings;
        this.number = settings.number().orElseGet(() -> Math.floorMod(Objects.hash(hostName(), port), WorkerSet.NUMBERS_MAX));
    }

    private static String hostName() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException error) {
            return "localhost";
        }
    }

    /**
     * The worker. Attaches it if it is not attached yet, or has lost its number.
     *
     * @throws PushException if no relay takes it in
     */
    synchronized Member member() throws PushException, InterruptedException {
        if (isClosed) {
            throw new IllegalStateException("the agent is closed");
        }
        if (worker != null && worker.detached().isPresent()) {
            worker.close();
            worker = null;
            if (settings.number().isEmpty()) {
                number = (number + NUMBER_STEP) % WorkerSet.NUMBERS_MAX;
            }
        }
        if (worker == null) {
            worker = Worker.builder(settings.application(), number).at(settings.relays()).cluster(settings.cluster())
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
