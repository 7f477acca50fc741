using Conformance.Support;
using Rowhouse.Testing;
using Xunit;

[assembly: AssemblyFixture(typeof(SharedServer))]

namespace Conformance.Support;

/// <summary>The server that most tests share. It starts with the first test that needs it.</summary>
public sealed class SharedServer : IAsyncDisposable
{
    private readonly Lazy<Task<RowhouseServer>> server = new(RowhouseServer.SharedAsync);

    public async Task<RowhouseAccount> NewAccountAsync() => await (await server.Value).NewAccountAsync();

    public async ValueTask DisposeAsync()
    {
        // If it did not start, every test has failed with the reason.
        if (server is { IsValueCreated: true, Value.IsCompletedSuccessfully: true })
        {
            await Servers.StopAsync(await server.Value);
        }
    }
}
