package conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.credential.AzureNamedKeyCredential;
import com.azure.data.tables.TableServiceClientBuilder;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

/** Compiles and runs the Java snippets in the documentation, unchanged. */
class DocumentsTest {
    private static final Path DOCUMENT = Path.of("../../docs/getting-started.md");
    private static final Pattern SNIPPET = Pattern.compile("^```java\n(.*?)^```", Pattern.MULTILINE | Pattern.DOTALL);
    private static final Pattern FILE = Pattern.compile("^```java file=(\\S+)\n(.*?)^```", Pattern.MULTILINE | Pattern.DOTALL);
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

    /**
     * Compiles the classes on the page about tests, and runs the class that needs no container. That class starts its
     * own server.
     */
    @Test
    @EnabledIfEnvironmentVariable(named = "ROWHOUSE_BINARY", matches = ".+", disabledReason = "set it to the server program")
    void fixtures() throws Exception {
        List<String> sources = new ArrayList<>();
        String document = Files.readString(Path.of("../../docs/testing-with-rowhouse.md"));
        Matcher snippets = FILE.matcher(document);
        while (snippets.find()) {
            sources.add(Files.writeString(folder.resolve(snippets.group(1)), snippets.group(2)).toString());
        }
        assertEquals(2, sources.size());
        // The page's dependency must be the one that these classes are compiled with.
        Matcher dependency = Pattern.compile("^```xml file=pom.xml\n(.*?)^```", Pattern.MULTILINE | Pattern.DOTALL).matcher(document);
        assertTrue(dependency.find() && Files.readString(Path.of("pom.xml")).contains(dependency.group(1)));
        String classPath = System.getProperty("java.class.path");
        List<String> options = new ArrayList<>(List.of("-Xlint:all,-serial,-processing,-path", "-Werror", "-cp", classPath, "-d", folder.toString()));
        options.addAll(sources);
        assertEquals(0, ToolProvider.getSystemJavaCompiler().run(null, null, null, options.toArray(String[]::new)));
        Path programs = Files.createDirectory(folder.resolve("programs"));
        Files.createSymbolicLink(programs.resolve("rowhouse"), Path.of(System.getenv("ROWHOUSE_BINARY")));
        String printed = run(Map.of("PATH", programs + File.pathSeparator + System.getenv("PATH"), "ROWHOUSE_BINARY", ""),
            "-cp", folder + File.pathSeparator + classPath, "org.junit.platform.console.ConsoleLauncher", "execute",
            "--disable-banner", "--select-class=OrdersTest");
        assertTrue(printed.contains("2 tests successful"), printed);
    }

    /** Compiles and runs a program, which must succeed, and returns its output. */
    private String run(Path source) throws Exception {
        return run(Map.of(), "-cp", System.getProperty("java.class.path"), source.toString());
    }

    /** Runs Java, which must succeed, and returns its output. */
    private String run(Map<String, String> environment, String... arguments) throws Exception {
        Path output = folder.resolve("output");
        List<String> command = new ArrayList<>(List.of(arguments));
        command.add(0, Path.of(System.getProperty("java.home"), "bin", "java").toString());
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output.toFile());
        builder.environment().putAll(environment);
        Process process = builder.start();
        boolean ended = process.waitFor(120, TimeUnit.SECONDS);
        process.destroyForcibly();
        String printed = Files.readString(output);
        assertTrue(ended && process.exitValue() == 0, printed);
        return printed;
    }
}
