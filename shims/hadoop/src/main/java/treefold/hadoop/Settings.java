package treefold.hadoop;

import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import treefold.push.Cluster;

/**
 * Where the relays are, and how a reducer reaches the agents.
 *
 * @param relays addresses, {@code host:port}
 * @param application the application that the relays accept
 * @param cluster the relays' cluster
 * @param slices the number of requests into which a reducer's keys are divided
 * @param window the slices that a reducer orders at a time
 * @param deadline the time from an order to its result
 * @param agentPort the port of agents at the hosts of their ShuffleHandlers
 * @param agents agents that are elsewhere, by the address of their ShuffleHandler
 * @param combiners combiners, by the address of the relay beside which they run
 */
record Settings(String[] relays, String application, Cluster cluster, int slices, int window, Duration deadline,
        int agentPort, Map<String, String> agents, Map<String, String> combiners) {
    static final String RELAYS_KEY = "treefold.shuffle.relays";
    static final String APPLICATION_KEY = "treefold.shuffle.application";
    static final String CLUSTER_KEY = "treefold.shuffle.cluster";
    static final String KEYS_KEY = "treefold.shuffle.keys";
    static final String SLICES_KEY = "treefold.shuffle.slices";
    static final String WINDOW_KEY = "treefold.shuffle.window";
    static final String DEADLINE_KEY = "treefold.shuffle.deadline-seconds";
    static final String AGENT_PORT_KEY = "treefold.shuffle.agent.port";
    static final String AGENTS_KEY = "treefold.shuffle.agents";
    static final String COMBINERS_KEY = "treefold.shuffle.combiners";

    static final String APPLICATION_DEFAULT = "hadoop";
    static final int AGENT_PORT_DEFAULT = 13_563;
    static final int SLICES_MAX = 4_096;
    private static final int SLICES_DEFAULT = 8;
    private static final int WINDOW_DEFAULT = 8;
    private static final int DEADLINE_SECONDS_DEFAULT = 600;
    /** A node accepts no longer one. */
    static final int DEADLINE_SECONDS_MAX = 3_600;

    /** Reads a job's settings. */
    static Settings of(Configuration conf) throws Plain {
        String[] relays = conf.getTrimmedStrings(RELAYS_KEY);
        if (relays.length == 0) {
            throw new Plain(RELAYS_KEY + " is not set");
        }
        int slices = within(conf, SLICES_KEY, SLICES_DEFAULT, SLICES_MAX);
        int window = within(conf, WINDOW_KEY, WINDOW_DEFAULT, Wanted.WINDOW_MAX);
        int seconds = within(conf, DEADLINE_KEY, DEADLINE_SECONDS_DEFAULT, DEADLINE_SECONDS_MAX);
        return new Settings(relays, conf.getTrimmed(APPLICATION_KEY, APPLICATION_DEFAULT), cluster(conf), slices, window,
                Duration.ofSeconds(seconds), conf.getInt(AGENT_PORT_KEY, AGENT_PORT_DEFAULT), pairs(conf, AGENTS_KEY, "HANDLER=AGENT"),
                pairs(conf, COMBINERS_KEY, "RELAY=COMBINER"));
    }

    private static int within(Configuration conf, String key, int usual, int most) throws Plain {
        int number = conf.getInt(key, usual);
        if (number < 1 || number > most) {
            throw new Plain(key + " is " + number + "; allowed: 1 to " + most);
        }
        return number;
    }

    private static Map<String, String> pairs(Configuration conf, String key, String form) throws Plain {
        Map<String, String> pairs = new HashMap<>();
        for (String pair : conf.getTrimmedStrings(key)) {
            int equals = pair.indexOf('=');
            if (equals < 1) {
                throw new Plain(key + " has \"" + pair + "\"; expected " + form + ", both host:port");
            }
            pairs.put(pair.substring(0, equals), pair.substring(equals + 1));
        }
        return pairs;
    }

    /** The relays' cluster. */
    static Cluster cluster(Configuration conf) {
        String keys = conf.getTrimmed(KEYS_KEY, "");
        return keys.isEmpty()
                ? Cluster.named(conf.getTrimmed(CLUSTER_KEY, Cluster.NAME_DEFAULT))
                : Cluster.certificates(Path.of(keys));
    }

    /** The address of the agent beside a ShuffleHandler, {@code host:port}. */
    String agentOf(String handler) {
        String host = handler.substring(0, handler.lastIndexOf(':'));
        return agents.getOrDefault(handler, host + ":" + agentPort);
    }
}
