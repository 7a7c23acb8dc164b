package treefold.hadoop;

import java.util.OptionalInt;
import org.apache.hadoop.conf.Configuration;
import treefold.push.Cluster;
import treefold.push.WorkerSet;

/**
 * How an agent or a combiner attaches to relays, as a worker.
 *
 * @param relays the relays, those of its own rack first
 * @param application the application that the relays accept
 * @param cluster the relays' cluster
 * @param number the worker's number; without one, it is made of the host
 */
record Attachment(String[] relays, String application, Cluster cluster, OptionalInt number) {
    /**
     * Reads a process's settings.
     *
     * @param numberKey the property of its number
     * @throws IllegalArgumentException if one is missing or wrong
     */
    static Attachment of(Configuration conf, String numberKey) {
        String[] relays = conf.getTrimmedStrings(Settings.RELAYS_KEY);
        if (relays.length == 0) {
            throw new IllegalArgumentException(Settings.RELAYS_KEY + " is not set");
        }
        int number = conf.getInt(numberKey, -1);
        if (number >= WorkerSet.NUMBERS_MAX) {
            throw new IllegalArgumentException(numberKey + " is " + number + "; allowed: 0 to " + (WorkerSet.NUMBERS_MAX - 1));
        }
        return new Attachment(relays, conf.getTrimmed(Settings.APPLICATION_KEY, Settings.APPLICATION_DEFAULT),
                Settings.cluster(conf), number < 0 ? OptionalInt.empty() : OptionalInt.of(number));
    }
}
