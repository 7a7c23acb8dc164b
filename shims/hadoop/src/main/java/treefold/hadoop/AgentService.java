package treefold.hadoop;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.server.api.ApplicationInitializationContext;
import org.apache.hadoop.yarn.server.api.ApplicationTerminationContext;
import org.apache.hadoop.yarn.server.api.AuxiliaryService;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The agent as an auxiliary service of a NodeManager: {@code yarn.nodemanager.aux-services.treefold_shuffle.class}. If the
 * agent cannot start, the NodeManager starts without it, and reducers use the plain shuffle.
 */
public final class AgentService extends AuxiliaryService {
    /** The service's name, as it appears in {@code yarn.nodemanager.aux-services}. */
    public static final String NAME = "treefold_shuffle";

    private static final Logger LOG = LoggerFactory.getLogger(AgentService.class);

    private Agent agent;

    /** A NodeManager makes it. */
    public AgentService() {
        super(NAME);
    }

    @Override
    protected void serviceStart() throws Exception {
        Configuration conf = getConfig();
        try {
            agent = new Agent(AgentSettings.of(conf), conf);
            LOG.info("the agent of the shuffle over relays listens at port {}", agent.port());
        } catch (IOException | IllegalArgumentException error) {
            LOG.error("no agent of the shuffle over relays: {}", error.toString());
        }
        super.serviceStart();
    }

    @Override
    protected void serviceStop() throws Exception {
        if (agent != null) {
            agent.close();
        }
        super.serviceStop();
    }

    @Override
    public void initializeApplication(ApplicationInitializationContext context) { }

    @Override
    public void stopApplication(ApplicationTerminationContext context) { }

    /** The agent's port; 0 if it has not started. */
    @Override
    public synchronized ByteBuffer getMetaData() {
        return ByteBuffer.allocate(Integer.BYTES).putInt(0, agent == null ? 0 : agent.port());
    }
}
