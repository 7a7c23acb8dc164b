package treefold.hadoop;

import java.util.stream.IntStream;

/**
 * The slices that an order is for: some of at most {@link #WINDOW_MAX} that follow one another. A reducer orders such a window of its
 * slices after another, so that nobody holds more than a window of them.
 *
 * @param slices the number of the reducer's slices
 * @param from the first slice of the window
 * @param bits the slices that are wanted, the window's first one in the lowest bit
 */
record Wanted(int slices, int from, long bits) {
    /** Slices of a window. */
    static final int WINDOW_MAX = Long.SIZE;

    Wanted {
        if (slices < 1 || slices > Settings.SLICES_MAX || from < 0 || from >= slices) {
            throw new IllegalArgumentException("slice " + from + " of " + slices + "; allowed: 1 to " + Settings.SLICES_MAX + " slices");
        }
        if (bits == 0 || from + Long.SIZE - Long.numberOfLeadingZeros(bits) > slices) {
            throw new IllegalArgumentException("the order wants no slice, or one that is not there");
        }
    }

    /** True if a slice is wanted. */
    boolean has(int slice) {
        return slice >= from && slice - from < WINDOW_MAX && (bits >>> slice - from & 1) == 1;
    }

    /** The wanted slices. */
    IntStream all() {
        return IntStream.range(from, Math.min(slices, from + WINDOW_MAX)).filter(this::has);
    }

    /**
     * Reads one of texts.
     *
     * @throws IllegalArgumentException if they are none
     */
    static Wanted parse(String slices, String from, String bits) {
        return new Wanted(Integer.parseInt(slices), Integer.parseInt(from), Long.parseUnsignedLong(bits, 16));
    }

    /** Its bits as {@link #parse} reads them. */
    String hex() {
        return Long.toHexString(bits);
    }
}
