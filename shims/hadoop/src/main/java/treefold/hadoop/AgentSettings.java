package treefold.hadoop;

import java.net.InetSocketAddress;
import java.util.OptionalInt;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.ShuffleHandler;
import org.apache.hadoop.net.NetUtils;
import treefold.push.Cluster;
import treefold.push.WorkerSet;

/**
 * How an agent is set up.
 *
 * @param listen the address at which reducers reach it
 * @param handler the address of its node's ShuffleHandler
 * @param relays the relays, those of its own rack first
 * @param application the application that the relays accept
 * @param cluster the relays' cluster
 * @param number the worker's number; without one, the agent finds a free one
 */
record AgentSettings(InetSocketAddress listen, InetSocketAddress handler, String[] relays, String application,
        Cluster cluster, OptionalInt number) {
    static final String ADDRESS_KEY = "treefold.shuffle.agent.address";
    static final String HANDLER_KEY = "treefold.shuffle.agent.handler";
    static final String NUMBER_KEY = "treefold.shuffle.agent.number";

    /**
     * Reads a node's settings.
     *
     * @throws IllegalArgumentException if one is missing or wrong
     */
    static AgentSettings of(Configuration conf) {
        String[] relays = conf.getTrimmedStrings(Settings.RELAYS_KEY);
        if (relays.length == 0) {
            throw new IllegalArgumentException(Settings.RELAYS_KEY + " is not set");
        }
        int port = conf.getInt(Settings.AGENT_PORT_KEY, Settings.AGENT_PORT_DEFAULT);
        int handlerPort = conf.getInt(ShuffleHandler.SHUFFLE_PORT_CONFIG_KEY, ShuffleHandler.DEFAULT_SHUFFLE_PORT);
        int number = conf.getInt(NUMBER_KEY, -1);
        if (number >= WorkerSet.NUMBERS_MAX) {
            throw new IllegalArgumentException(NUMBER_KEY + " is " + number + "; allowed: 0 to " + (WorkerSet.NUMBERS_MAX - 1));
        }
        return new AgentSettings(NetUtils.createSocketAddr(conf.getTrimmed(ADDRESS_KEY, "0.0.0.0:" + port)),
                NetUtils.createSocketAddr(conf.getTrimmed(HANDLER_KEY, "127.0.0.1:" + handlerPort)), relays,
                conf.getTrimmed(Settings.APPLICATION_KEY, Settings.APPLICATION_DEFAULT), Settings.cluster(conf),
                number < 0 ? OptionalInt.empty() : OptionalInt.of(number));
    }
}
