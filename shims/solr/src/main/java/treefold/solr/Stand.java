package treefold.solr;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.LongAdder;
import org.apache.solr.common.SolrDocument;
import org.apache.solr.common.SolrDocumentList;
import org.apache.solr.common.util.NamedList;
import org.apache.solr.common.util.SimpleOrderedMap;
import treefold.push.Announcement;
import treefold.push.Master;
import treefold.push.Missing;
import treefold.push.PushException;
import treefold.push.Reply;
import treefold.push.UnreachableException;
import treefold.push.WorkerSet;

/**
 * The one shard that a coordinator is given: it stands for many. The first phase of a query goes to the agents of all shards,
 * and their replies come back folded by the relays, as one. The second phase goes to the owners of the documents.
 *
 * <p>{@code GET /treefold/counters} shows how many requests were folded, passed to owners, and refused by reason.
 */
public final class Stand implements AutoCloseable {
    private static final Duration SHARD_TIMEOUT = Duration.ofSeconds(60);
    private static final int REASONS_MAX = 64;
    private static final SecureRandom RANDOM = new SecureRandom();

    private final Settings settings;
    private final Master master;
    private final Http http;
    private final Owners owners = new Owners();
    private final Map<String, LongAdder> counters = new ConcurrentSkipListMap<>();

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
        this.http = new Http(listen, this::serve);
    }

    /** The port at which it listens. */
    public int port() {
        return http.port();
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

    private void count(String what) {
        boolean hasRoom = counters.size() < REASONS_MAX || counters.containsKey(what);
        counters.computeIfAbsent(hasRoom ? what : "others", unused -> new LongAdder()).increment();
    }

    private Http.Answer serve(String method, String path, String query, byte[] body) {
        if (path.equals("/treefold/counters")) {
            StringBuilder lines = new StringBuilder();
            counters.forEach((what, count) -> lines.append(what).append('\t').append(count).append('\n'));
            return new Http.Answer(200, "text/plain; charset=utf-8", lines.toString().getBytes(StandardCharsets.UTF_8));
        }
        long began = System.nanoTime();
        try {
            if (!path.endsWith("/select")) {
                throw new Failure(404, "Treefold's stand has no " + path + "; it answers a coordinator's /select");
            }
            Form form = Form.read(query + "&" + new String(body, StandardCharsets.UTF_8));
            Plan plan = Plan.of(form);
            NamedList<Object> reply = plan.phase() == 1 ? first(form, plan) : second(form);
            count(plan.phase() == 1 ? "folded" : "fields");
            header(reply).add("QTime", (int) ((System.nanoTime() - began) / 1_000_000));
            return new Http.Answer(200, Javabin.TYPE, Javabin.write(reply));
        } catch (Failure failure) {
            count((failure.code() == 400 ? "refused: " : "failed: ") + failure.getMessage().split("[;:]")[0]);
            return new Http.Answer(failure.code(), Javabin.TYPE, Javabin.error(failure.code(), failure.getMessage()));
        } catch (IllegalArgumentException error) {
            return new Http.Answer(400, Javabin.TYPE, Javabin.error(400, String.valueOf(error.getMessage())));
        } catch (InterruptedException error) {
            return new Http.Answer(503, Javabin.TYPE, Javabin.error(503, "the stand is closed"));
        }
    }

    @SuppressWarnings("unchecked")
    private static NamedList<Object> header(NamedList<Object> reply) {
        return (NamedList<Object>) reply.get("responseHeader");
    }

    /** The first phase. If the relay that leads it is lost, another leads it anew, once. */
    private NamedList<Object> first(Form form, Plan plan) throws Failure, InterruptedException {
        try {
            return fold(form, plan);
        } catch (UnreachableException lost) {
            count("begun again");
        } catch (PushException error) {
            throw new Failure(503, "the relays: " + error.getMessage());
        }
        try {
            return fold(form, plan);
        } catch (PushException error) {
            throw new Failure(503, "the relays: " + error.getMessage());
        }
    }

    private NamedList<Object> fold(Form form, Plan plan) throws Failure, PushException, InterruptedException {
        boolean isTolerant = form.flag("shards.tolerant");
        Form sent = form.copy();
        Map<String, CompletableFuture<Reply>> parts = new LinkedHashMap<>();
        try {
            announce(parts, sent, Agent.COUNTS, "sum-lines", new byte[0], isTolerant);
            if (plan.k() > 0) {
                announce(parts, sent, Agent.ROWS, "top-k", Packets.topParams(plan.k()), isTolerant);
            }
            if (plan.wantsScore() && !plan.bestScoreIsFirst()) {
                announce(parts, sent, Agent.SCORE, "max", new byte[0], isTolerant);
            }
            tell(sent, isTolerant);
            Map<String, Reply> replies = new HashMap<>();
            for (Map.Entry<String, CompletableFuture<Reply>> part : parts.entrySet()) {
                replies.put(part.getKey(), part.getValue().get());
            }
            return assemble(form, plan, replies);
        } catch (ExecutionException error) {
            if (error.getCause() instanceof PushException known) {
                throw known;
            }
            throw new IllegalStateException("only a PushException ends a request", error);
        } finally {
            parts.values().forEach(part -> part.cancel(false));
        }
    }

    private void announce(
            Map<String, CompletableFuture<Reply>> parts, Form sent, String part, String reduce, byte[] params, boolean isTolerant)
            throws PushException {
        long request = RANDOM.nextLong();
        Announcement announcement = master
                .announce(settings.application + "/" + reduce, request, WorkerSet.range(0, settings.shards.size()))
                .params(params).deadline(settings.deadline).minCoverage(isTolerant ? 0 : 1);
        parts.put(part, announcement.send());
        sent.set(part, Long.toUnsignedString(request));
    }

    /** Sends the query to all agents. An agent that does not take it is a shard that does not answer. */
    private void tell(Form form, boolean isTolerant) throws Failure, InterruptedException {
        Map<String, CompletableFuture<HttpResponse<byte[]>>> told = new LinkedHashMap<>();
        settings.shards.forEach((shard, agent) -> told.put(shard, Shard.post(agent + Agent.PATH, form, settings.deadline)));
        for (Map.Entry<String, CompletableFuture<HttpResponse<byte[]>>> each : told.entrySet()) {
            try {
                HttpResponse<byte[]> answer = each.getValue().get();
                if (answer.statusCode() != 202 && !isTolerant) {
                    String problem = new String(answer.body(), StandardCharsets.UTF_8);
                    throw new Failure(answer.statusCode(), "the agent of " + each.getKey() + ": " + problem);
                }
            } catch (ExecutionException error) {
                if (!isTolerant) {
                    throw new Failure(503, "the agent of " + each.getKey() + " does not answer: " + error.getCause());
                }
            }
        }
    }

    private NamedList<Object> assemble(Form form, Plan plan, Map<String, Reply> replies) throws Failure {
        checkAnswered(replies.values());
        WorkerSet contributed = replies.get(Agent.COUNTS).contributed();
        for (Reply reply : replies.values()) {
            if (!reply.contributed().equals(contributed)) {
                throw new Failure(503, "the parts of the reply are of different shards; ask again");
            }
        }
        Counts counts = Counts.read(value(replies.get(Agent.COUNTS)));
        List<Rows.Row> rows = plan.k() == 0 ? List.of() : Rows.read(value(replies.get(Agent.ROWS)), plan.k());
        Float best = null;
        if (plan.wantsScore()) {
            best = plan.bestScoreIsFirst() ? firstScore(rows) : bestScore(value(replies.get(Agent.SCORE)));
        }
        NamedList<Object> reply = new SimpleOrderedMap<>();
        boolean isPartial = contributed.size() < settings.shards.size() || counts.get("partial") > 0;
        reply.add("responseHeader", header(isPartial));
        SolrDocumentList documents = new SolrDocumentList();
        documents.setNumFound(counts.get("found"));
        documents.setStart(0);
        documents.setMaxScore(best);
        documents.setNumFoundExact(counts.get("inexact") == 0);
        rows.forEach(row -> documents.add(row.document()));
        reply.add("response", documents);
        if (plan.wantsSortValues()) {
            reply.add("sort_values", sortValues(counts, rows));
        }
        if (plan.wantsHighlights()) {
            NamedList<Object> highlighting = new SimpleOrderedMap<>();
            rows.stream().map(Rows.Row::highlights).filter(java.util.Objects::nonNull).forEach(highlighting::addAll);
            reply.add("highlighting", highlighting);
        }
        if (!plan.facetFields().isEmpty() || !plan.facetQueries().isEmpty()) {
            reply.add("facet_counts", Facets.of(form, plan, counts));
        }
        if (!plan.jsonFacets().isEmpty()) {
            reply.add("facets", JsonFacets.reply(plan.jsonFacets(), counts));
        }
        Map<String, Integer> byId = new HashMap<>();
        rows.forEach(row -> byId.put(String.valueOf(row.document().getFieldValue(settings.id)), row.shard()));
        if (form.get("rid") != null && !byId.isEmpty()) {
            owners.note(form.get("rid"), byId);
        }
        return reply;
    }

    private static NamedList<Object> header(boolean isPartial) {
        NamedList<Object> header = new SimpleOrderedMap<>();
        if (isPartial) {
            header.add("partialResults", Boolean.TRUE);
        }
        header.add("status", 0);
        return header;
    }

    private static byte[] value(Reply reply) {
        return reply.value().orElse(new byte[0]);
    }

    /** A shard's own error goes to the coordinator with its code. Errors of the query come first, then those of shards. */
    private void checkAnswered(Collection<Reply> replies) throws Failure {
        boolean isInsufficient = replies.stream()
                .anyMatch(reply -> reply.status() == Reply.Status.INSUFFICIENT || reply.contributed().isEmpty());
        Comparator<Missing> byCode = Comparator.comparing(missing -> code(missing) == 0 ? 600 : code(missing));
        Comparator<Missing> order = byCode.thenComparing(missing -> missing.reason() == Missing.Reason.CANCELLED);
        Missing worst = replies.stream().flatMap(reply -> reply.missing().stream()).min(order).orElse(null);
        if (worst == null && isInsufficient) {
            throw new Failure(503, "no shard has answered");
        }
        if (worst != null && (isInsufficient || code(worst) / 100 == 4)) {
            List<String> addresses = new ArrayList<>(settings.shards.keySet());
            List<String> shards = worst.workers().stream().mapToObj(addresses::get).toList();
            int code = code(worst);
            String detail = code > 0 ? worst.detail().substring("400 ".length()) : worst.toString();
            throw new Failure(code > 0 ? code : 503, "no answer from " + shards + ": " + detail);
        }
    }

    /** The code of HTTP with which an agent's problem begins; 0 if there is none. */
    private static int code(Missing missing) {
        String detail = missing.detail();
        boolean isCode = missing.reason() == Missing.Reason.LOCAL_FAILED && detail.matches("[45][0-9][0-9] (?s:.*)");
        return isCode ? Integer.parseInt(detail.substring(0, 3)) : 0;
    }

    private static Float firstScore(List<Rows.Row> rows) {
        return rows.isEmpty() ? Float.valueOf(0) : (Float) rows.get(0).document().getFieldValue("score");
    }

    private static Float bestScore(byte[] packet) throws Failure {
        double best = Packets.readNumber(packet);
        return Double.isNaN(best) ? Float.valueOf(0) : Float.valueOf((float) best);
    }

    private static NamedList<Object> sortValues(Counts counts, List<Rows.Row> rows) {
        NamedList<Object> values = new SimpleOrderedMap<>();
        int at = 0;
        for (String name : counts.sortNames()) {
            int index = at++;
            values.add(name, rows.stream().map(row -> (Object) row.sort().get(index)).toList());
        }
        return values;
    }

    private NamedList<Object> second(Form form) throws Failure, InterruptedException {
        List<String> ids = new ArrayList<>();
        for (String id : form.get("ids").split("(?<!\\\\),")) {
            ids.add(id.replace("\\,", ","));
        }
        List<String> addresses = new ArrayList<>(settings.shards.keySet());
        Map<String, List<String>> byShard = new LinkedHashMap<>();
        for (String id : ids) {
            Integer owner = form.get("rid") == null ? null : owners.of(form.get("rid"), id);
            List<String> asked = owner == null ? addresses : List.of(addresses.get(owner));
            asked.forEach(shard -> byShard.computeIfAbsent(shard, unused -> new ArrayList<>()).add(id));
        }
        Map<String, CompletableFuture<HttpResponse<byte[]>>> asked = new LinkedHashMap<>();
        byShard.forEach((shard, own) -> {
            Form part = form.copy();
            part.set("ids", String.join(",", own.stream().map(id -> id.replace(",", "\\,")).toList()));
            asked.put(shard, Shard.post(shard + "/select", part, SHARD_TIMEOUT));
        });
        boolean isTolerant = form.flag("shards.tolerant");
        boolean isPartial = false;
        Map<String, SolrDocument> found = new HashMap<>();
        NamedList<Object> highlighting = new SimpleOrderedMap<>();
        for (Map.Entry<String, CompletableFuture<HttpResponse<byte[]>>> each : asked.entrySet()) {
            try {
                NamedList<Object> reply = Shard.reply(each.getValue().get());
                for (SolrDocument document : (SolrDocumentList) reply.get("response")) {
                    found.put(String.valueOf(document.getFieldValue(settings.id)), document);
                }
                if (reply.get("highlighting") instanceof NamedList<?> own) {
                    own.forEach((name, value) -> highlighting.add(name, value));
                }
            } catch (ExecutionException error) {
                if (!isTolerant) {
                    throw new Failure(500, "the shard " + each.getKey() + " does not answer: " + error.getCause());
                }
                isPartial = true;
            }
        }
        NamedList<Object> reply = new SimpleOrderedMap<>();
        reply.add("responseHeader", header(isPartial));
        SolrDocumentList documents = new SolrDocumentList();
        ids.stream().map(found::get).filter(java.util.Objects::nonNull).forEach(documents::add);
        documents.setNumFound(documents.size());
        documents.setNumFoundExact(true);
        reply.add("response", documents);
        if (form.flag("hl")) {
            reply.add("highlighting", highlighting);
        }
        return reply;
    }
}
