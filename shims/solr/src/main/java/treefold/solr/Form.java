package treefold.solr;

import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The parameters of a request to Solr, in the order in which they came; a name may have several values. */
final class Form {
    /** Values in a form. */
    static final int VALUES_MAX = 10_000;

    private final Map<String, List<String>> values = new LinkedHashMap<>();

    /** Reads a form's body, or the query of a URL. */
    static Form read(String encoded) {
        Form form = new Form();
        int count = 0;
        for (String pair : encoded.split("&")) {
            if (pair.isEmpty()) {
                continue;
            }
            if (++count > VALUES_MAX) {
                throw new IllegalArgumentException("the form has more than " + VALUES_MAX + " values");
            }
            int equals = pair.indexOf('=');
            String name = equals < 0 ? pair : pair.substring(0, equals);
            form.add(decode(name), equals < 0 ? "" : decode(pair.substring(equals + 1)));
        }
        return form;
    }

    private static String decode(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }

    String encode() {
        StringBuilder encoded = new StringBuilder();
        values.forEach((name, all) -> {
            for (String value : all) {
                encoded.append(encoded.length() == 0 ? "" : "&").append(URLEncoder.encode(name, StandardCharsets.UTF_8));
                encoded.append('=').append(URLEncoder.encode(value, StandardCharsets.UTF_8));
            }
        });
        return encoded.toString();
    }

    /** A form with the same values. */
    Form copy() {
        Form copy = new Form();
        values.forEach((name, all) -> copy.values.put(name, new ArrayList<>(all)));
        return copy;
    }

    void add(String name, String value) {
        values.computeIfAbsent(name, unused -> new ArrayList<>()).add(value);
    }

    void set(String name, Object value) {
        values.put(name, new ArrayList<>(List.of(value.toString())));
    }

    /** Removes a name. Returns its first value, or null. */
    String remove(String name) {
        List<String> all = values.remove(name);
        return all == null ? null : all.get(0);
    }

    /** The first value, or null. */
    String get(String name) {
        List<String> all = values.get(name);
        return all == null ? null : all.get(0);
    }

    /** The first value, or else the other one. */
    String get(String name, String otherwise) {
        String value = get(name);
        return value == null ? otherwise : value;
    }

    List<String> all(String name) {
        return values.getOrDefault(name, List.of());
    }

    Iterable<String> names() {
        return values.keySet();
    }

    /** A whole number, or else the other one. */
    long number(String name, long otherwise) {
        String value = get(name);
        try {
            return value == null || value.isEmpty() ? otherwise : Long.parseLong(value);
        } catch (NumberFormatException error) {
            throw new IllegalArgumentException(name + " is \"" + value + "\"; expected a whole number");
        }
    }

    /** True for the values that Solr takes as true. */
    boolean flag(String name) {
        String value = get(name, "false");
        return value.startsWith("true") || value.equals("on") || value.equals("yes");
    }
}
