package treefold.push;

import java.util.ArrayList;

/** Pushes in a row, of which the first may be dropped. Any of them is found at once. */
final class Pushes {
    private static final int DROPPED_MAX = 64;

    private final ArrayList<byte[]> row = new ArrayList<>();
    /** Entries at the front of the row that are dropped. */
    private int dropped;

    int size() {
        return row.size() - dropped;
    }

    byte[] get(int index) {
        return row.get(dropped + index);
    }

    void add(byte[] push) {
        row.add(push);
    }

    byte[] removeFirst() {
        byte[] first = row.set(dropped++, null);
        if (dropped > DROPPED_MAX && dropped > row.size() / 2) {
            row.subList(0, dropped).clear();
            dropped = 0;
        }
        return first;
    }
}
