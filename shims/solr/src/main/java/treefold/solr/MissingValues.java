package treefold.solr;

import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import org.apache.solr.common.util.NamedList;

/**
 * Where an order by a field has the documents that lack it: a setting of the shard's schema, which is asked once for a field.
 * Only texts have missing values; Solr gives numbers a value. Safe for all threads.
 */
final class MissingValues {
    /** Fields that are remembered; others are asked for each time. */
    static final int FIELDS_MAX = 1_024;

    private static final Duration TIMEOUT = Duration.ofSeconds(10);
    private static final int SCHEMA_BYTES_MAX = 64 << 10;

    private final String shard;
    private final Map<String, Place> known = new ConcurrentHashMap<>();

    /** A place in an order. */
    enum Place {
        /** As a value that is less than all others. */
        LEAST,
        /** Before all others, in both directions. */
        FIRST,
        /** After all others, in both directions. */
        LAST
    }

    /** The missing values of a shard, {@code host:port/solr/CORE}. */
    MissingValues(String shard) {
        this.shard = shard;
    }

    /** The place for a field. The shard is asked if it is not known. */
    Place of(String field) throws Failure, InterruptedException {
        Place place = known.get(field);
        if (place == null) {
            place = ask(field);
            if (known.size() < FIELDS_MAX) {
                known.put(field, place);
            }
        }
        return place;
    }

    private Place ask(String field) throws Failure, InterruptedException {
        String address = shard + "/schema/fields/" + Counts.encode(field) + "?showDefaults=true&includeDynamic=true&wt=javabin";
        NamedList<Object> reply;
        try {
            HttpResponse<byte[]> answer = Shard.get(address, TIMEOUT, SCHEMA_BYTES_MAX).get();
            reply = Shard.reply(answer);
        } catch (ExecutionException error) {
            throw Shard.failure(shard, error.getCause());
        } catch (Failure failure) {
            throw new Failure(Reason.VALUE, 400, "some documents lack " + field + ", and the shard's schema does not tell where they"
                    + " come in an order: " + failure.getMessage());
        }
        if (Boolean.TRUE.equals(setting(reply, "sortMissingFirst"))) {
            return Place.FIRST;
        }
        return Boolean.TRUE.equals(setting(reply, "sortMissingLast")) ? Place.LAST : Place.LEAST;
    }

    private static Object setting(NamedList<?> reply, String name) {
        Object field = reply.get("field");
        return field instanceof Map<?, ?> map ? map.get(name) : ((NamedList<?>) field).get(name);
    }
}
