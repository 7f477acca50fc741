package io.github.rowhousetables;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A server for tests that keeps everything in memory and listens on a free port of this machine.
 *
 * <p>The program is the file that the environment variable ROWHOUSE_BINARY names, or else {@code rowhouse} in PATH. It
 * stops when its standard input is closed, so it never outlives this process.
 */
public final class RowhouseServer implements AutoCloseable {
    private static final int LOG_LINES_MAX = 1000;
    private static final HttpClient CLIENT =
        HttpClient.newBuilder().proxy(HttpClient.Builder.NO_PROXY).version(HttpClient.Version.HTTP_1_1).build();

    private static RowhouseServer shared;
    private static String reason;

    private final Process process;
    private final Thread logReader;
    private final Deque<String> log = new ArrayDeque<>();
    private final RowhouseAccount account;
    private final String admin;

    /**
     * Returns the server that all tests of this process share. The first call starts it.
     *
     * @throws IllegalStateException if the server cannot be started; every call reports the reason
     */
    public static synchronized RowhouseServer shared() {
        if (shared == null && reason == null) {
            try {
                shared = start();
            } catch (IllegalStateException error) {
                reason = error.getMessage();
            }
        }
        if (reason != null) {
            throw new IllegalStateException(reason);
        }
        return shared;
    }

    /**
     * Starts a separate server with the given options for {@code rowhouse serve}.
     *
     * @throws IllegalStateException if the server cannot be started; the message contains the reason
     */
    public static RowhouseServer start(String... options) {
        return new RowhouseServer(options);
    }

    private RowhouseServer(String... options) {
        String program = findProgram(System.getenv());
        List<String> command = new ArrayList<>(List.of(program, "serve", "--in-memory", "--test-controls", "--stop-with-stdin"));
        command.addAll(Arrays.asList(options));
        ProcessBuilder builder = new ProcessBuilder(command);
        // ROWHOUSE_ variables may be set for a developer's other server.
        builder.environment().keySet().removeIf(name -> name.startsWith("ROWHOUSE_"));
        // The port is set in a variable instead of an option, so that an option can override it.
        builder.environment().put("ROWHOUSE_LISTEN", "127.0.0.1:0");
        try {
            process = builder.start();
        } catch (IOException error) {
            throw new IllegalStateException(program + " cannot be run: " + error.getMessage(), error);
        }
        logReader = new Thread(this::readLog, "rowhouse");
        logReader.setDaemon(true);
        logReader.start();
        String connectionString = null;
        String address = null;
        BufferedReader out = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        try {
            for (String line; address == null && (line = out.readLine()) != null;) {
                connectionString = after("connection string: ", line, connectionString);
                address = after("admin on ", line, null);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        if (address == null) {
            int code = waitForEnd();
            throw new IllegalStateException("rowhouse did not start: exit code " + code + "\n" + log());
        }
        admin = address;
        if (connectionString.contains("AccountKey=<key>;")) {
            close();
            throw new IllegalStateException("--accounts hides the keys: leave it out; newAccount() creates accounts with their own keys");
        }
        account = new RowhouseAccount(this, field("AccountName=([^;]*)", connectionString), field("AccountKey=([^;]*)", connectionString),
            field("TableEndpoint=([^;]*)", connectionString), connectionString);
    }

    /** Returns the first account, into which {@code --seed} loads tables. */
    public RowhouseAccount account() {
        return account;
    }

    /** Creates an empty account. */
    public RowhouseAccount newAccount() {
        String made = control("POST", "/test/accounts", "{}");
        return new RowhouseAccount(this, member("name", made), member("key", made), member("endpoint", made),
            member("connectionString", made));
    }

    /**
     * Sends a request to the test controls (docs/test-controls.md), such as PUT /test/clock, and returns the response
     * body.
     *
     * @throws IllegalStateException if the server refuses the request or has stopped
     */
    public String control(String method, String path, String body) {
        HttpResponse<String> response = send(method, path, body);
        if (response.statusCode() >= 300) {
            throw new IllegalStateException(method + " " + path + " was refused: " + response.body());
        }
        return response.body();
    }

    /** Returns the last part of the server's log. */
    public String log() {
        synchronized (log) {
            return String.join("\n", log);
        }
    }

    /** Stops the server and waits until it has exited. Does nothing if it has already exited. */
    @Override
    public void close() {
        try {
            process.getOutputStream().close();
        } catch (IOException error) {
            // The server has already exited.
        }
        waitForEnd();
    }

    void delete(RowhouseAccount made) {
        int status = send("DELETE", "/test/accounts/" + made.name(), "").statusCode();
        // 404: a reset has already deleted the account.
        if (status >= 300 && status != 404) {
            throw new IllegalStateException("the account " + made.name() + " was not deleted: status " + status);
        }
    }

    private HttpResponse<String> send(String method, String path, String body) {
        HttpRequest request = HttpRequest.newBuilder(URI.create(admin + path)).timeout(Duration.ofMinutes(1))
            .header("Content-Type", "application/json").method(method, HttpRequest.BodyPublishers.ofString(body)).build();
        try {
            return CLIENT.sendAsync(request, HttpResponse.BodyHandlers.ofString()).join();
        } catch (CompletionException error) {
            throw new IllegalStateException(method + " " + path + " failed: " + error.getCause() + "\n" + log(), error);
        }
    }

    private int waitForEnd() {
        int code = process.onExit().join().exitValue();
        try {
            logReader.join();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        return code;
    }

    private void readLog() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8))) {
            for (String line; (line = lines.readLine()) != null;) {
                synchronized (log) {
                    log.addLast(line);
                    if (log.size() > LOG_LINES_MAX) {
                        log.removeFirst();
                    }
                }
            }
        } catch (IOException error) {
            // The server has exited.
        }
    }

    static String findProgram(Map<String, String> environment) {
        String chosen = environment.getOrDefault("ROWHOUSE_BINARY", "");
        if (!chosen.isEmpty()) {
            if (!Files.exists(Path.of(chosen))) {
                throw new IllegalStateException("ROWHOUSE_BINARY names a file that does not exist: " + chosen);
            }
            return Path.of(chosen).toAbsolutePath().toString();
        }
        for (String folder : environment.getOrDefault("PATH", "").split(File.pathSeparator)) {
            for (String name : List.of("rowhouse", "rowhouse.exe")) {
                Path program = Path.of(folder, name);
                if (Files.isExecutable(program) && !Files.isDirectory(program)) {
                    return program.toAbsolutePath().toString();
                }
            }
        }
        throw new IllegalStateException("the program rowhouse is missing: install it, or set ROWHOUSE_BINARY to its path");
    }

    private static String after(String beginning, String line, String otherwise) {
        return line.startsWith(beginning) ? line.substring(beginning.length()) : otherwise;
    }

    /** Returns the value of a member of a JSON object. The server's values need no escapes. */
    private static String member(String name, String json) {
        return field('"' + name + "\"\\s*:\\s*\"([^\"]*)\"", json);
    }

    private static String field(String expression, String text) {
        Matcher matcher = Pattern.compile(expression).matcher(text);
        if (!matcher.find()) {
            throw new IllegalStateException(text + " does not match " + expression);
        }
        return matcher.group(1);
    }
}
