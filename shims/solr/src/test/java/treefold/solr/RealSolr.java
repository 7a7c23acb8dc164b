package treefold.solr;

import java.io.IOException;
import java.lang.reflect.Field;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.solr.embedded.JettyConfig;
import org.apache.solr.embedded.JettySolrRunner;
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** An unmodified Solr node with one core, {@code docs}. */
final class RealSolr implements AutoCloseable {
    private static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    private static final String CONFIG = """
            <config>
              <luceneMatchVersion>9.11.1</luceneMatchVersion>
              <dataDir>${solr.data.dir:}</dataDir>
              <updateHandler class="solr.DirectUpdateHandler2"/>
              <schemaFactory class="ClassicIndexSchemaFactory"/>
              <requestHandler name="/select" class="solr.SearchHandler"/>
            </config>
            """;
    private static final String SCHEMA = """
            <schema name="docs" version="1.6">
              <uniqueKey>id</uniqueKey>
              <fieldType name="string" class="solr.StrField" docValues="true"/>
              <fieldType name="first" class="solr.StrField" docValues="true" sortMissingFirst="true"/>
              <fieldType name="last" class="solr.StrField" docValues="true" sortMissingLast="true"/>
              <fieldType name="numberLast" class="solr.IntPointField" docValues="true" sortMissingLast="true"/>
              <fieldType name="int" class="solr.IntPointField" docValues="true"/>
              <fieldType name="long" class="solr.LongPointField" docValues="true"/>
              <fieldType name="float" class="solr.FloatPointField" docValues="true"/>
              <fieldType name="double" class="solr.DoublePointField" docValues="true"/>
              <fieldType name="date" class="solr.DatePointField" docValues="true"/>
              <fieldType name="text" class="solr.TextField">
                <analyzer>
                  <tokenizer class="solr.StandardTokenizerFactory"/>
                  <filter class="solr.LowerCaseFilterFactory"/>
                </analyzer>
              </fieldType>
              <fieldType name="words" class="solr.TextField">
                <analyzer>
                  <tokenizer class="solr.PatternTokenizerFactory" pattern="[\\p{IsAlphabetic}\\p{N}]+" group="0"/>
                  <filter class="solr.LengthFilterFactory" min="1" max="40"/>
                  <filter class="solr.LowerCaseFilterFactory"/>
                </analyzer>
              </fieldType>
              <field name="id" type="string" required="true"/>
              <field name="body" type="words" stored="false"/>
              <field name="text" type="text"/>
              <field name="n" type="int"/>
              <field name="l" type="long"/>
              <field name="price" type="float"/>
              <field name="d" type="double"/>
              <field name="at" type="date"/>
              <field name="name" type="string"/>
              <field name="cat" type="string" multiValued="true"/>
              <field name="sometimes" type="string"/>
              <dynamicField name="*_first" type="first"/>
              <field name="last" type="last"/>
              <field name="numberLast" type="numberLast"/>
            </schema>
            """;

    private final JettySolrRunner runner;
    private final String host;

    RealSolr(Path home) throws Exception {
        this(home, "127.0.0.1", 0);
    }

    RealSolr(Path home, String host, int port) throws Exception {
        this.host = host;
        Path core = home.resolve("docs");
        Files.createDirectories(core.resolve("conf"));
        Files.writeString(home.resolve("solr.xml"), "<solr/>");
        Files.writeString(core.resolve("core.properties"), "name=docs\n");
        Files.writeString(core.resolve("conf/solrconfig.xml"), CONFIG);
        Files.writeString(core.resolve("conf/schema.xml"), SCHEMA);
        runner = new JettySolrRunner(home.toString(), JettyConfig.builder().setContext("/solr").setPort(port).build());
        listenAt(runner, host);
        runner.start();
    }

    /** Solr's runner for tests listens on loopback only, and has no setting for it. */
    private static void listenAt(JettySolrRunner runner, String host) throws ReflectiveOperationException {
        Field server = JettySolrRunner.class.getDeclaredField("server");
        server.setAccessible(true);
        for (Connector connector : ((Server) server.get(runner)).getConnectors()) {
            ((ServerConnector) connector).setHost(host);
        }
    }

    /** The address that a coordinator is given. */
    String address() {
        return host + ":" + runner.getLocalPort() + "/solr/docs";
    }

    /** Adds documents, a JSON array, and commits. */
    void add(String documents) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + address() + "/update?commit=true"))
                .header("Content-Type", "application/json").POST(HttpRequest.BodyPublishers.ofString(documents)).build();
        HttpResponse<String> response = CLIENT.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            throw new IOException(response.body());
        }
    }

    /** Sends a query. Returns the answer in JSON, without the time that it took. */
    String select(Form form) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + address() + "/select"))
                .header("Content-Type", "application/x-www-form-urlencoded")
                .POST(HttpRequest.BodyPublishers.ofString(form.encode() + "&wt=json&indent=true")).build();
        HttpResponse<String> response = CLIENT.send(request, HttpResponse.BodyHandlers.ofString());
        return response.body().replaceAll("\"QTime\":[0-9]+", "\"QTime\":0");
    }

    @Override
    public void close() {
        try {
            runner.stop();
        } catch (Exception error) {
            throw new IllegalStateException("Solr does not stop", error);
        }
    }
}
