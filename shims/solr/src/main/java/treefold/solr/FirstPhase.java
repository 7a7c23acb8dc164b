package treefold.solr;

import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
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

/** The first phase of a query: all agents push, the relays fold, and one reply comes of it. */
final class FirstPhase {
    private static final System.Logger LOG = System.getLogger(FirstPhase.class.getName());
    private static final SecureRandom RANDOM = new SecureRandom();

    private final Stand.Settings settings;
    private final Master master;
    private final Owners owners;
    private final Counters counters;
    /** That of the first shard; all have the same schema. */
    private final MissingValues missing;

    FirstPhase(Stand.Settings settings, Master master, Owners owners, Counters counters) {
        this.settings = settings;
        this.master = master;
        this.owners = owners;
        this.counters = counters;
        this.missing = new MissingValues(settings.shards().keySet().iterator().next());
    }

    /**
     * The folded reply of all shards. If the relay that leads the query is lost, another leads it anew, once. If there is none,
     * the stand asks the shards and folds.
     */
    NamedList<Object> reply(Form form, Plan plan) throws Failure, InterruptedException {
        try {
            return fold(form, plan);
        } catch (UnreachableException lost) {
            counters.add(Counters.BEGUN_AGAIN);
        } catch (PushException error) {
            throw new Failure(Reason.RELAYS, 503, "the relays: " + error.getMessage());
        }
        try {
            return fold(form, plan);
        } catch (UnreachableException lost) {
            LOG.log(System.Logger.Level.WARNING, "no relay answers; the stand folds by itself: {0}", lost.getMessage());
        } catch (PushException error) {
            throw new Failure(Reason.RELAYS, 503, "the relays: " + error.getMessage());
        }
        counters.add(Counters.WITHOUT_RELAYS);
        return foldHere(form, plan);
    }

    private NamedList<Object> foldHere(Form form, Plan plan) throws Failure, InterruptedException {
        List<String> shards = new ArrayList<>(settings.shards().keySet());
        Form asked = plan.forShard(form);
        List<CompletableFuture<HttpResponse<byte[]>>> replies = new ArrayList<>();
        for (String shard : shards) {
            replies.add(Shard.post(shard + "/select", asked, settings.deadline(), Shard.REPLY_BYTES_MAX));
        }
        Counts counts = new Counts();
        List<byte[]> rows = new ArrayList<>();
        double best = Double.NaN;
        int answered = 0;
        for (int number = 0; number < shards.size(); number++) {
            NamedList<Object> reply;
            try {
                reply = reply(shards.get(number), replies.get(number));
            } catch (Failure failure) {
                if (!form.flag("shards.tolerant") || failure.code() / 100 == 4) {
                    throw failure;
                }
                continue;
            }
            counts.addAll(Counts.of(reply));
            rows.addAll(Rows.of(reply, plan, number, missing));
            Float own = ((SolrDocumentList) reply.get("response")).getMaxScore();
            best = own == null || own < best ? best : own;
            answered++;
        }
        if (answered == 0) {
            throw new Failure(Reason.SHARD_SILENT, 503, "no shard has answered");
        }
        boolean isPartial = answered < shards.size() || counts.get("partial") > 0;
        return assemble(form, plan, counts, Rows.best(rows, plan.k()), score(plan, best), isPartial);
    }

    private static NamedList<Object> reply(String shard, CompletableFuture<HttpResponse<byte[]>> reply)
            throws Failure, InterruptedException {
        try {
            return Shard.reply(reply.get());
        } catch (ExecutionException error) {
            throw Shard.failure(shard, error.getCause());
        }
    }

    private static Float score(Plan plan, double best) {
        if (!plan.wantsScore()) {
            return null;
        }
        return Double.isNaN(best) ? Float.valueOf(0) : Float.valueOf((float) best);
    }

    /** The reply of a shard without documents, whose share is in {@link #reply}. */
    NamedList<Object> nothing(Form form, Plan plan) throws Failure {
        return assemble(form, plan, new Counts(), List.of(), null, false);
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
                .announce(settings.application() + "/" + reduce, request, WorkerSet.range(0, settings.shards().size()))
                .params(params).deadline(settings.deadline()).minCoverage(isTolerant ? 0 : 1);
        parts.put(part, announcement.send());
        sent.set(part, Long.toUnsignedString(request));
    }

