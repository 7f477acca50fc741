package conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.credential.AzureNamedKeyCredential;
import com.azure.data.tables.TableServiceClientBuilder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Compiles and runs the Java snippet of the documents as it is. */
class DocumentsTest {
    private static final Path DOCUMENT = Path.of("../../docs/getting-started.md");
    private static final Pattern SNIPPET = Pattern.compile("^```java\n(.*?)^```", Pattern.MULTILINE | Pattern.DOTALL);
    private static final String LOCAL = "http://127.0.0.1:10002/devstoreaccount1";

    @TempDir
    Path folder;

    @Test
    void snippet() throws Exception {
        Matcher snippets = SNIPPET.matcher(Files.readString(DOCUMENT));
        assertTrue(snippets.find());
        String body = snippets.group(1);
        assertTrue(body.contains(LOCAL) && body.contains("\"cars\"") && body.contains("class Cars"));
        String table = Target.newTableName();
        Path source = folder.resolve("Cars.java");
        Files.writeString(source, body.replace(LOCAL, Target.ENDPOINT).replace("\"cars\"", '"' + table + '"')
            .replace("AccountName=devstoreaccount1", "AccountName=" + Target.ACCOUNT)
            .replaceAll("AccountKey=[^;]*", "AccountKey=" + Matcher.quoteReplacement(Target.KEY)));
        try {
            assertEquals("0007 981.5\n", run(source));
        } finally {
            new TableServiceClientBuilder().endpoint(Target.ENDPOINT)
                .credential(new AzureNamedKeyCredential(Target.ACCOUNT, Target.KEY)).buildClient().deleteTable(table);
        }
    }

    /** Compiles and runs a program, which must succeed, and returns what it printed. */
    private String run(Path source) throws Exception {
        Path output = folder.resolve("output");
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        Process process = new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"), source.toString())
            .redirectErrorStream(true).redirectOutput(output.toFile()).start();
        boolean ended = process.waitFor(120, TimeUnit.SECONDS);
        process.destroyForcibly();
        String printed = Files.readString(output);
        assertTrue(ended && process.exitValue() == 0, printed);
        return printed;
    }
}
