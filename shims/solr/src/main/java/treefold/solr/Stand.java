package treefold.solr;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.solr.common.util.NamedList;
import treefold.push.Master;

/**
 * The shards that a coordinator is given: one process that stands for all. The first phase of a query goes to the agents of
 * all shards, and their replies come back folded by the relays, as one. The second phase goes to the owners of the documents.
 *
 * <p>A stand has two kinds of addresses:
 *
 * <ul>
 * <li>{@code HOST:PORT/shard/N/solr/CORE}, one for each shard. If a query can be folded, number 0 answers for all shards, and the
 * others answer that they have no documents. Any other request goes to shard N as it is, and so does its answer. Whether a
 * query is folded depends on nothing but its parameters, so all numbers decide alike.
 * <li>{@code HOST:PORT/solr/CORE}, one for all shards. A query that cannot be folded is refused.
 * </ul>
 *
 * <p>{@code GET /treefold/counters} shows how many requests were folded, passed on, and refused by reason.
 */
public final class Stand implements AutoCloseable {
    private static final Duration SHARD_TIMEOUT = Duration.ofSeconds(60);
    private static final Pattern NUMBERED = Pattern.compile("/shard/([0-9]{1,5})/[^?]*/select");

    private final Settings settings;
    private final Master master;
    private final Http http;
    private final Counters counters = new Counters();
    private final List<String> addresses;
    private final FirstPhase first;
    private final SecondPhase second;

    /**
     * The settings of a stand.
     *
     * @param application the application of push waves
     * @param id the field with the documents' unique key
     * @param shards each shard's address, {@code host:port/solr/CORE}, and that of its agent, {@code host:port}
     * @param deadline how long the first phase may take
     */
    public record Settings(String application, String id, Map<String, String> shards, Duration deadline) {
        /** The settings with shards in the order of their addresses, by which Solr orders documents of equal rank. */
        public Settings {
            shards = new TreeMap<>(shards);
            if (shards.isEmpty() || shards.size() > Rows.SHARDS_MAX) {
                throw new IllegalArgumentException("shards: " + shards.size() + "; allowed: 1 to " + Rows.SHARDS_MAX);
            }
        }
    }

    /** Begins to listen; port 0 takes any free port. The stand closes the master when it is closed. */
    public Stand(InetSocketAddress listen, Settings settings, Master master) throws IOException {
        this.settings = settings;
        this.master = master;
        this.addresses = List.copyOf(settings.shards.keySet());
        Owners owners = new Owners();
        this.first = new FirstPhase(settings, master, owners, counters);
        this.second = new SecondPhase(settings, owners);
        this.http = new Http(listen, this::serve);
    }

    /** The port at which it listens. */
    public int port() {
        return http.port();
    }

    /** The coordinator's parameter {@code shards}: an address for each shard. */
    public String shards(String host) {
        List<String> numbered = new ArrayList<>();
        for (String address : addresses) {
            String path = address.substring(address.indexOf('/'));
            numbered.add(host + ":" + port() + "/shard/" + numbered.size() + path);
        }
        return String.join(",", numbered);
    }

    /** Waits until it is closed. */
    void join() throws InterruptedException {
        http.join();
    }

    @Override
    public void close() {
        http.close();
        master.close();
    }

    private Http.Answer serve(String method, String path, String query, byte[] body) {
        if (path.equals("/treefold/counters")) {
            return new Http.Answer(200, "text/plain; charset=utf-8", counters.lines().getBytes(StandardCharsets.UTF_8));
        }
        try {
            if (!path.endsWith("/select")) {
                throw new Failure(Reason.PATH, 404,
                        "Treefold's stand has no " + path + "; it answers a coordinator's /select");
            }
            Matcher numbered = NUMBERED.matcher(path);
            boolean isNumbered = numbered.matches();
            int number = isNumbered ? Integer.parseInt(numbered.group(1)) : 0;
            if (number >= addresses.size()) {
                throw new Failure(Reason.PATH, 404, "Treefold's stand has no shard " + number + " of " + addresses.size());
            }
            Form form = Form.read(query + "&" + new String(body, StandardCharsets.UTF_8));
            return isNumbered ? numbered(number, form) : answer(0, form, Plan.of(form));
        } catch (Failure failure) {
            return refuse(failure);
        } catch (InterruptedException error) {
            return refuse(new Failure(Reason.STAND, 503, "the stand is closed"));
        } catch (IllegalArgumentException error) {
            return refuse(new Failure(Reason.MALFORMED, 400, String.valueOf(error.getMessage())));
        } catch (RuntimeException error) {
            return refuse(new Failure(Reason.STAND, 500, "the stand: " + error));
        } catch (OutOfMemoryError | StackOverflowError error) {
            return refuse(new Failure(Reason.STAND, 503, "the stand: " + error));
        }
    }

    private Http.Answer refuse(Failure failure) {
        counters.add(failure);
        return new Http.Answer(failure.code(), Javabin.TYPE, Javabin.error(failure.code(), failure.getMessage()));
    }

    private Http.Answer numbered(int number, Form form) throws Failure, InterruptedException {
        Plan plan;
        try {
            plan = Plan.of(form);
        } catch (Failure notFolded) {
            return pass(number, form, notFolded.reason());
        } catch (IllegalArgumentException malformed) {
            return pass(number, form, Reason.MALFORMED);
        }
        // Documents of a folded query came from number 0, so others are asked for their own.
        return plan.phase() == 2 && number > 0 ? pass(number, form, Reason.OWN) : answer(number, form, plan);
    }

    private Http.Answer answer(int number, Form form, Plan plan) throws Failure, InterruptedException {
        long began = System.nanoTime();
        NamedList<Object> reply;
        if (plan.phase() == 2) {
            reply = second.reply(form);
            counters.add(Counters.FIELDS);
        } else if (number == 0) {
            reply = first.reply(form, plan);
            counters.add(Counters.FOLDED);
        } else {
            reply = first.nothing(form, plan);
            counters.add(Counters.NOTHING);
        }
        header(reply).add("QTime", (int) ((System.nanoTime() - began) / 1_000_000));
        return new Http.Answer(200, Javabin.TYPE, Javabin.write(reply));
    }

    private Http.Answer pass(int number, Form form, Reason reason) throws Failure, InterruptedException {
        counters.addPassed(reason);
        String shard = addresses.get(number);
        try {
            HttpResponse<byte[]> answer =
                    Shard.post(shard + "/select", form, SHARD_TIMEOUT, Shard.REPLY_BYTES_MAX).get();
            String type = answer.headers().firstValue("Content-Type").orElse(Javabin.TYPE);
            return new Http.Answer(answer.statusCode(), type, answer.body());
        } catch (ExecutionException error) {
            throw Shard.failure(shard, error.getCause());
        }
    }

    @SuppressWarnings("unchecked")
    private static NamedList<Object> header(NamedList<Object> reply) {
        return (NamedList<Object>) reply.get("responseHeader");
    }
}
