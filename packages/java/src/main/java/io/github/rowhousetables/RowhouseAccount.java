package io.github.rowhousetables;

/** An account on a server. Accounts do not share tables. */
public final class RowhouseAccount implements AutoCloseable {
    private final RowhouseServer server;
    private final String name;
    private final String key;
    private final String endpoint;
    private final String connectionString;

    RowhouseAccount(RowhouseServer server, String name, String key, String endpoint, String connectionString) {
        this.server = server;
        this.name = name;
        this.key = key;
        this.endpoint = endpoint;
        this.connectionString = connectionString;
    }

    /** Returns the name. */
    public String name() {
        return name;
    }

    /** Returns the key, in Base64. */
    public String key() {
        return key;
    }

    /** Returns the URL of the account's tables. */
    public String endpoint() {
        return endpoint;
    }

    /** Returns the connection string for client libraries, which contains all of the above. */
    public String connectionString() {
        return connectionString;
    }

    /** Deletes the account and its tables. Does nothing if it was already deleted. */
    @Override
    public void close() {
        server.delete(this);
    }
}
