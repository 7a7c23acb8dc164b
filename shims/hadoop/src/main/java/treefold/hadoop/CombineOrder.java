package treefold.hadoop;

import java.io.IOException;
import java.io.InputStream;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.ConfigRedactor;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapred.JobConf;

/**
 * An order to a combiner: the workers whose pushes it combines, the job's code, and the request for which it pushes the result.
 *
 * <p>The number of the request for which the workers push is a hash of the whole order. Agents push for a number only if a
 * ShuffleHandler has verified its signature, so an order that the job has not made gets no entry, and no class is loaded for it.
 * The combiner needs no secret either.
 *
 * @param job the job's name
 * @param reduce the reducer's number
 * @param into the number of the first slice's request for which the combiner pushes; slice n has this number plus n
 * @param wanted the slices to combine
 * @param seconds the time that the combiner has
 * @param workers the numbers of the agents, and of combiners of other relays
 * @param jar the SHA-256 of the job's jar; empty if it has none
 * @param properties the job's properties that are not Hadoop's defaults
 */
record CombineOrder(String job, int reduce, long into, Wanted wanted, int seconds, int[] workers, String jar,
        TreeMap<String, String> properties) {
    /** Workers of an order. */
    static final int WORKERS_MAX = 16_384;

    private static final String PROPERTY = "property.";
    private static final Pattern JOB = Pattern.compile("job_\\d{1,20}_\\d{1,10}");
    private static final Pattern JAR = Pattern.compile("[0-9a-f]{64}|");
    private static final int HEX = 16;

    /** Lines of a name, an equals sign and a value, all of them URL-encoded. */
    String text() {
        TreeMap<String, String> fields = new TreeMap<>();
        fields.put("job", job);
        fields.put("reduce", Integer.toString(reduce));
        fields.put("into", Long.toHexString(into));
        fields.put("slices", Integer.toString(wanted.slices()));
        fields.put("from", Integer.toString(wanted.from()));
        fields.put("wanted", wanted.hex());
        fields.put("seconds", Integer.toString(seconds));
        fields.put("workers", Arrays.stream(workers).mapToObj(Integer::toString).collect(Collectors.joining(",")));
        fields.put("jar", jar);
        properties.forEach((key, value) -> fields.put(PROPERTY + key, value));
        StringBuilder text = new StringBuilder();
        fields.forEach((key, value) -> text.append(URLEncoder.encode(key, StandardCharsets.UTF_8)).append('=')
                .append(URLEncoder.encode(value, StandardCharsets.UTF_8)).append('\n'));
        return text.toString();
    }

    /** The number of the first slice's request for which the workers push. */
    long request() {
        return Order.number(text());
    }

    /** The job's properties, with classes of this loader. Nothing of this process's own configuration is among them. */
    JobConf conf(ClassLoader loader) {
        Configuration conf = defaults();
        conf.setClassLoader(loader);
        properties.forEach(conf::set);
        JobConf job = new JobConf(conf);
        job.setClassLoader(loader);
        return job;
    }

    private static Configuration defaults() {
        Configuration defaults = new Configuration(false);
        for (String name : new String[] {"core-default.xml", "mapred-default.xml", "yarn-default.xml"}) {
            defaults.addResource(name);
        }
        return defaults;
    }

    /** A job's properties that are not Hadoop's defaults, without those that Hadoop holds for secrets. */
    static TreeMap<String, String> properties(JobConf job) {
        Configuration defaults = defaults();
        ConfigRedactor redactor = new ConfigRedactor(job);
        TreeMap<String, String> properties = new TreeMap<>();
        for (Map.Entry<String, String> entry : job) {
            String key = entry.getKey();
            String value = job.get(key);
            if (value != null && !value.equals(defaults.get(key)) && redactor.redact(key, value).equals(value)) {
                properties.put(key, value);
            }
        }
        return properties;
    }

    /** The SHA-256 of a job's jar; empty if it has none. */
    static String jar(JobConf job) throws IOException {
        if (job.getJar() == null) {
            return "";
        }
        Path jar = new Path(job.getJar());
        InputStream from = jar.getFileSystem(job).open(jar);
        return Jars.digest(from);
    }

    /**
     * Reads {@link #text}.
     *
     * @throws IllegalArgumentException if it is not one
     */
    static CombineOrder parse(String text) {
        Map<String, String> fields = new HashMap<>();
        TreeMap<String, String> properties = new TreeMap<>();
        for (String line : text.lines().toList()) {
            int equals = line.indexOf('=');
            if (equals < 1) {
                throw new IllegalArgumentException("expected lines of a name, an equals sign and a value");
            }
            String key = URLDecoder.decode(line.substring(0, equals), StandardCharsets.UTF_8);
            String value = URLDecoder.decode(line.substring(equals + 1), StandardCharsets.UTF_8);
            if (key.startsWith(PROPERTY) && key.length() > PROPERTY.length()) {
                properties.put(key.substring(PROPERTY.length()), value);
            } else {
                fields.put(key, value);
            }
        }
        Wanted wanted = Wanted.parse(text(fields, "slices"), text(fields, "from"), text(fields, "wanted"));
        int[] workers = Arrays.stream(text(fields, "workers").split(",")).mapToInt(Integer::parseInt).toArray();
        if (workers.length > WORKERS_MAX) {
            throw new IllegalArgumentException("the order has " + workers.length + " workers; at most " + WORKERS_MAX);
        }
        CombineOrder order = new CombineOrder(matching(fields, "job", JOB), within(fields, "reduce", 0, Integer.MAX_VALUE),
                Long.parseUnsignedLong(text(fields, "into"), HEX), wanted,
                within(fields, "seconds", 1, Settings.DEADLINE_SECONDS_MAX), workers, matching(fields, "jar", JAR), properties);
        if (!order.text().equals(text)) {
            throw new IllegalArgumentException("the order has other fields than expected, or not in their order");
        }
        return order;
    }

    private static String text(Map<String, String> fields, String name) {
        String text = fields.get(name);
        if (text == null) {
            throw new IllegalArgumentException("the order has no field " + name);
        }
        return text;
    }

    private static String matching(Map<String, String> fields, String name, Pattern pattern) {
        String text = text(fields, name);
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
