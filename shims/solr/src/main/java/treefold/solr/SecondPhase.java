package treefold.solr;

import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.apache.solr.common.SolrDocument;
import org.apache.solr.common.SolrDocumentList;
import org.apache.solr.common.util.NamedList;
import org.apache.solr.common.util.SimpleOrderedMap;

/** The second phase of a query: the owners of the winners are asked for their fields. */
final class SecondPhase {
    private static final Duration SHARD_TIMEOUT = Duration.ofSeconds(60);

    private final Stand.Settings settings;
    private final Owners owners;

    SecondPhase(Stand.Settings settings, Owners owners) {
        this.settings = settings;
        this.owners = owners;
    }

    /** The documents that are asked for, with their fields, in the order of the question. */
    NamedList<Object> reply(Form form) throws Failure, InterruptedException {
        List<String> ids = new ArrayList<>();
        for (String id : form.get("ids").split("(?<!\\\\),")) {
            ids.add(id.replace("\\,", ","));
        }
        List<String> addresses = new ArrayList<>(settings.shards().keySet());
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
            asked.put(shard, Shard.post(shard + "/select", part, SHARD_TIMEOUT, Shard.REPLY_BYTES_MAX));
        });
        boolean isTolerant = form.flag("shards.tolerant");
        boolean isPartial = false;
        Map<String, SolrDocument> found = new HashMap<>();
        NamedList<Object> highlighting = new SimpleOrderedMap<>();
        NamedList<Object> debug = new SimpleOrderedMap<>();
        for (Map.Entry<String, CompletableFuture<HttpResponse<byte[]>>> each : asked.entrySet()) {
            try {
                NamedList<Object> reply = Shard.reply(each.getValue().get());
                for (SolrDocument document : (SolrDocumentList) reply.get("response")) {
                    found.put(String.valueOf(document.getFieldValue(settings.id())), document);
                }
                if (reply.get("highlighting") instanceof NamedList<?> own) {
                    own.forEach((name, value) -> highlighting.add(name, value));
                }
                if (reply.get("debug") instanceof NamedList<?> own) {
                    merge(debug, own);
                }
            } catch (ExecutionException error) {
                if (!isTolerant) {
                    throw Shard.failure(each.getKey(), error.getCause());
                }
                isPartial = true;
            }
        }
        NamedList<Object> reply = new SimpleOrderedMap<>();
        reply.add("responseHeader", FirstPhase.header(isPartial));
        SolrDocumentList documents = new SolrDocumentList();
        ids.stream().map(found::get).filter(java.util.Objects::nonNull).forEach(documents::add);
        documents.setNumFound(documents.size());
        documents.setNumFoundExact(true);
        reply.add("response", documents);
        if (form.flag("hl")) {
            reply.add("highlighting", highlighting);
        }
        if (debug.size() > 0) {
            reply.add("debug", debug);
        }
        return reply;
    }

    /** Adds what the other shards lack: explanations by document. Of a value that both have, the first stays. */
    @SuppressWarnings("unchecked")
    private static void merge(NamedList<Object> whole, NamedList<?> part) {
        part.forEach((name, value) -> {
            Object known = whole.get(name);
            if (known instanceof NamedList<?> inner && value instanceof NamedList<?> more) {
                merge((NamedList<Object>) inner, more);
            } else if (known == null) {
                whole.add(name, value);
            }
        });
    }
}
