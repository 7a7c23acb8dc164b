package treefold.hadoop;

import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;

/** Generated inputs of {@link Jobs}: one file for each map. The same arguments give the same bytes. */
public final class Data {
    private static final int WORDS_OF_LINE = 10;
    private static final int LINKS = 8;
    private static final int FEATURES = 6;

    private Data() { }

    /**
     * Writes the files.
     *
     * @param entries what each map emits, about, before it combines
     * @param own keys of each map
     * @param pool keys of all maps; each map draws its own among them. The output has about {@code pool / (files * own)} of the
     *     maps' combined outputs
     */
    public static void write(Jobs job, Path folder, int files, int entries, int own, int pool) throws IOException {
        Files.createDirectories(folder);
        for (int file = 0; file < files; file++) {
            Random random = new Random(31L * file + job.ordinal());
            int[] keys = new int[own];
            for (int key = 0; key < own; key++) {
                // Evenly over the pool, so that a map has no key twice.
                keys[key] = (int) (((long) key * pool + random.nextInt(Math.max(1, pool))) / own % pool);
            }
            try (BufferedWriter out = Files.newBufferedWriter(folder.resolve("part-" + file), StandardCharsets.ISO_8859_1)) {
                for (int entry = 0; entry < entries;) {
                    entry += line(job, out, random, keys);
                }
            }
        }
    }

    /** Writes a line. Returns the number of its entries. */
    private static int line(Jobs job, BufferedWriter out, Random random, int[] keys) throws IOException {
        int entries;
        StringBuilder line = new StringBuilder();
        switch (job) {
            case WC -> {
                entries = WORDS_OF_LINE;
                for (int word = 0; word < entries; word++) {
                    line.append(word == 0 ? "" : " ").append(word(any(random, keys)));
                }
            }
            case UV -> {
                entries = 1;
                int source = any(random, keys);
                line.append(10 + source % 200).append('.').append(source / 200 % 256).append('.').append(source / 51_200 % 256)
                        .append('.').append(source % 251).append("|http://example.org/").append(random.nextInt(10_000))
                        .append("|2026-11-").append(1 + random.nextInt(30)).append('|').append(random.nextInt(100_000));
            }
            case PR -> {
                entries = LINKS;
                line.append("page").append(random.nextInt(1 << 24)).append(' ').append(random.nextDouble());
                for (int link = 0; link < LINKS; link++) {
                    line.append(" page").append(any(random, keys));
                }
            }
            case AP -> {
                entries = FEATURES;
                line.append(random.nextInt(10) == 0 ? 1 : 0);
                for (int feature = 0; feature < FEATURES; feature++) {
                    line.append(" feature").append(any(random, keys));
                }
            }
            default -> {
                entries = 1;
                for (int at = 0; at < 99; at++) {
                    line.append((char) ('!' + random.nextInt(94)));
                }
            }
        }
        out.append(line).append('\n');
        return entries;
    }

    private static int any(Random random, int[] keys) {
        return keys[random.nextInt(keys.length)];
    }

    /** A word of letters, of 6 to 14 bytes. */
    private static String word(int number) {
        StringBuilder word = new StringBuilder();
        long rest = number * 2_654_435_761L & 0xFFFF_FFFFL;
        for (int letter = 0; letter < 6 + number % 9; letter++) {
            word.append((char) ('a' + rest % 26));
            rest = rest / 26 + number * 31L;
        }
        return word.append(number).toString();
    }
}
