using System.Diagnostics;
using Azure.Data.Tables;
using Conformance.Support;
using Rowhouse.Testing;
using Xunit;

namespace Conformance.Testing;

/// <summary>The package Rowhouse.Testing.</summary>
public sealed class ServerTests(SharedServer shared) : IDisposable
{
    private readonly TemporaryFolder folder = new();

    public void Dispose() => folder.Dispose();

    [Fact]
    public async Task AccountsOnOneServerAreDeletedOnce()
    {
        var server = await RowhouseServer.SharedAsync();
        Assert.Same(server, await RowhouseServer.SharedAsync());
        await using var second = await shared.NewAccountAsync();
        string name;
        await using (var first = await server.NewAccountAsync())
        {
            name = first.Name;
            Assert.Equal(new Uri(server.Account.Endpoint, $"/{name}"), first.Endpoint);
            Assert.Contains($"AccountName={name};AccountKey={first.Key};", first.ConnectionString);
            await new TableServiceClient(first.ConnectionString).CreateTableAsync("orders");
            Assert.Empty(await TablesAsync(second.ConnectionString));
            await first.DisposeAsync();
        }
        // The account was deleted, so its name is available.
        await server.ControlAsync(HttpMethod.Post, "/test/accounts", $$"""{"name":"{{name}}"}""");
        var refusal = await Assert.ThrowsAsync<InvalidOperationException>(
            () => server.ControlAsync(HttpMethod.Post, "/test/accounts", $$"""{"name":"{{second.Name}}"}"""));
        Assert.StartsWith("POST /test/accounts was refused: ", refusal.Message);
        await Assert.ThrowsAsync<InvalidOperationException>(async () => await server.Account.DisposeAsync());
    }

    [Fact]
    public async Task AServerReturnsToItsSeedAndToASnapshot()
    {
        await File.WriteAllTextAsync(folder.File("prices.jsonl"), """{"PartitionKey":"north","RowKey":"apple"}""" + "\n");
        await using var server = await RowhouseServer.StartAsync("--seed", folder.File(""));
        var service = new TableServiceClient(server.ConnectionString);
        await using (var snapshot = await server.SnapshotAsync())
        {
            await service.DeleteTableAsync("prices");
            await snapshot.RestoreAsync();
            Assert.Equal(["prices"], await TablesAsync(server.ConnectionString));
            await snapshot.DisposeAsync();
        }
        await service.CreateTableAsync("orders");
        await using var account = await server.NewAccountAsync();
        await account.SeedAsync(folder.File(""));
        Assert.Equal(["prices"], await TablesAsync(account.ConnectionString));
        var error = await Assert.ThrowsAsync<InvalidOperationException>(() => account.SeedAsync("/nonexistent"));
        Assert.StartsWith("/nonexistent was not imported: rowhouse: reading ", error.Message);

        await server.ResetAsync();
        Assert.Equal(["prices"], await TablesAsync(server.ConnectionString));
    }

    [Fact]
    public async Task AClockObeys()
    {
        await using var server = await RowhouseServer.StartAsync();
        var clock = server.Clock;
        var time = new DateTimeOffset(2030, 1, 1, 0, 0, 0, TimeSpan.FromHours(2));
        await clock.SetAsync(time);
        await clock.AdvanceAsync(TimeSpan.FromDays(1.5));
        Assert.Equal(time.AddDays(1.5), await clock.NowAsync());
        var table = new TableClient(server.ConnectionString, "orders");
        await table.CreateAsync();
        await table.AddEntityAsync(new TableEntity("north", "1"));
        Assert.Equal(time.AddDays(1.5), (await table.GetEntityAsync<TableEntity>("north", "1")).Value.Timestamp);
        await clock.ResumeAsync();
        Assert.True(await clock.NowAsync() > time.AddDays(1.5));
        await clock.ResetAsync();
        await clock.StopAsync();
        var stopped = await clock.NowAsync();
        Assert.Equal(stopped, await clock.NowAsync());
        Assert.InRange(DateTimeOffset.UtcNow - stopped, TimeSpan.Zero, TimeSpan.FromMinutes(1));
    }

    [Fact]
    public async Task AKilledServerKeepsItsData()
    {
        var data = folder.File("data");
        await using (var server = await RowhouseServer.StartWithDataAsync(data))
        {
            await new TableServiceClient(server.ConnectionString).CreateTableAsync("orders");
            var error = await Assert.ThrowsAsync<InvalidOperationException>(() => server.ResetAsync());
            Assert.Equal("a server with a data folder has no test controls", error.Message);
            Assert.Null(server.ExitCode);
            await server.KillAsync();
            Assert.NotEqual(0, server.ExitCode);
        }
        await using var next = await RowhouseServer.StartWithDataAsync(data);
        Assert.Equal(["orders"], await TablesAsync(next.ConnectionString));
    }

    [Fact]
    public async Task AStoppedServerSaysSo()
    {
        var server = await RowhouseServer.StartAsync();
        await server.DisposeAsync();
        await server.DisposeAsync();
        Assert.Equal(0, server.ExitCode);
        Assert.Contains("stopped", server.Log);
        var error = await Assert.ThrowsAsync<InvalidOperationException>(() => server.NewAccountAsync());
        Assert.StartsWith("POST /test/accounts failed: ", error.Message);
        Assert.EndsWith(server.Log, error.Message);
    }

    [Fact]
    public async Task AServerThatDoesNotStartSaysWhy()
    {
        var error = await Assert.ThrowsAsync<InvalidOperationException>(() => RowhouseServer.StartAsync("--nonsense"));
        Assert.StartsWith("rowhouse did not start: exit code 2\nerror: unexpected argument '--nonsense'", error.Message);
        const string Accounts = """
            [[account]]
            name = "orchard"
            key1 = "c2l4dGVlbiBieXRlcyBvZiBrZXk="
            """;
        await File.WriteAllTextAsync(folder.File("accounts.toml"), Accounts);
        error = await Assert.ThrowsAsync<InvalidOperationException>(
            () => RowhouseServer.StartAsync("--accounts", folder.File("accounts.toml")));
        Assert.StartsWith("--accounts hides the keys: leave it out", error.Message);
    }

    [Theory]
    [InlineData("", "the program rowhouse is missing: install it, or set ROWHOUSE_BINARY to its path")]
    [InlineData("/nonexistent/program", "ROWHOUSE_BINARY names a file that does not exist: /nonexistent/program")]
    public async Task EveryTestSaysThatTheProgramIsMissing(string program, string reason)
    {
        var method = $"{typeof(ServerTests).FullName}.{nameof(AccountsOnOneServerAreDeletedOnce)}";
        var assembly = typeof(ServerTests).Assembly.Location;
        var command = new ProcessStartInfo(Environment.ProcessPath!, ["exec", assembly, "-method", method, "-noColor"])
        {
            RedirectStandardOutput = true,
            Environment = { ["PATH"] = "/nonexistent", ["ROWHOUSE_BINARY"] = program },
        };
        using var process = Process.Start(command)!;
        Assert.Contains($"System.InvalidOperationException : {reason}", await process.StandardOutput.ReadToEndAsync());
        await process.WaitForExitAsync();
        Assert.Equal(1, process.ExitCode);
    }

    private static async Task<List<string>> TablesAsync(string connectionString) =>
        await new TableServiceClient(connectionString).QueryAsync().Select(table => table.Name).ToListAsync();
}
