package treefold.solr;

import java.nio.file.Path;

/** An unmodified Solr node as a process, for comparisons: prints its address, and ends when its standard input does. */
final class PlainSolr {
    private PlainSolr() {}

    public static void main(String[] args) throws Exception {
        if (args.length != 1) {
            System.err.println("usage: PlainSolr FOLDER");
            System.exit(2);
        }
        try (RealSolr solr = new RealSolr(Path.of(args[0]))) {
            System.out.println(solr.address());
            System.in.transferTo(java.io.OutputStream.nullOutputStream());
        }
        System.exit(0);
    }
}
