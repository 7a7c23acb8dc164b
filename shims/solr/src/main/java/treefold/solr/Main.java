package treefold.solr;

import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import treefold.push.Cluster;
import treefold.push.Master;
import treefold.push.Worker;

/** The programs of this shim: {@code agent} and {@code stand}. */
public final class Main {
    private static final String USAGE = """
            Usage:
              agent --listen HOST:PORT --shard HOST:PORT/solr/CORE --number N --relays ADDR[,ADDR...]
                    beside each shard; N is the shard's place in the order of addresses, from 0
              stand --listen HOST:PORT --relays ADDR[,ADDR...] --shards SHARD=AGENT[,SHARD=AGENT...]
                    the coordinator's one shard; SHARD is HOST:PORT/solr/CORE, AGENT is HOST:PORT

            Options of both:
              --application NAME   application that the relays accept [default: solr]
              --cluster NAME       name of the cluster [default: treefold]
              --keys FILE          keys of this process, in a cluster with certificates
            Options of stand:
              --deadline SECONDS   time for the first phase of a query [default: 10]
              --id FIELD           field with the unique key [default: id]

            Each prints `listening on PORT` when it is ready.""";

    private Main() { }

    /** Runs a program until the process is ended. Exits with 2 if the arguments are wrong, with 5 if no relay answers. */
    public static void main(String[] args) throws Exception {
        try {
            run(args);
        } catch (IllegalArgumentException error) {
            System.err.println(error.getMessage() + "\n\n" + USAGE);
            System.exit(2);
        } catch (treefold.push.PushException error) {
            System.err.println(error.getMessage());
            System.exit(5);
        }
    }

    private static void run(String[] args) throws Exception {
        if (args.length == 0) {
            throw new IllegalArgumentException("expected agent or stand");
        }
        Map<String, String> options = options(args);
        String application = options.getOrDefault("application", "solr");
        String[] relays = required(options, "relays").split(",");
        InetSocketAddress listen = address(required(options, "listen"));
        if (args[0].equals("agent")) {
            int number = (int) number(required(options, "number"));
            String shard = required(options, "shard");
            try (Agent agent = new Agent(listen, shard, number,
                    Worker.builder(application, number).at(relays).cluster(cluster(options)))) {
                System.out.println("listening on " + agent.port());
                agent.join();
            }
        } else if (args[0].equals("stand")) {
            Duration deadline = Duration.ofSeconds(number(options.getOrDefault("deadline", "10")));
            Stand.Settings settings = new Stand.Settings(
                    application, options.getOrDefault("id", "id"), shards(required(options, "shards")), deadline);
            try (Stand stand = new Stand(listen, settings, Master.connect(cluster(options), relays))) {
                System.out.println("listening on " + stand.port());
                System.out.println("shards=" + stand.shards(listen.getHostString()));
                stand.join();
            }
        } else {
            throw new IllegalArgumentException("\"" + args[0] + "\"; expected agent or stand");
        }
    }

    private static Map<String, String> options(String[] args) {
        List<String> known =
                List.of("listen", "shard", "number", "relays", "shards", "application", "cluster", "keys", "deadline", "id");
        Map<String, String> options = new HashMap<>();
        for (int at = 1; at < args.length; at += 2) {
            String name = args[at].startsWith("--") ? args[at].substring(2) : "";
            if (!known.contains(name) || at + 1 == args.length) {
                throw new IllegalArgumentException("\"" + args[at] + "\" is no option, or has no value");
            }
            options.put(name, args[at + 1]);
        }
        return options;
    }

    private static String required(Map<String, String> options, String name) {
        if (!options.containsKey(name)) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return options.get(name);
    }

    private static long number(String text) {
        try {
            return Long.parseLong(text);
        } catch (NumberFormatException error) {
            throw new IllegalArgumentException("\"" + text + "\"; expected a whole number");
        }
    }

    private static InetSocketAddress address(String text) {
        int colon = text.lastIndexOf(':');
        if (colon < 1) {
            throw new IllegalArgumentException("address \"" + text + "\"; expected host:port");
        }
        return new InetSocketAddress(text.substring(0, colon), (int) number(text.substring(colon + 1)));
    }

    private static Map<String, String> shards(String text) {
        Map<String, String> shards = new HashMap<>();
        List<String> wrong = new ArrayList<>();
        for (String pair : text.split(",")) {
            int equals = pair.indexOf('=');
            if (equals < 1 || shards.put(pair.substring(0, equals), pair.substring(equals + 1)) != null) {
                wrong.add(pair);
            }
        }
        if (!wrong.isEmpty()) {
            throw new IllegalArgumentException("--shards " + wrong + "; expected SHARD=AGENT, each shard once");
        }
        return shards;
    }

    private static Cluster cluster(Map<String, String> options) {
        String keys = options.get("keys");
        return keys == null
                ? Cluster.named(options.getOrDefault("cluster", Cluster.NAME_DEFAULT))
                : Cluster.certificates(Path.of(keys));
    }
}
