using Azure.Data.Tables;
using Conformance.Support;
using Rowhouse.Testing;
using Xunit;

namespace Conformance.Orleans;

/// <summary>What Orleans keeps in tables: the members of a cluster, the state of grains, and reminders.</summary>
public sealed class SiloTests : IAsyncLifetime
{
    private readonly TemporaryFolder folder = new();
    private readonly ReservedPort port = new();
    private RowhouseServer server = null!;

    public async ValueTask InitializeAsync() => await StartServerAsync();

    public async ValueTask DisposeAsync()
    {
        await Servers.StopAsync(server);
        port.Dispose();
        folder.Dispose();
    }

    [Fact(Timeout = 120_000)]
    public async Task StateAndRemindersOutliveTheSilo()
    {
        await using (var silo = await Silo.StartAsync(server.Account.ConnectionString))
        {
            var counter = silo.Counter("a/b 'c'");
            for (var value = 1; value <= 3; value++)
            {
                Assert.Equal(value, await counter.IncreaseAsync());
            }
            await counter.RemindAsync();
            await WaitUntilAsync(async () => await counter.ReminderCountAsync() > 0);
            Assert.Equal(["Active"], await StatesAsync());
        }
        Assert.Equal(["Dead"], await StatesAsync());
        await using (var silo = await Silo.StartAsync(server.Account.ConnectionString))
        {
            var counter = silo.Counter("a/b 'c'");
            Assert.Equal(3, await counter.ReadAsync());
            await WaitUntilAsync(async () => await counter.ReminderCountAsync() > 0);
            Assert.Equal(["Active", "Dead"], await StatesAsync());
        }
    }

    [Fact(Timeout = 120_000)]
    public async Task NoAcknowledgedWriteIsLostIfTheServerIsKilled()
    {
        await using var silo = await Silo.StartAsync(server.Account.ConnectionString);
        var counters = Enumerable.Range(0, 8).Select(number => silo.Counter($"{number}")).ToArray();
        using var end = new CancellationTokenSource();
        var writers = counters.Select(counter => IncreaseUntilAsync(counter, end.Token)).ToArray();
        await WaitUntilAsync(async () => (await Task.WhenAll(counters.Select(counter => counter.ReadAsync()))).Sum() > 100);
        await server.KillAsync();
        await StartServerAsync();
        var before = (await Task.WhenAll(counters.Select(ReadStoredAsync))).Sum();
        await WaitUntilAsync(async () => (await Task.WhenAll(counters.Select(ReadStoredAsync))).Sum() > before + 100);
        await end.CancelAsync();
        var acknowledged = await Task.WhenAll(writers);
        var stored = await Task.WhenAll(counters.Select(ReadStoredAsync));
        // A write that was applied but not acknowledged is stored, too.
        Assert.All(acknowledged.Zip(stored), pair => Assert.InRange(pair.Second, pair.First, pair.First + 1));
        Assert.Equal(["Active"], await StatesAsync());
    }

    private async Task StartServerAsync() =>
        server = await RowhouseServer.StartWithDataAsync(folder.File("data"), "--listen", $"127.0.0.1:{port.Number}");

    /// <summary>Increases a counter until the end, and returns the last value that was acknowledged.</summary>
    private static async Task<int> IncreaseUntilAsync(ICounterGrain counter, CancellationToken end)
    {
        var last = 0;
        while (!end.IsCancellationRequested)
        {
            try
            {
                last = await counter.IncreaseAsync();
            }
            catch (Exception)
            {
                // The server is away.
                await Task.Delay(50);
            }
        }
        return last;
    }

    private static async Task<int> ReadStoredAsync(ICounterGrain counter)
    {
        await counter.ForgetAsync();
        return await counter.ReadAsync();
    }

    /// <summary>Returns the states of all silos that the table of members lists.</summary>
    private async Task<IEnumerable<string>> StatesAsync()
    {
        var members = new TableClient(server.Account.ConnectionString, "OrleansSiloInstances");
        // The row with the version of the table has no status.
        var rows = await members.QueryAsync<TableEntity>("PartitionKey eq 'cluster' and Status ge ''").ToListAsync();
        return rows.Select(row => row.GetString("Status")).Order();
    }

    private static async Task WaitUntilAsync(Func<Task<bool>> isTrue)
    {
        while (!await isTrue())
        {
            await Task.Delay(50, TestContext.Current.CancellationToken);
        }
    }
}