    /** Sends the query to all agents. An agent that does not take it is a shard that does not answer. */
    private void tell(Form form, boolean isTolerant) throws Failure, InterruptedException {
        Map<String, CompletableFuture<HttpResponse<byte[]>>> told = new LinkedHashMap<>();
        settings.shards().forEach((shard, agent) -> told.put(
                shard, Shard.post(agent + Agent.PATH, form, settings.deadline(), Shard.ANSWER_BYTES_MAX)));
        for (Map.Entry<String, CompletableFuture<HttpResponse<byte[]>>> each : told.entrySet()) {
            try {
                HttpResponse<byte[]> answer = each.getValue().get();
                if (answer.statusCode() != 202 && !isTolerant) {
                    String problem = new String(answer.body(), StandardCharsets.UTF_8);
                    throw new Failure(Reason.AGENT, answer.statusCode(), "the agent of " + each.getKey() + ": " + problem);
                }
            } catch (ExecutionException error) {
                if (!isTolerant) {
                    throw new Failure(Reason.AGENT, 503, "the agent of " + each.getKey() + " does not answer: " + error.getCause());
                }
            }
        }
    }

    private NamedList<Object> assemble(Form form, Plan plan, Map<String, Reply> replies)
            throws Failure, InterruptedException {
        if (form.flag("shards.tolerant") && isSilent(replies.values())) {
            counters.add(Counters.WITHOUT_RELAYS);
            return foldHere(form, plan);
        }
        checkAnswered(replies.values());
        WorkerSet contributed = replies.get(Agent.COUNTS).contributed();
        for (Reply reply : replies.values()) {
            if (!reply.contributed().equals(contributed)) {
                // Some shards pushed one part in time, and not the other.
                counters.add(Counters.WITHOUT_RELAYS);
                return foldHere(form, plan);
            }
        }
        Counts counts = Counts.read(value(replies.get(Agent.COUNTS)));
        List<Rows.Row> rows = plan.k() == 0 ? List.of() : Rows.read(value(replies.get(Agent.ROWS)), plan.k());
        Float best = null;
        if (plan.wantsScore()) {
            best = plan.bestScoreIsFirst()
                    ? firstScore(rows)
                    : score(plan, Packets.readNumber(value(replies.get(Agent.SCORE))));
        }
        boolean isPartial = contributed.size() < settings.shards().size() || counts.get("partial") > 0;
        return assemble(form, plan, counts, rows, best, isPartial);
    }

    private NamedList<Object> assemble(
            Form form, Plan plan, Counts counts, List<Rows.Row> rows, Float best, boolean isPartial) throws Failure {
        Map<String, Integer> byId = new HashMap<>();
        rows.forEach(row -> byId.put(String.valueOf(row.document().getFieldValue(settings.id())), row.shard()));
        if (form.get("rid") != null && !byId.isEmpty()) {
            owners.note(form.get("rid"), byId);
        }
        NamedList<Object> reply = new SimpleOrderedMap<>();
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
        if (plan.wantsFacets()) {
            reply.add("facet_counts", Facets.of(form, plan, counts));
        }
        if (!plan.jsonFacets().isEmpty()) {
            reply.add("facets", JsonFacets.reply(plan.jsonFacets(), counts));
        }
        return reply;
    }

    /** The header of a reply. */
    static NamedList<Object> header(boolean isPartial) {
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

    /** True if a part of the query came from no shard, though no shard has reported an error. */
    private static boolean isSilent(Collection<Reply> replies) {
        return replies.stream().anyMatch(reply -> reply.contributed().isEmpty())
                && replies.stream().flatMap(reply -> reply.missing().stream()).allMatch(missing -> code(missing) == 0);
    }

    /** A shard's own error goes to the coordinator with its code. Errors of the query come first, then those of shards. */
    private void checkAnswered(Collection<Reply> replies) throws Failure {
        boolean isInsufficient = replies.stream()
                .anyMatch(reply -> reply.status() == Reply.Status.INSUFFICIENT || reply.contributed().isEmpty());
        Comparator<Missing> byCode = Comparator.comparing(missing -> code(missing) == 0 ? 600 : code(missing));
        Comparator<Missing> order = byCode.thenComparing(missing -> missing.reason() == Missing.Reason.CANCELLED);
        Missing worst = replies.stream().flatMap(reply -> reply.missing().stream()).min(order).orElse(null);
        if (worst == null && isInsufficient) {
            throw new Failure(Reason.SHARD_SILENT, 503, "no shard has answered");
        }
        if (worst != null && (isInsufficient || code(worst) / 100 == 4)) {
            List<String> addresses = new ArrayList<>(settings.shards().keySet());
            List<String> shards = worst.workers().stream().mapToObj(addresses::get).toList();
            int code = code(worst);
            String detail = code > 0 ? worst.detail().substring("400 ".length()) : worst.toString();
            throw new Failure(code > 0 ? Reason.SHARD : Reason.SHARD_SILENT, code > 0 ? code : 503, "no answer from " + shards + ": " + detail);
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

    private static NamedList<Object> sortValues(Counts counts, List<Rows.Row> rows) {
        NamedList<Object> values = new SimpleOrderedMap<>();
        int at = 0;
        for (String name : counts.sortNames()) {
            int index = at++;
            values.add(name, rows.stream().map(row -> (Object) row.sort().get(index)).toList());
        }
        return values;
    }
}
