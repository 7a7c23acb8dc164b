package treefold.hadoop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** Compares outputs of a job whose values are floating-point numbers. */
final class OutputFiles {
    /**
     * The greatest relative difference of equal outputs. Sums of doubles depend on the order of additions in their last digits,
     * in the plain shuffle too, where it is that in which map outputs arrive.
     */
    static final double TOLERANCE = 1e-9;

    private OutputFiles() { }

    /**
     * How two outputs differ.
     *
     * @param lines the lines of each
     * @param different the lines whose text differs
     * @param greatest the greatest relative difference of two numbers
     */
    record Difference(long lines, long different, double greatest) { }

    /**
     * Compares all files of two outputs, line by line. Fields are separated by tabs; the first one is the key.
     *
     * @throws IOException if keys, or the numbers of lines or fields, differ
     */
    static Difference compare(Path one, Path other) throws IOException {
        List<String> lines = lines(one);
        List<String> others = lines(other);
        if (lines.size() != others.size()) {
            throw new IOException(lines.size() + " and " + others.size() + " lines");
        }
        long different = 0;
        double greatest = 0;
        for (int at = 0; at < lines.size(); at++) {
            String[] fields = lines.get(at).split("\t");
            String[] otherFields = others.get(at).split("\t");
            if (fields.length != otherFields.length || !fields[0].equals(otherFields[0])) {
                throw new IOException("line " + at + ": " + lines.get(at) + " and " + others.get(at));
            }
            different += lines.get(at).equals(others.get(at)) ? 0 : 1;
            for (int field = 1; field < fields.length; field++) {
                double number = Double.parseDouble(fields[field]);
                double otherNumber = Double.parseDouble(otherFields[field]);
                double size = Math.max(Math.abs(number), Math.abs(otherNumber));
                greatest = Math.max(greatest, size == 0 ? 0 : Math.abs(number - otherNumber) / size);
            }
        }
        return new Difference(lines.size(), different, greatest);
    }

    private static List<String> lines(Path folder) throws IOException {
        List<String> lines = new ArrayList<>();
        try (Stream<Path> parts = Files.list(folder)) {
            for (Path part : parts.filter(path -> path.getFileName().toString().startsWith("part-")).sorted().toList()) {
                lines.addAll(Files.readAllLines(part));
            }
        }
        return lines;
    }
}
