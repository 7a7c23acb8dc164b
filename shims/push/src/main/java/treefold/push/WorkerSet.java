package treefold.push;

import java.util.Arrays;
import java.util.stream.IntStream;

/** A set of workers' numbers. It is kept as runs of consecutive numbers, so a thousand neighbours cost eight bytes. */
public final class WorkerSet {
    /** The largest number that a worker may have, plus one. */
    public static final int NUMBERS_MAX = 1 << 20;

    private static final WorkerSet EMPTY = new WorkerSet(new int[0]);

    /** The first and the last number of each run, ascending; at least one number is between two runs. */
    private final int[] runs;

    private WorkerSet(int[] runs) {
        this.runs = runs;
    }

    /** The empty set. */
    public static WorkerSet empty() {
        return EMPTY;
    }

    /** The set of these numbers, in any order. */
    public static WorkerSet of(int... workers) {
        int[] sorted = IntStream.of(workers).sorted().distinct().toArray();
        int[] runs = new int[2 * sorted.length];
        int length = 0;
        for (int worker : sorted) {
            check(worker);
            if (length > 0 && runs[length - 1] + 1 == worker) {
                runs[length - 1] = worker;
            } else {
                runs[length++] = worker;
                runs[length++] = worker;
            }
        }
        return new WorkerSet(Arrays.copyOf(runs, length));
    }

    /** The set of the numbers from {@code from} up to {@code to}, without {@code to}. */
    public static WorkerSet range(int from, int to) {
        if (from >= to) {
            return EMPTY;
        }
        check(from);
        check(to - 1);
        return new WorkerSet(new int[] {from, to - 1});
    }

    private static void check(int worker) {
        if (worker < 0 || worker >= NUMBERS_MAX) {
            throw new IllegalArgumentException("worker " + worker + "; allowed: 0 to " + (NUMBERS_MAX - 1));
        }
    }

    /** True if the worker is in the set. */
    public boolean contains(int worker) {
        for (int at = 0; at < runs.length && runs[at] <= worker; at += 2) {
            if (worker <= runs[at + 1]) {
                return true;
            }
        }
        return false;
    }

    /** The number of workers. */
    public int size() {
        int size = 0;
        for (int at = 0; at < runs.length; at += 2) {
            size += runs[at + 1] - runs[at] + 1;
        }
        return size;
    }

    /** True if no worker is in the set. */
    public boolean isEmpty() {
        return runs.length == 0;
    }

    /** The numbers, ascending. */
    public IntStream stream() {
        return IntStream.range(0, runs.length / 2).flatMap(run -> IntStream.rangeClosed(runs[2 * run], runs[2 * run + 1]));
    }

    /** The row of numbers that stands for the set on the wire: a gap and a length less one for each run. */
    int[] toRow() {
        int[] row = new int[runs.length];
        int least = 0;
        for (int at = 0; at < runs.length; at += 2) {
            row[at] = runs[at] - least;
            row[at + 1] = runs[at + 1] - runs[at];
            least = runs[at + 1] + 2;
        }
        return row;
    }

    /** Reads a row of {@link #toRow}. */
    static WorkerSet ofRow(String field, int[] row) throws MalformedException {
        if (row.length % 2 != 0) {
            throw new MalformedException(field, "is not a set: it has an odd number of entries");
        }
        int[] runs = new int[row.length];
        long least = 0;
        for (int at = 0; at < row.length; at += 2) {
            long first = least + Integer.toUnsignedLong(row[at]);
            long last = first + Integer.toUnsignedLong(row[at + 1]);
            if (last >= NUMBERS_MAX) {
                throw new MalformedException(field, "has the number " + last + "; at most " + (NUMBERS_MAX - 1));
            }
            runs[at] = (int) first;
            runs[at + 1] = (int) last;
            least = last + 2;
        }
        return new WorkerSet(runs);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof WorkerSet set && Arrays.equals(runs, set.runs);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(runs);
    }

    /** Numbers and ranges with commas, as in {@code 0-7,9}. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < runs.length; at += 2) {
            text.append(at == 0 ? "" : ",").append(runs[at]);
            if (runs[at + 1] > runs[at]) {
                text.append('-').append(runs[at + 1]);
            }
        }
        return text.toString();
    }
}
