package treefold.solr;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import treefold.push.Master;
import treefold.push.Treefold;
import treefold.push.Worker;

/** An unmodified coordinator and unmodified shards, with and without relays between them: the answers are equal. */
@Timeout(300)
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
final class SolrTest {
    private static final int SHARDS = 3;
    private static final int DOCUMENTS = 600;
    private static final int QUERIES = Integer.getInteger("treefold.solr.queries", 300);
    private static final long SEED = Long.getLong("treefold.solr.seed", 20261126L);
    private static final String[] WORDS = {
        "tree", "leaf", "root", "branch", "fold", "relay", "shard", "query", "node", "wave", "push", "merge", "rank", "score",
    };

    @TempDir
    static Path folder;

    private static final List<RealSolr> SHARD_NODES = new ArrayList<>();
    private static final List<Agent> AGENTS = new ArrayList<>();
    private static List<Treefold> relays = List.of();
    private static RealSolr coordinator;
    private static Stand stand;
    private static String plain;
    /** The stand's one address. */
    private static String folded;
    /** Its addresses for each shard. */
    private static String numbered;

    @BeforeAll
    static void start() throws Exception {
        Treefold.command();
        relays = Treefold.relays(3, "solr");
        coordinator = new RealSolr(folder.resolve("coordinator"));
        Map<String, RealSolr> byAddress = new TreeMap<>();
        Random random = new Random(SEED);
        List<StringBuilder> documents = new ArrayList<>();
        for (int at = 0; at < SHARDS; at++) {
            RealSolr shard = new RealSolr(folder.resolve("shard-" + at));
            SHARD_NODES.add(shard);
            byAddress.put(shard.address(), shard);
            documents.add(new StringBuilder("["));
        }
        for (int id = 0; id < DOCUMENTS; id++) {
            StringBuilder shard = documents.get(random.nextInt(SHARDS));
            shard.append(shard.length() == 1 ? "" : ",").append(document(id, random));
        }
        for (int at = 0; at < SHARDS; at++) {
            SHARD_NODES.get(at).add(documents.get(at) + "]");
        }
        Map<String, String> agents = new TreeMap<>();
        String[] addresses = relays.stream().map(Treefold::address).toArray(String[]::new);
        int number = 0;
        for (String address : byAddress.keySet()) {
            Agent agent = new Agent(new InetSocketAddress("127.0.0.1", 0), address, number,
                    Worker.builder("solr", number).at(addresses).spread());
            number++;
            AGENTS.add(agent);
            agents.put(address, "127.0.0.1:" + agent.port());
        }
        stand = new Stand(new InetSocketAddress("127.0.0.1", 0),
                new Stand.Settings("solr", "id", agents, Duration.ofSeconds(10)), Master.connect(addresses));
        plain = String.join(",", byAddress.keySet());
        folded = "127.0.0.1:" + stand.port() + "/solr/docs";
        numbered = stand.shards("127.0.0.1");
    }

    @AfterAll
    static void end() throws Exception {
        if (stand != null) {
            stand.close();
        }
        AGENTS.forEach(Agent::close);
        for (RealSolr shard : SHARD_NODES) {
            shard.close();
        }
        if (coordinator != null) {
            coordinator.close();
        }
        Treefold.killAll(relays);
    }

    private static String document(int id, Random random) {
        StringBuilder text = new StringBuilder();
        for (int word = random.nextInt(12) + 1; word > 0; word--) {
            text.append(WORDS[Math.min(random.nextInt(WORDS.length), random.nextInt(WORDS.length))]).append(' ');
        }
        return String.format("{\"id\":\"doc,%d é\",\"text\":\"%s\",\"n\":%d,\"l\":%d,\"price\":%s,\"d\":%s,\"at\":\"%s\","
                + "\"name\":\"%s\",\"cat\":[\"%s\",\"%s\"]%s%s%s%s}",
                id, text.toString().trim(), random.nextInt(40) - 20, random.nextLong() >> random.nextInt(64),
                (random.nextInt(200) - 100) / 4f, random.nextGaussian() * 1e10,
                java.time.Instant.ofEpochSecond(1_700_000_000L + random.nextInt(1_000)),
                WORDS[random.nextInt(WORDS.length)] + (random.nextInt(3) == 0 ? "é" : ""),
                "cat " + random.nextInt(25), "rare:" + random.nextInt(200),
                random.nextInt(3) == 0 ? ",\"sometimes\":\"s" + random.nextInt(9) + "\"" : "",
                random.nextInt(3) > 0 ? ",\"any_first\":\"" + "fx".charAt(random.nextInt(2)) + "\"" : "",
                random.nextInt(3) > 0 ? ",\"last\":\"" + "é".repeat(random.nextInt(4)) + "\"" : "",
                random.nextInt(3) > 0 ? ",\"numberLast\":" + (random.nextInt(9) - 4) : "");
    }

