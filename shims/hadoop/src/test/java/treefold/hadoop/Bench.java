package treefold.hadoop;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.DigestInputStream;
import java.security.MessageDigest;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.MRConfig;
import org.apache.hadoop.mapreduce.TaskCounter;
import org.apache.hadoop.mapreduce.TaskType;
import org.apache.hadoop.mapreduce.jobhistory.JobHistoryParser;
import org.apache.hadoop.util.GenericOptionsParser;

/** Runs a job on the cluster of {@code bench/hadoop.sh}, and prints its figures as a line of JSON. */
public final class Bench {
    private static final String USAGE = """
            data JOB FOLDER FILES ENTRIES OWN POOL
            run [-D KEY=VALUE]... DIRECTORY JOB INPUT plain|relays
            """;
    private static final String BEGAN = "Using ShuffleConsumerPlugin";
    private static final DateTimeFormatter LOG_TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss,SSS");
    private static final int LOG_TIME_LENGTH = 23;
    private static final long PATIENCE_MILLIS = 30_000;

    private Bench() { }

    /** Runs a command. */
    public static void main(String[] args) throws Exception {
        if (args.length == 7 && args[0].equals("data")) {
            Data.write(Jobs.valueOf(args[1]), Path.of(args[2]), Integer.parseInt(args[3]), Integer.parseInt(args[4]),
                    Integer.parseInt(args[5]), Integer.parseInt(args[6]));
            return;
        }
        Configuration conf = new Configuration();
        String[] rest = new GenericOptionsParser(conf, args).getRemainingArgs();
        if (rest.length != 5 || !rest[0].equals("run")) {
            System.err.println(USAGE);
            System.exit(2);
        }
        System.out.println(run(conf, Path.of(rest[1]), Jobs.valueOf(rest[2]), Path.of(rest[3]), rest[4].equals("relays")));
    }

    private static String run(Configuration conf, Path directory, Jobs kind, Path input, boolean isFolded) throws Exception {
        if (isFolded) {
            conf.set(MRConfig.SHUFFLE_CONSUMER_PLUGIN, RelayShuffle.class.getName());
            conf.set(Fold.REDUCE_KEY, kind.fold());
        }
        Path output = Files.createTempDirectory(directory, "output-");
        Files.delete(output);
        long received = received();
        long began = System.nanoTime();
        Job job = kind.job(new JobConf(conf), MiniCluster.hadoop(input), MiniCluster.hadoop(output), 1);
        if (!job.waitForCompletion(false)) {
            throw new IOException("the job failed: " + job.getStatus().getFailureInfo());
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        long link = received() - received;
        JobHistoryParser.JobInfo history = history(directory, job);
        JobHistoryParser.TaskAttemptInfo reduce = history.getAllTasks().values().stream()
                .filter(task -> task.getTaskType() == TaskType.REDUCE)
                .flatMap(task -> task.getAllTaskAttempts().values().stream())
                .filter(attempt -> attempt.getTaskStatus().equals("SUCCEEDED")).findFirst().orElseThrow();
        Path log = log(directory, reduce.getContainerId().toString());
        long ready = ready(log);
        long maps = history.getTotalCounters().findCounter(TaskCounter.MAP_OUTPUT_MATERIALIZED_BYTES).getValue();
        long shuffled = history.getTotalCounters().findCounter(TaskCounter.REDUCE_SHUFFLE_BYTES).getValue();
        long folded = history.getTotalCounters().findCounter(RelayShuffle.COUNTERS, RelayShuffle.FOLDED).getValue();
        long again = history.getTotalCounters().findCounter(RelayShuffle.COUNTERS, RelayShuffle.AGAIN).getValue();
        String line = String.format(Locale.ROOT, "{\"job\":\"%s\",\"series\":\"%s\",\"map_output_mb\":%.1f,"
                        + "\"shuffled_mb\":%.1f,\"link_mb\":%.1f,\"shuffle_s\":%.2f,\"shuffle_and_reduce_s\":%.2f,\"job_s\":%.1f,"
                        + "\"folded\":%d,\"again\":%d,\"output\":\"%s\"%s}",
                kind, isFolded ? "relays" : "plain", maps / 1e6, shuffled / 1e6, link / 1e6,
                (reduce.getShuffleFinishTime() - ready) / 1e3, (reduce.getFinishTime() - ready) / 1e3, seconds, folded, again,
                hash(output), kind.hasFloats() ? difference(directory.resolve("reference-" + kind), output) : "");
        delete(output);
        return line;
    }

    /** Bytes that the reducer's link has received: those that the switch has sent. */
    private static long received() throws IOException {
        return Long.parseLong(Files.readString(Path.of("/sys/class/net/port-red/statistics/tx_bytes")).trim());
    }

    private static JobHistoryParser.JobInfo history(Path directory, Job job) throws Exception {
        long until = System.currentTimeMillis() + PATIENCE_MILLIS;
        while (true) {
            try (Stream<Path> files = Files.walk(directory.resolve("history"))) {
                List<Path> found = files.filter(path -> path.getFileName().toString().startsWith(job.getJobID() + "-")
                        && path.toString().endsWith(".jhist")).toList();
                if (!found.isEmpty()) {
                    Configuration local = new Configuration();
                    return new JobHistoryParser(org.apache.hadoop.fs.FileSystem.getLocal(local),
                            MiniCluster.hadoop(found.get(0))).parse();
                }
            }
            if (System.currentTimeMillis() > until) {
                throw new IOException("there is no history of " + job.getJobID());
            }
            Thread.sleep(200);
        }
    }

    /** The log of the reducer's process. Prints why it used the plain shuffle, or tried again. */
    private static Path log(Path directory, String container) throws IOException {
        try (Stream<Path> files = Files.walk(directory.resolve("nodes"))) {
            Path log = files.filter(path -> path.endsWith(Path.of(container, "syslog"))).findFirst().orElseThrow();
            try (Stream<String> lines = Files.lines(log)) {
                lines.filter(line -> line.contains(RelayShuffle.class.getName() + ":")).forEach(System.err::println);
            }
            return log;
        }
    }

    /** When the reducer's process began its shuffle. */
    private static long ready(Path log) throws IOException {
        try (Stream<String> lines = Files.lines(log)) {
            String line = lines.filter(each -> each.contains(BEGAN)).findFirst().orElseThrow();
            return LocalDateTime.parse(line.substring(0, LOG_TIME_LENGTH), LOG_TIME).atZone(ZoneId.systemDefault())
                    .toInstant().toEpochMilli();
        }
    }

    private static String hash(Path output) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        try (InputStream in = new DigestInputStream(Files.newInputStream(output.resolve("part-r-00000")), digest)) {
            in.transferTo(java.io.OutputStream.nullOutputStream());
        }
        return HexFormat.of().formatHex(digest.digest()).substring(0, 16);
    }

    /** How the output differs from that of the first run of the job on this data, which it is if there was none. */
    private static String difference(Path reference, Path output) throws IOException {
        if (!Files.exists(reference)) {
            Files.createDirectory(reference);
            Files.copy(output.resolve("part-r-00000"), reference.resolve("part-r-00000"));
        }
        OutputFiles.Difference difference = OutputFiles.compare(reference, output);
        return String.format(Locale.ROOT, ",\"lines\":%d,\"different_lines\":%d,\"greatest_difference\":%.1e",
                difference.lines(), difference.different(), difference.greatest());
    }

    private static void delete(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path file : files.sorted(java.util.Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }
}
