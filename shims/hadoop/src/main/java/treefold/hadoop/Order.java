package treefold.hadoop;

import java.net.URLDecoder;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * A part of an order to an agent: the map outputs that it reads, and how it pushes them. It is the path of a request to a
 * ShuffleHandler, which ignores the parameters that it does not know, and verifies the signature of the whole. So the agent
 * needs no secret, and does nothing that the ShuffleHandler does not allow.
 *
 * @param job the job's name
 * @param reduce the reducer's number
 * @param maps attempts of maps at the agent's node, at most {@link #MAPS_MAX}
 * @param request the number of the first slice's push request; slice n has this number plus n
 * @param wanted the slices to push
 * @param fold how they are folded
 * @param part the place of this part in the order, from 0
 * @param parts the number of parts of the order
 */
record Order(String job, int reduce, List<String> maps, long request, Wanted wanted, Fold fold, int part, int parts) {
    /** Maps in a part. Hadoop's own reducers ask for as many at a time. */
    static final int MAPS_MAX = 20;
    /** Parts of an order. */
    static final int PARTS_MAX = 1_024;

    private static final Pattern JOB = Pattern.compile("job_\\d{1,20}_\\d{1,10}");
    private static final Pattern MAP = Pattern.compile("attempt_\\d{1,20}_\\d{1,10}_m_\\d{1,10}_\\d{1,10}");
    private static final Pattern CODEC = Pattern.compile("[A-Za-z0-9_.$]{0,200}");
    private static final int HEX = 16;

    /** The path and the query of the request. */
    String path() {
        return "/mapOutput?job=" + job + "&reduce=" + reduce + "&map=" + String.join(",", maps)
                + "&request=" + Long.toHexString(request) + "&slices=" + wanted.slices() + "&from=" + wanted.from()
                + "&wanted=" + wanted.hex()
                + "&fold=" + fold.kind() + "&key=" + fold.keys() + "&value=" + fold.values() + "&codec=" + fold.codec()
                + "&part=" + part + "&parts=" + parts;
    }

    /** True if both are parts of one order. */
    boolean isOf(Order other) {
        return job.equals(other.job) && reduce == other.reduce && request == other.request
                && wanted.equals(other.wanted) && fold.equals(other.fold) && parts == other.parts;
    }

    /** The same order of other maps, to be pushed for other requests. */
    Order with(List<String> maps, long request, int part, int parts) {
        return new Order(job, reduce, maps, request, wanted, fold, part, parts);
    }

    /** A request's number that is made of a text. The numbers of the other slices follow it. */
    static long number(String text) {
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
            int bits = Long.SIZE - Long.numberOfLeadingZeros(Settings.SLICES_MAX - 1);
            return ByteBuffer.wrap(hash).getLong() >>> 1 >>> bits << bits;
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException("every JDK has SHA-256", error);
        }
    }

    /**
     * Reads {@link #path}.
     *
     * @throws IllegalArgumentException if it is not one
     */
    static Order parse(String path) {
        if (!path.startsWith("/mapOutput?")) {
            throw new IllegalArgumentException("an order is a request for /mapOutput");
        }
        Map<String, String> fields = new HashMap<>();
        for (String field : path.substring(path.indexOf('?') + 1).split("&", -1)) {
            int equals = field.indexOf('=');
            String value = URLDecoder.decode(field.substring(equals + 1), StandardCharsets.UTF_8);
            if (equals < 1 || fields.put(field.substring(0, equals), value) != null) {
                throw new IllegalArgumentException("the order's field \"" + field + "\" has no value, or is there twice");
            }
        }
        List<String> maps = List.of(text(fields, "map").split(","));
        maps.forEach(map -> matching("map", map, MAP));
        if (maps.size() > MAPS_MAX) {
            throw new IllegalArgumentException("the order has " + maps.size() + " maps in a part; at most " + MAPS_MAX);
        }
        Fold fold = new Fold(Fold.Kind.valueOf(text(fields, "fold")), Keys.valueOf(text(fields, "key")),
                Values.valueOf(text(fields, "value")), matching("codec", text(fields, "codec"), CODEC));
        if ((fold.kind() == Fold.Kind.SUM) == (fold.values() == Values.KEPT)
                || (fold.kind() == Fold.Kind.COMBINE) != (fold.keys() == Keys.KEPT)) {
            throw new IllegalArgumentException("keys of the class " + fold.keys() + " and values of the class " + fold.values()
                    + " don't fold by " + fold.kind());
        }
        Wanted wanted = Wanted.parse(text(fields, "slices"), text(fields, "from"), text(fields, "wanted"));
        int parts = within(fields, "parts", 1, PARTS_MAX);
        return new Order(matching("job", text(fields, "job"), JOB), within(fields, "reduce", 0, Integer.MAX_VALUE), maps,
                Long.parseUnsignedLong(text(fields, "request"), HEX), wanted, fold,
                within(fields, "part", 0, parts - 1), parts);
    }

    private static String text(Map<String, String> fields, String name) {
        String text = fields.get(name);
        if (text == null) {
            throw new IllegalArgumentException("the order has no field " + name);
        }
        return text;
    }

    private static String matching(String name, String text, Pattern pattern) {
        if (!pattern.matcher(text).matches()) {
            throw new IllegalArgumentException("the order's " + name + " is \"" + text + "\"");
        }
        return text;
    }

    private static int within(Map<String, String> fields, String name, int least, int most) {
        int number = Integer.parseInt(text(fields, name));
        if (number < least || number > most) {
            throw new IllegalArgumentException(name + " is " + number + "; allowed: " + least + " to " + most);
        }
        return number;
    }
}
