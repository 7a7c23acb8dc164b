package treefold.hadoop;

import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.DigestInputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * The jars whose combiners may run: those that the operator has put into a folder. A job's jar is found by its SHA-256, so what
 * runs is the job's own code, and nothing that a job or a stranger sends is loaded.
 */
final class Jars {
    /** Jars in the folder that are looked at. */
    static final int JARS_MAX = 256;

    /** Null if no jar may run. */
    private final Path folder;
    /** Guarded by this. The digest of each file of the folder that was seen. */
    private final Map<Seen, String> digests = new HashMap<>();
    /** Guarded by this. The class loader of each jar that has run. */
    private final Map<String, ClassLoader> loaders = new HashMap<>();

    /** A file, as long as nobody changes it. */
    private record Seen(Path file, long bytes, long changed) { }

    Jars(Path folder) {
        this.folder = folder;
    }

    /**
     * Finds a job's jar.
     *
     * @param digest its SHA-256 in hexadecimal digits; empty if all classes of the job are on this process's class path
     * @return the loader of its classes; empty if the folder does not have it
     */
    synchronized Optional<ClassLoader> find(String digest) throws IOException {
        if (digest.isEmpty()) {
            return Optional.of(Jars.class.getClassLoader());
        }
        ClassLoader known = loaders.get(digest);
        if (known != null || folder == null) {
            return Optional.ofNullable(known);
        }
        List<Path> files;
        try (Stream<Path> all = Files.list(folder)) {
            files = all.filter(file -> file.toString().endsWith(".jar")).sorted().limit(JARS_MAX).toList();
        }
        Map<Seen, String> now = new HashMap<>();
        for (Path file : files) {
            Seen seen = new Seen(file, Files.size(file), Files.getLastModifiedTime(file).toMillis());
            String each = digests.containsKey(seen) ? digests.get(seen) : digest(Files.newInputStream(file));
            now.put(seen, each);
            if (each.equals(digest)) {
                loaders.put(digest, new URLClassLoader(new URL[] {file.toUri().toURL()}, Jars.class.getClassLoader()));
            }
        }
        digests.clear();
        digests.putAll(now);
        return Optional.ofNullable(loaders.get(digest));
    }

    /** The SHA-256 of a stream, in hexadecimal digits. Closes it. */
    static String digest(InputStream from) throws IOException {
        try (from) {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            new DigestInputStream(from, digest).transferTo(java.io.OutputStream.nullOutputStream());
            return HexFormat.of().formatHex(digest.digest());
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException("every JDK has SHA-256", error);
        }
    }
}
