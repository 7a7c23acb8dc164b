package treefold.hadoop;

import java.net.InetSocketAddress;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.ShuffleHandler;
import org.apache.hadoop.net.NetUtils;

/**
 * How an agent is set up.
 *
 * @param listen the address at which reducers reach it
 * @param handler the address of its node's ShuffleHandler
 * @param attachment how it attaches to relays
 */
record AgentSettings(InetSocketAddress listen, InetSocketAddress handler, Attachment attachment) {
    static final String ADDRESS_KEY = "treefold.shuffle.agent.address";
    static final String HANDLER_KEY = "treefold.shuffle.agent.handler";
    static final String NUMBER_KEY = "treefold.shuffle.agent.number";

    /**
     * Reads a node's settings.
     *
     * @throws IllegalArgumentException if one is missing or wrong
     */
    static AgentSettings of(Configuration conf) {
        int port = conf.getInt(Settings.AGENT_PORT_KEY, Settings.AGENT_PORT_DEFAULT);
        int handlerPort = conf.getInt(ShuffleHandler.SHUFFLE_PORT_CONFIG_KEY, ShuffleHandler.DEFAULT_SHUFFLE_PORT);
        return new AgentSettings(NetUtils.createSocketAddr(conf.getTrimmed(ADDRESS_KEY, "0.0.0.0:" + port)),
                NetUtils.createSocketAddr(conf.getTrimmed(HANDLER_KEY, "127.0.0.1:" + handlerPort)),
                Attachment.of(conf, NUMBER_KEY));
    }
}
