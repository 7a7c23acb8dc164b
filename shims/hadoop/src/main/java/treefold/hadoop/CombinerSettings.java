package treefold.hadoop;

import java.net.InetSocketAddress;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.net.NetUtils;

/**
 * How a combiner is set up.
 *
 * @param listen the address at which reducers reach it
 * @param jars the folder of the jars that may run; null if only the class path may
 * @param orders the orders that it combines at a time
 * @param attachment how it attaches to relays, that beside it first
 */
record CombinerSettings(InetSocketAddress listen, Path jars, int orders, Attachment attachment) {
    static final String ADDRESS_KEY = "treefold.shuffle.combiner.address";
    static final String JARS_KEY = "treefold.shuffle.combiner.jars";
    static final String ORDERS_KEY = "treefold.shuffle.combiner.orders";
    static final String NUMBER_KEY = "treefold.shuffle.combiner.number";
    static final int PORT_DEFAULT = 13_564;

    /** Memory of an order: a slice of 64 MiB, its combined run while that grows, and what the combiner itself needs. */
    static final int ORDER_BYTES = 256 << 20;
    private static final int ORDERS_MAX = 64;

    /**
     * Reads a combiner's settings.
     *
     * @throws IllegalArgumentException if one is missing or wrong
     */
    static CombinerSettings of(Configuration conf) {
        String jars = conf.getTrimmed(JARS_KEY, "");
        long fit = Math.max(1, Math.min(ORDERS_MAX, Runtime.getRuntime().maxMemory() / ORDER_BYTES));
        int orders = conf.getInt(ORDERS_KEY, (int) fit);
        if (orders < 1 || orders > ORDERS_MAX) {
            throw new IllegalArgumentException(ORDERS_KEY + " is " + orders + "; allowed: 1 to " + ORDERS_MAX);
        }
        return new CombinerSettings(NetUtils.createSocketAddr(conf.getTrimmed(ADDRESS_KEY, "0.0.0.0:" + PORT_DEFAULT)),
                jars.isEmpty() ? null : Path.of(jars), orders, Attachment.of(conf, NUMBER_KEY));
    }
}
