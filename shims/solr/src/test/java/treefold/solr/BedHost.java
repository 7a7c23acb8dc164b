package treefold.solr;

import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import treefold.push.Master;
import treefold.push.Worker;

/**
 * A host of the testbed in {@code bench/solr}: real Solr, and the program of this shim that belongs beside it.
 *
 * <pre>
 *   shard HOST HOME RELAYS NUMBER DOCUMENTS BYTES   a shard with generated documents, and its agent
 *   front HOST HOME RELAYS SHARDS SECONDS           a coordinator without documents, and a stand with a deadline
 * </pre>
 *
 * <p>It prints {@code ready} when it serves, and ends with its standard input.
 */
final class BedHost {
    static final int SOLR_PORT = 8983;
    static final int AGENT_PORT = 8971;
    static final int STAND_PORT = 8970;
    /** Words of the documents. The first ones are frequent, as in a language. */
    static final int WORDS = 2_000;
    /** Documents of a shard that have the category {@code ten}. */
    static final int TEN = 10;

    private BedHost() { }

    /** Runs a host until its input ends. */
    public static void main(String[] args) throws Exception {
        String host = args[1];
        Path home = Path.of(args[2]);
        String[] relays = args[3].split(",");
        RealSolr solr = new RealSolr(home, host, SOLR_PORT);
        if (args[0].equals("shard")) {
            int number = Integer.parseInt(args[4]);
            fill(solr, number, Integer.parseInt(args[5]), Integer.parseInt(args[6]));
            new Agent(new InetSocketAddress(host, AGENT_PORT), solr.address(), number, Worker.builder("solr", number).at(relays));
        } else {
            Map<String, String> shards = new TreeMap<>();
            for (String shard : args[4].split(",")) {
                shards.put(shard + ":" + SOLR_PORT + "/solr/docs", shard + ":" + AGENT_PORT);
            }
            Stand.Settings settings = new Stand.Settings("solr", "id", shards, Duration.ofSeconds(Integer.parseInt(args[5])));
            Stand stand = new Stand(new InetSocketAddress(host, STAND_PORT), settings, Master.connect(relays));
            System.out.println("shards=" + stand.shards(host));
        }
        System.out.println("ready");
        while (System.in.read() >= 0) {
            // It says nothing.
        }
        System.exit(0);
    }

    private static void fill(RealSolr solr, int number, int documents, int bytes) throws Exception {
        Random random = new Random(number);
        StringBuilder batch = new StringBuilder("[");
        for (int document = 0; document < documents; document++) {
            StringBuilder text = new StringBuilder();
            while (text.length() < bytes) {
                text.append("word").append((int) (WORDS * Math.pow(random.nextDouble(), 3))).append(' ');
            }
            batch.append(document == 0 ? "" : ",").append("{\"id\":\"").append(number).append('-').append(document)
                    .append("\",\"cat\":[\"").append(document < TEN ? "ten" : "others")
                    .append("\"],\"text\":\"").append(text.toString().trim()).append("\"}");
        }
        solr.add(batch.append(']').toString());
    }
}
