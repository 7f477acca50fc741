package io.github.rowhousetables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

@ExtendWith(RowhouseExtension.class)
class RowhouseExtensionTest {
    private static final Set<String> SEEN = new HashSet<>();

    private RowhouseAccount before;

    @BeforeEach
    void keep(RowhouseAccount account) {
        before = account;
    }

    @RepeatedTest(3)
    void eachTestHasAnAccountOnOneServer(RowhouseAccount account, RowhouseServer server) {
        assertSame(before, account);
        assertSame(RowhouseServer.shared(), server);
        String name = account.name();
        String root = server.account().endpoint().replaceFirst("[^/]*$", "");
        assertEquals(root + name, account.endpoint());
        assertTrue(account.connectionString().contains("AccountName=" + name + ";AccountKey=" + account.key() + ";"));
        assertTrue(assertThrows(IllegalStateException.class, () -> make(server, name)).getMessage().contains("was refused"));
        // The accounts of earlier tests were deleted, so their names are available.
        SEEN.forEach(earlier -> make(server, earlier));
        SEEN.forEach(earlier -> server.control("DELETE", "/test/accounts/" + earlier, ""));
        assertTrue(SEEN.add(name));
    }

    private static void make(RowhouseServer server, String name) {
        server.control("POST", "/test/accounts", "{\"name\":\"" + name + "\"}");
    }

    @Test
    void aSeparateServerHasItsOptionsAndEnds(@TempDir Path seed, RowhouseServer shared) throws Exception {
        Files.writeString(seed.resolve("prices.jsonl"), "{\"PartitionKey\":\"north\",\"RowKey\":\"apple\"}\n");
        RowhouseServer server = RowhouseServer.start("--seed", seed.toString());
        try (server) {
            assertNotEquals(shared.account().endpoint(), server.account().endpoint());
            assertTrue(server.control("GET", "/metrics", "").contains("\nrowhouse_tables 1\n"));
            server.control("PUT", "/test/clock", "{\"now\":\"2030-01-01T00:00:00Z\"}");
            assertTrue(server.control("GET", "/test/clock", "").contains("2030-01-01"));
        }
        assertTrue(server.log().contains("stopped"), server.log());
        String message = assertThrows(IllegalStateException.class, server::newAccount).getMessage();
        assertTrue(message.startsWith("POST /test/accounts failed: java.net.ConnectException"), message);
    }

    @Test
    void aServerThatDoesNotStartSaysWhy() {
        String message = assertThrows(IllegalStateException.class, () -> RowhouseServer.start("--nonsense")).getMessage();
        assertTrue(message.startsWith("rowhouse did not start: exit code 2\nerror: unexpected argument '--nonsense'"), message);
    }

    @Test
    void everyTestSaysThatTheProgramIsMissing(@TempDir Path folder) throws Exception {
        String missing = "the program rowhouse is missing: install it, or set ROWHOUSE_BINARY to its path";
        String wrong = "ROWHOUSE_BINARY names a file that does not exist: /nonexistent/program";
        for (Map.Entry<String, String> binary : Map.of("", missing, "/nonexistent/program", wrong).entrySet()) {
            String printed = runWithout(folder, binary.getKey());
            // The text ends JUnit's message, once for each test.
            assertEquals(2, printed.split("\\]: " + binary.getValue() + "\\R", -1).length - 1, printed);
        }
    }

    /** Runs a class in a process that has no access to the program, and returns the output. */
    private static String runWithout(Path folder, String binary) throws Exception {
        Path output = folder.resolve("output");
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        ProcessBuilder builder = new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"),
            "org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=summary", "--disable-ansi-colors",
            "--select-class=" + WithoutProgram.class.getName());
        builder.environment().putAll(Map.of("PATH", "/nonexistent", "ROWHOUSE_BINARY", binary));
        int code = builder.redirectErrorStream(true).redirectOutput(output.toFile()).start().waitFor();
        String printed = Files.readString(output);
        assertEquals(1, code, printed);
        return printed;
    }

    /** Fails in the separate process. Surefire itself does not run nested classes. */
    @ExtendWith(RowhouseExtension.class)
    static class WithoutProgram {
        @RepeatedTest(2)
        void needsTheServer(RowhouseAccount account) {
            assertTrue(account.endpoint().isEmpty(), "the server was started");
        }
    }
}
