namespace Rowhouse.Testing;

/// <summary>An account on a server. Accounts do not share tables. Disposing of it deletes it.</summary>
public sealed class RowhouseAccount : IAsyncDisposable
{
    private readonly RowhouseServer server;

    internal RowhouseAccount(RowhouseServer server, string connectionString)
    {
        var parts = connectionString.Split(';', StringSplitOptions.RemoveEmptyEntries)
            .Select(part => part.Split('=', 2)).ToDictionary(part => part[0], part => part[1]);
        this.server = server;
        Name = parts["AccountName"];
        Key = parts["AccountKey"];
        Endpoint = new Uri(parts["TableEndpoint"]);
        ConnectionString = connectionString;
    }

    /// <summary>The name.</summary>
    public string Name { get; }

    /// <summary>The key in Base64.</summary>
    public string Key { get; }

    /// <summary>The URL of the account's tables.</summary>
    public Uri Endpoint { get; }

    /// <summary>The connection string for client libraries, which contains all of the above.</summary>
    public string ConnectionString { get; }

    /// <summary>Creates tables from files of entities, one for each table, in the format of <c>rowhouse export</c>.</summary>
    /// <param name="folder">The folder of the files.</param>
    public Task SeedAsync(string folder) => RowhouseServer.ImportAsync(folder, ConnectionString);

    /// <summary>Deletes the account and its tables. Does nothing if it was already deleted.</summary>
    public async ValueTask DisposeAsync() => await server.DeleteAsync($"/test/accounts/{Name}").ConfigureAwait(false);
}
