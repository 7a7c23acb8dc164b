package treefold.hadoop;

import java.io.IOException;
import java.net.http.HttpRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.hadoop.mapred.JobConf;
import treefold.hadoop.Orders.Attached;

/**
 * A reducer's tree of combiners. Each relay's combiner combines what the agents of this relay push. One of them, the root,
 * also combines the results of the others, and pushes for the reducer.
 */
final class Combiners {
    private final Settings settings;
    private final Questions questions;
    private final String jar;
    private final TreeMap<String, String> properties;

    /**
     * Reads what combiners need of a job.
     *
     * @throws IOException if the job's jar can't be read
     */
    Combiners(Settings settings, Questions questions, JobConf job) throws IOException {
        this.settings = settings;
        this.questions = questions;
        this.jar = CombineOrder.jar(job);
        this.properties = CombineOrder.properties(job);
    }

    /**
     * The orders to all combiners of a try.
     *
     * @param root the number of the worker that pushes for the reducer
     * @param orders the orders, by the combiner's address
     * @param requests the first request for which each agent pushes, by the address of its ShuffleHandler
     */
    record Plan(int root, Map<String, CombineOrder> orders, Map<String, Long> requests) { }

    /**
     * Plans a tree of the combiners that answer. Agents of a relay whose combiner does not are the root's.
     *
     * @param like the order of the reducer
     * @param agents the agents, by the address of their ShuffleHandler
     * @param relays the relays; the combiner of the first one that has any is the root
     * @throws Plain if no combiner answers
     * @throws Wave.AgainException if two workers have one number
     */
    Plan plan(Order like, Map<String, Attached> agents, List<String> relays)
            throws Plain, Wave.AgainException, InterruptedException {
        TreeMap<String, Attached> combiners = combiners();
        List<String> ordered = relays.stream().map(settings.combiners()::get).filter(combiners::containsKey).toList();
        String root = ordered.isEmpty() ? combiners.firstKey() : ordered.get(0);
        TreeMap<String, List<String>> handlers = new TreeMap<>();
        agents.forEach((handler, agent) -> {
            String combiner = settings.combiners().getOrDefault(agent.relay(), root);
            handlers.computeIfAbsent(combiners.containsKey(combiner) ? combiner : root, unused -> new ArrayList<>()).add(handler);
        });
        List<Integer> ofRoot = new ArrayList<>(numbers(handlers.remove(root), agents));
        handlers.keySet().forEach(combiner -> ofRoot.add(combiners.get(combiner).number()));
        checkNumbers(agents, combiners);

        Map<String, CombineOrder> orders = new TreeMap<>();
        Map<String, Long> requests = new TreeMap<>();
        CombineOrder first = order(like, like.request(), ofRoot);
        long request = first.request();
        orders.put(root, first);
        agents.keySet().forEach(handler -> requests.put(handler, request));
        handlers.forEach((combiner, own) -> {
            CombineOrder order = order(like, request, numbers(own, agents));
            orders.put(combiner, order);
            own.forEach(handler -> requests.put(handler, order.request()));
        });
        return new Plan(combiners.get(root).number(), orders, requests);
    }

    private static List<Integer> numbers(List<String> handlers, Map<String, Attached> agents) {
        return handlers == null ? List.of() : handlers.stream().map(handler -> agents.get(handler).number()).toList();
    }

    private static void checkNumbers(Map<String, Attached> agents, Map<String, Attached> combiners)
            throws Wave.AgainException {
        Set<Integer> numbers = new HashSet<>();
        for (Attached agent : agents.values()) {
            numbers.add(agent.number());
        }
        for (Attached combiner : combiners.values()) {
            if (!numbers.add(combiner.number())) {
                throw new Wave.AgainException("two agents or combiners have the number " + combiner.number());
            }
        }
    }

    private CombineOrder order(Order like, long into, List<Integer> workers) {
        Duration deadline = settings.deadline();
        return new CombineOrder(like.job(), like.reduce(), into, like.wanted(), (int) deadline.toSeconds(),
                workers.stream().mapToInt(Integer::intValue).sorted().toArray(), jar, properties);
    }

    /** The combiners that answer, by their addresses. */
    private TreeMap<String, Attached> combiners() throws Plain, InterruptedException {
        Map<String, HttpRequest> requests = new TreeMap<>();
        for (String address : settings.combiners().values()) {
            requests.put(address, Questions.to(address, "/worker").GET().build());
        }
        Map<String, String> answers = new TreeMap<>();
        TreeMap<String, Plain> failures = new TreeMap<>();
        questions.send("combiner", requests, 200, answers, failures);
        TreeMap<String, Attached> combiners = new TreeMap<>();
        answers.forEach((address, answer) -> Attached.read(answer).ifPresent(found -> combiners.put(address, found)));
        if (combiners.isEmpty()) {
            throw new Plain("no combiner answers: " + failures.values().stream().map(Throwable::getMessage).toList());
        }
        return combiners;
    }

    /**
     * Gives the combiners their orders.
     *
     * @throws Plain if one refuses, for example because it does not have the job's jar
     */
    void order(Plan plan) throws Plain, InterruptedException {
        Map<String, HttpRequest> orders = new TreeMap<>();
        for (Map.Entry<String, CombineOrder> each : plan.orders.entrySet()) {
            orders.put(each.getKey(), Questions.to(each.getKey(), "/combine")
                    .POST(HttpRequest.BodyPublishers.ofString(each.getValue().text())).build());
        }
        questions.ask("combiner", orders, 202);
    }
}