    private static Form query(String... pairs) {
        Form form = new Form();
        for (int at = 0; at < pairs.length; at += 2) {
            form.add(pairs[at], pairs[at + 1]);
        }
        return form;
    }

    private static String ask(Form form, String shards) throws Exception {
        Form sent = form.copy();
        sent.set("shards", shards);
        sent.set("echoParams", "none");
        return coordinator.select(sent);
    }

    private static String assertEqual(Form form) throws Exception {
        String expected = ask(form, plain);
        assertEquals(expected, ask(form, folded), () -> "seed " + SEED + ", query " + form.encode());
        assertEquals(expected, ask(form, numbered), () -> "numbered, seed " + SEED + ", query " + form.encode());
        return expected;
    }

    private static String counters() throws Exception {
        return counters(stand);
    }

    private static String counters(Stand stand) throws Exception {
        HttpRequest request =
                HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + stand.port() + "/treefold/counters")).build();
        return HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body();
    }

    private static long folded() throws Exception {
        return Long.parseLong(counters().replaceAll("(?s).*folded\t([0-9]+).*", "$1"));
    }

    @Test
    @Order(1)
    void answers_equal_those_of_plain_solr() throws Exception {
        assertTrue(assertEqual(query("q", "*:*")).contains("\"numFound\":" + DOCUMENTS));
        assertEqual(query("q", "text:tree", "fl", "*,score"));
        assertEqual(query("q", "text:nowhere", "fl", "*,score"));
        assertEqual(query("q", "text:tree", "rows", "0"));
        assertEqual(query("q", "text:tree", "rows", "0", "fl", "id,score"));
        assertEqual(query("q", "text:tree", "fl", "id,score"));
        assertEqual(query("q", "text:tree", "fl", "id,text", "distrib.singlePass", "true"));
        assertEqual(query("q", "text:tree", "sort", "n desc", "rows", "7", "start", "3"));
        assertEqual(query("q", "text:tree", "sort", "n desc", "fl", "id,score"));
        assertEqual(query("q", "text:nowhere", "sort", "n desc, name asc"));
        assertEqual(query("q", "text:tree", "facet", "true", "facet.field", "cat", "facet.field", "name", "facet.mincount", "1"));
        assertEqual(query("q", "text:tree", "hl", "true", "hl.fl", "text", "rows", "5"));
        assertEqual(query("q", "text:tree", "debug", "results", "rows", "12"));
        assertEqual(query("q", "text:tree", "debug", "query", "sort", "n asc", "hl", "true", "hl.fl", "text"));
        assertTrue(counters().contains("folded\t"), counters());
    }

    @Test
    @Order(2)
    void answers_to_generated_queries_equal_those_of_plain_solr() throws Exception {
        Random random = new Random(SEED);
        for (int count = 0; count < QUERIES; count++) {
            String answer = assertEqual(generated(random));
            assertTrue(answer.contains("\"numFound\""), answer);
        }
        long reductions = 0;
        for (Treefold relay : relays) {
            reductions += Long.parseLong(relay.status().replaceAll(".*\"reductions_run\":([0-9]+).*", "$1"));
        }
        assertTrue(reductions >= QUERIES, "the relays have folded " + reductions + " times");
    }

    private static Form generated(Random random) {
        Form form = new Form();
        StringBuilder q = new StringBuilder();
        for (int word = random.nextInt(3) + 1; word > 0; word--) {
            q.append(random.nextBoolean() ? "text:" : "+text:").append(WORDS[random.nextInt(WORDS.length)]).append(' ');
        }
        form.set("q", random.nextInt(8) == 0 ? "*:*" : q.toString().trim());
        if (random.nextInt(3) == 0) {
            form.add("fq", "n:[" + (random.nextInt(20) - 20) + " TO " + random.nextInt(20) + "]");
        }
        List<String> clauses = new ArrayList<>();
        String[] fields = {"n", "l", "price", "d", "at", "name", "score", "id", "sum(n,price)",
            "sometimes", "any_first", "last", "numberLast"};
        for (int clause = random.nextInt(4); clause > 0; clause--) {
            String field = fields[random.nextInt(fields.length)];
            clauses.add(field + (random.nextBoolean() ? " asc" : " desc"));
        }
        if (!clauses.isEmpty()) {
            form.set("sort", String.join(", ", clauses));
        }
        form.set("rows", random.nextInt(5) == 0 ? 0 : random.nextInt(40));
        form.set("start", random.nextInt(3) == 0 ? random.nextInt(30) : 0);
        String[] lists = {"*", "*,score", "id", "id,score", "id,name,cat", "score,n"};
        form.set("fl", lists[random.nextInt(lists.length)]);
        if (random.nextInt(3) == 0) {
            form.set("facet", "true");
            form.add("facet.field", "cat");
            form.add("facet.field", random.nextBoolean() ? "name" : "sometimes");
            // A lesser limit cuts the lists of plain Solr's shards, which then may miss a term.
            int[] limits = {-1, 300, 0};
            form.set("facet.limit", limits[random.nextInt(limits.length)]);
            if (random.nextBoolean()) {
                form.add("facet.query", "text:" + WORDS[random.nextInt(WORDS.length)]);
                form.add("facet.query", "n:[0 TO 5]");
            }
            form.set("facet.mincount", random.nextInt(3));
            if (random.nextBoolean()) {
                form.set("facet.sort", random.nextBoolean() ? "index" : "count");
            }
            form.set("f.sometimes.facet.missing", random.nextBoolean());
        }
        if (random.nextInt(4) == 0) {
            buckets(form, random);
        }
        if (random.nextInt(4) == 0) {
            String order = random.nextBoolean() ? "count" : "index";
            form.set("json.facet", String.format("{cats:{type:terms,field:cat,limit:%d,mincount:%d},"
                    + "'num bers':{type:terms,field:n,limit:-1,sort:%s},few:{type:query,q:'text:%s'}}",
                    random.nextBoolean() ? -1 : 250, random.nextInt(3) + 1, order, WORDS[random.nextInt(WORDS.length)]));
        }
        if (random.nextInt(5) == 0) {
            form.set("hl", "true");
            form.set("hl.fl", "text");
        }
        if (random.nextInt(6) == 0) {
            form.set("distrib.singlePass", "true");
            form.remove("hl");
        }
        return form;
    }

    private static void buckets(Form form, Random random) {
        form.set("facet", "true");
        form.add("facet.range", random.nextBoolean() ? "n" : "price");
        form.set("facet.range.start", -15);
        form.set("facet.range.end", 14);
        form.set("facet.range.gap", random.nextInt(9) + 1);
        form.set("facet.range.hardend", random.nextBoolean());
        String[] others = {"all", "none", "before", "between"};
        form.set("facet.range.other", others[random.nextInt(others.length)]);
        if (random.nextBoolean()) {
            form.add("facet.range", "at");
            form.set("f.at.facet.range.start", "2023-11-14T22:13:00Z");
            form.set("f.at.facet.range.end", "2023-11-14T22:25:00Z");
            form.set("f.at.facet.range.gap", "+" + (random.nextInt(5) + 1) + "MINUTES");
        }
        if (random.nextBoolean()) {
            form.add("facet.interval", "n");
            form.add("facet.interval.set", "[0,7]");
            form.add("facet.interval.set", "{!key='a few'}(-5,*]");
        }
        if (form.get("facet.mincount") == null) {
            form.set("facet.mincount", random.nextInt(3));
        }
    }

    @Test
    @Order(3)
    void facets_that_are_cut_have_exact_counts() throws Exception {
        Form form = query("q", "text:tree", "rows", "0", "facet", "true", "facet.field", "cat", "facet.limit", "-1");
        List<Map.Entry<String, Integer>> terms = new ArrayList<>();
        Matcher each = Pattern.compile("\"([^\"]+)\",([0-9]+)").matcher(facets(ask(form, plain)));
        while (each.find()) {
            terms.add(Map.entry(each.group(1), Integer.valueOf(each.group(2))));
        }
        for (String sort : List.of("count", "index")) {
            Comparator<Map.Entry<String, Integer>> byTerm = Map.Entry.comparingByKey();
            Comparator<Map.Entry<String, Integer>> byCount = Map.Entry.<String, Integer>comparingByValue().reversed();
            StringBuilder expected = new StringBuilder();
            terms.stream().filter(term -> term.getValue() >= 3).sorted(sort.equals("count") ? byCount.thenComparing(byTerm) : byTerm)
                    .limit(12).forEach(term -> expected.append('"' + term.getKey() + "\"," + term.getValue() + ","));
            form.set("facet.limit", 12);
            form.set("facet.mincount", 3);
            form.set("facet.sort", sort);
            assertEquals(expected.toString(), facets(ask(form, folded)) + ",");
        }
    }

    private static String facets(String answer) {
        return answer.replaceAll("(?s).*\"cat\":\\[([^]]*)\\].*", "$1");
    }

    @Test
    @Order(3)
    void answers_to_many_queries_at_a_time_equal_those_of_plain_solr() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(16);
        List<Future<String>> asked = new ArrayList<>();
        for (int thread = 0; thread < 16; thread++) {
            Random random = new Random(SEED + thread);
            asked.add(threads.submit(() -> {
                for (int count = 0; count < 20; count++) {
                    assertEqual(generated(random));
                }
                return "equal";
            }));
        }
        for (Future<String> thread : asked) {
            assertEquals("equal", thread.get());
        }
        threads.shutdown();
    }

    @Test
    @Order(3)
    void coordinator_with_http_1_1_gets_the_same_answers() throws Exception {
        System.setProperty("solr.http1", "true");
        try (RealSolr old = new RealSolr(folder.resolve("http-1"))) {
            Form form = query("q", "text:tree", "fl", "*,score", "shards", plain, "echoParams", "none");
            String expected = old.select(form);
            form.set("shards", folded);
            assertEquals(expected, old.select(form));
            assertTrue(expected.contains("\"docs\":[{"), expected);
        } finally {
            System.clearProperty("solr.http1");
        }
    }

    @Test
    @Order(3)
    void cursor_walks_over_all_documents_as_in_plain_solr() throws Exception {
        List<String> walks = new ArrayList<>();
        for (String shards : List.of(plain, folded)) {
            StringBuilder walk = new StringBuilder();
            String mark = "*";
            for (int step = 0; step < 30; step++) {
                Form form = query("q", "*:*", "sort", "n asc, id asc", "rows", "50", "cursorMark", mark, "fl", "id");
                String answer = ask(form, shards);
                walk.append(answer);
                String next = answer.replaceAll("(?s).*\"nextCursorMark\":\"([^\"]*)\".*", "$1");
                if (next.equals(mark)) {
                    break;
                }
                mark = next;
            }
            walks.add(walk.toString());
        }
        assertEquals(walks.get(0), walks.get(1));
        assertEquals(DOCUMENTS, walks.get(1).split("\"id\":").length - 1);
    }

    @Test
    @Order(4)
    void errors_of_a_query_are_those_of_the_shards() throws Exception {
        String expected = ask(query("q", "nofield:x"), plain);
        String given = ask(query("q", "nofield:x"), folded);
        assertTrue(expected.contains("\"code\":400") && given.contains("\"code\":400"), given);
        assertTrue(given.contains("undefined field nofield"), given);
    }

    @Test
    @Order(5)
    void queries_that_are_not_folded_are_refused_by_name_and_counted() throws Exception {
        String[][] refused = {
            {"group", "true", "group.field", "name"}, {"json.facet", "{x:\"sum(n)\"}"},
            {"json.facet", "{x:{type:terms,field:cat,facet:{y:\"sum(n)\"}}}"}, {"json.facet", "{x:{type:range,field:n,start:0,end:9,gap:3}}"}, {"stats", "true", "stats.field", "n"},
            {"facet", "true", "facet.pivot", "name,n"},
            {"facet", "true", "facet.field", "{!key=c}cat"}, {Plan.FOLD, "false"}, {"rows", "70000"},
        };
        for (String[] extra : refused) {
            Form form = query(extra);
            form.set("q", "*:*");
            String answer = ask(form, folded);
            assertTrue(answer.contains("\"code\":400"), extra[0] + ": " + answer);
            assertTrue(answer.contains("fold"), extra[0] + ": " + answer);
        }
        assertTrue(counters().contains("refused: group\t"), counters());
    }

    /** Plain Solr orders expanded groups by the arrival of its shards' replies. */
    private static String sorted(Form form, String answer) {
        return form.flag("expand") ? answer.lines().sorted().collect(Collectors.joining("\n")) : answer;
    }

    /** A query with a part that is not folded. */
    private static Form notFolded(Random random, int count) {
        Form form = generated(random);
        form.set("rows", random.nextInt(20));
        form.set("start", 0);
        String word = WORDS[random.nextInt(WORDS.length)];
        switch (count % 12) {
            case 0 -> {
                form.set("group", "true");
                form.set("group.field", random.nextBoolean() ? "name" : "n");
                form.set("group.limit", random.nextInt(3) + 1);
                form.set("group.ngroups", random.nextBoolean());
                // Plain Solr orders ties of a group by the arrival of its shards' replies.
                form.set("sort", form.get("sort", "score desc") + ", id asc");
                form.remove("hl");
                form.remove("distrib.singlePass");
            }
            case 1 -> {
                form.set("stats", "true");
                form.add("stats.field", "n");
                form.add("stats.field", "price");
            }
            case 2 -> {
                form.set("facet", "true");
                form.add("facet.range", "{!key=r}n");
                form.set("facet.range.start", -20);
                form.set("facet.range.end", 20);
                form.set("facet.range.gap", random.nextInt(9) + 1);
            }
            case 3 -> {
                form.set("facet", "true");
                form.set("facet.pivot", "name,n");
                form.set("facet.pivot.mincount", random.nextInt(3) + 1);
            }
            case 4 -> form.set("json.facet", "{x:{type:terms,field:name,limit:" + (random.nextInt(5) + 1)
                    + ",refine:true,facet:{s:'sum(n)',t:{type:terms,field:n,limit:3,refine:true}}},m:'max(price)',u:'unique(cat)'}");
            case 5 -> form.set("json.facet", "{r:{type:range,field:n,start:-20,end:20,gap:" + (random.nextInt(9) + 1)
                    + ",facet:{a:'avg(price)'}}}");
            case 6 -> {
                // Facets add times to debug.
                form.set("facet", "false");
                form.remove("json.facet");
                form.set("debug", random.nextBoolean() ? "query" : "results");
            }
            case 7 -> {
                form.remove("sort");
                form.set("rq", "{!rerank reRankQuery=$again reRankDocs=30 reRankWeight=3}");
                form.set("again", "text:" + word);
            }
            case 8 -> {
                form.add("fq", "{!collapse field=n}");
                form.set("expand", random.nextBoolean());
                form.remove("hl");
            }
            case 9 -> {
                form.set("facet", "true");
                form.add("facet.field", "{!key=other}cat");
                form.set("facet.limit", 5);
            }
            case 10 -> form.set("rows", Plan.K_MAX + 1);
            default -> form.add("fq", "{!collapse field=n sort='id asc'}");
        }
        if (count / 12 % 2 == 1) {
            form.set(Plan.FOLD, "false");
        }
        return form;
    }

    @Test
    @Order(3)
    void queries_that_are_not_folded_are_passed_on_and_the_answers_are_those_of_plain_solr() throws Exception {
        Random random = new Random(SEED + 7);
        for (int count = 0; count < QUERIES; count++) {
            Form form = notFolded(random, count);
            String expected = ask(form, plain);
            assertEquals(sorted(form, expected), sorted(form, ask(form, numbered)),
                    () -> "seed " + SEED + ", query " + form.encode());
            assertTrue(expected.contains("\"status\":0"), () -> form.encode() + expected);
        }
        for (String counted : new String[] {"group", "stats", "facet.pivot", "json.facet", "rq", "rows",
            "collapse", "local parameters of facets", "treefold.fold=false", "fields of its own documents"}) {
            assertTrue(counters().contains("passed on: " + counted + "\t"), counters());
        }
    }

    @Test
    @Order(6)
    void relay_that_is_killed_costs_no_document() throws Exception {
        Form form = query("q", "*:*", "rows", "100", "sort", "l desc", "facet", "true", "facet.field", "cat");
        String expected = ask(form, plain);
        relays.get(1).kill();
        for (int count = 0; count < 10; count++) {
            assertEquals(expected, ask(form, folded));
        }
    }

    @Test
    @Order(7)
    void relay_that_leads_is_killed_under_load_and_every_answer_is_whole() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(8);
        List<Future<Integer>> asked = new ArrayList<>();
        for (int thread = 0; thread < 8; thread++) {
            Random random = new Random(SEED + 100 + thread);
            asked.add(threads.submit(() -> {
                for (int count = 0; count < 15; count++) {
                    assertEqual(generated(random));
                }
                return 15;
            }));
        }
        long before = folded();
        Treefold.until("queries are under way", () -> folded() > before + 20);
        relays.get(0).kill();
        for (Future<Integer> thread : asked) {
            assertEquals(15, thread.get());
        }
        threads.shutdown();
    }

    @Test
    @Order(8)
    void relay_that_is_stopped_delays_a_query_and_no_more() throws Exception {
        List<Treefold> own = Treefold.relays(2, "other");
        List<Agent> agents = new ArrayList<>();
        try (Stand second = second("other", own, agents, Map.of(), Duration.ofSeconds(20))) {
            Form form = query("q", "*:*", "rows", "100", "sort", "l desc");
            String expected = ask(form, plain);
            String stood = "127.0.0.1:" + second.port() + "/solr/docs";
            assertEquals(expected, ask(form, stood));
            own.get(0).stop();
            assertEquals(expected, ask(form, stood), "it led the query, and two agents were attached to it");
            assertEquals(expected, ask(form, stood));
        } finally {
            agents.forEach(Agent::close);
            Treefold.killAll(own);
        }
    }

    @Test
    @Order(8)
    void relays_that_are_all_killed_cost_no_answer() throws Exception {
        List<Treefold> own = Treefold.relays(2, "lost");
        Random random = new Random(SEED + 9);
        List<Agent> agents = new ArrayList<>();
        try (Stand second = second("lost", own, agents, Map.of(), Duration.ofSeconds(20))) {
            String[] stood = {"127.0.0.1:" + second.port() + "/solr/docs", second.shards("127.0.0.1")};
            Treefold.killAll(own);
            for (int count = 0; count < 30; count++) {
                Form form = generated(random);
                String expected = ask(form, plain);
                for (String shards : stood) {
                    assertEquals(expected, ask(form, shards), () -> "seed " + SEED + ", query " + form.encode());
                }
            }
            assertTrue(counters(second).contains("folded without relays\t60\n"), counters(second));
            String wrong = ask(query("q", "nofield:x"), stood[0]);
            assertTrue(wrong.contains("undefined field nofield"), wrong);
        } finally {
            agents.forEach(Agent::close);
        }
    }

    @Test
    @Order(8)
    void shard_that_hangs_is_an_error_or_a_partial_answer_at_the_deadline() throws Exception {
        List<Treefold> own = Treefold.relays(1, "hang");
        List<Agent> agents = new ArrayList<>();
        try (ServerSocket silent = new ServerSocket(0)) {
            String address = "127.0.0.1:" + silent.getLocalPort() + "/solr/docs";
            try (Stand second = second("hang", own, agents, Map.of(address, ""), Duration.ofSeconds(8))) {
                Form form = query("q", "*:*", "rows", "20", "sort", "n asc, id asc", "fl", "id");
                String expected = found(ask(form, plain));
                for (String shards : List.of("127.0.0.1:" + second.port() + "/solr/docs", second.shards("127.0.0.1"))) {
                    form.remove("shards.tolerant");
                    String strict = ask(form, shards);
                    assertTrue(strict.contains("\"code\":503") && strict.contains(address), strict);
                    form.set("shards.tolerant", "true");
                    String tolerant = ask(form, shards);
                    assertTrue(tolerant.contains("\"partialResults\":true"), tolerant);
                    assertEquals(expected, found(tolerant));
                }
            }
        } finally {
            agents.forEach(Agent::close);
            Treefold.killAll(own);
        }
    }

    /** A stand of its own relays for the same shards, and others. It adds its agents to the list. */
    private static Stand second(
            String application, List<Treefold> relays, List<Agent> agents, Map<String, String> others, Duration deadline)
            throws Exception {
        String[] addresses = relays.stream().map(Treefold::address).toArray(String[]::new);
        Map<String, String> shards = new TreeMap<>(others);
        for (String address : plain.split(",")) {
            shards.put(address, "");
        }
        for (Map.Entry<String, String> shard : shards.entrySet()) {
            int number = agents.size();
            agents.add(new Agent(new InetSocketAddress("127.0.0.1", 0), shard.getKey(), number,
                    Worker.builder(application, number).at(addresses).spread()));
            shard.setValue("127.0.0.1:" + agents.get(number).port());
        }
        return new Stand(new InetSocketAddress("127.0.0.1", 0), new Stand.Settings(application, "id", shards, deadline),
                Master.connect(addresses));
    }

    @Test
    @Order(9)
    void agent_whose_number_another_program_has_taken_is_an_error() throws Exception {
        try (Worker other = Worker.builder("solr", 0).at(relays.get(2).address()).attach()) {
            Treefold.until("the other is attached", () -> other.attachedTo() != null);
            String address = plain.split(",")[0];
            Treefold.until("the agent is told", () -> ask(query("q", "*:*"), folded).contains("has detached"));
            String answer = ask(query("q", "*:*"), folded);
            assertTrue(answer.contains("the agent of " + address), answer);
        }
        AGENTS.get(0).close();
        Agent again = new Agent(new InetSocketAddress("127.0.0.1", AGENTS.get(0).port()), plain.split(",")[0], 0,
                Worker.builder("solr", 0).at(relays.get(2).address()));
        AGENTS.set(0, again);
        assertEqual(query("q", "*:*"));
    }

    @Test
    @Order(10)
    void shard_that_is_killed_is_an_error_or_a_partial_answer() throws Exception {
        SHARD_NODES.get(0).close();
        Form form = query("q", "*:*", "rows", "20", "fl", "id,name", "sort", "n asc");
        String strict = ask(form, folded);
        assertTrue(strict.contains("\"code\":500"), strict);
        assertTrue(strict.contains("does not answer"), strict);
        form.set("shards.tolerant", "true");
        String tolerant = ask(form, folded);
        assertTrue(tolerant.contains("\"partialResults\":true"), tolerant);
        assertEquals(20, tolerant.split("\"id\":").length - 1);
        assertFalse(tolerant.contains("\"numFound\":" + DOCUMENTS), tolerant);
        String expected = ask(form, plain);
        assertEquals(found(expected), found(tolerant));
        String each = ask(form, numbered);
        assertTrue(each.contains("\"partialResults\":true"), each);
        assertEquals(found(expected), found(each));
        form.set("group", "true");
        form.set("group.field", "n");
        String passed = ask(form, numbered);
        assertTrue(passed.contains("\"partialResults\":true") && passed.contains("\"groupValue\":"), passed);
        form.remove("shards.tolerant");
        assertTrue(ask(form, plain).contains("\"status\":500") && ask(form, numbered).contains("\"status\":500"));
    }

    private static String found(String answer) {
        return answer.substring(answer.indexOf("\"response\""));
    }
}
