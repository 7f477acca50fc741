package io.github.rowhousetables;

/** An account on a server. Accounts do not see each other's tables. */
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

    /** Returns its name. */
    public String name() {
        return name;
    }

    /** Returns its key, in Base64. */
    public String key() {
        return key;
    }

    /** Returns the address of its tables. */
    public String endpoint() {
        return endpoint;
    }

    /** Returns the connection string for client libraries, which has all of the above. */
    public String connectionString() {
        return connectionString;
    }

    /** Deletes the account with everything in it. It may have been deleted already. */
    @Override
    public void close() {
        server.delete(this);
    }
}
