using Azure.Data.Tables;
using Conformance.Support;
using Rowhouse.Testing;
using Xunit;

namespace Conformance.Tables;

/// <summary>What the client makes of the conditions that `--rehearse` simulates.</summary>
public class RehearsalTests
{
    private static TableClientOptions WithoutRetries => new() { Retry = { MaxRetries = 0 } };

    [Fact]
    public async Task ShortAndEmptyPagesLoseNothing()
    {
        await using var server = await RowhouseServer.StartAsync("--rehearse", "short-pages=100%,empty-pages=100%,seed=1");
        var cars = await CreateCarsAsync(server, count: 50);
        var pages = await cars.QueryAsync<TableEntity>(maxPerPage: 10).AsPages().ToListAsync();
        Assert.Contains(pages, page => page.Values.Count == 0);
        Assert.True(pages.Count(page => page.Values.Count is > 0 and < 10) > 1);
        var found = pages.SelectMany(page => page.Values).Select(car => car.RowKey);
        Assert.Equal(Enumerable.Range(10, 50).Select(number => $"{number}"), found);
        Assert.Equal(50, await cars.QueryAsync<TableEntity>().CountAsync());
    }

    [Fact]
    public async Task ABusyServerSaysWhenToTryAgain()
    {
        await using var server = await RowhouseServer.StartAsync("--rehearse", "busy=100%");
        var once = new TableClient(server.Account.ConnectionString, "cars", WithoutRetries);
        var error = await Refusal.AssertAsync(503, "ServerBusy", () => once.CreateAsync());
        Assert.True(error.GetRawResponse()!.Headers.TryGetValue("Retry-After", out var seconds));
        Assert.Equal("1", seconds);
    }

    [Fact]
    public async Task RetriesHideABusyServer()
    {
        // With this seed, some requests are refused, but none four times.
        await using var server = await StartBusyAsync("busy=10%,seed=5");
        var cars = await CreateCarsAsync(server, count: 10);
        Assert.Equal(10, await cars.QueryAsync<TableEntity>().CountAsync());
        Assert.InRange(await CountRefusalsAsync(server), 1, 3);
    }

    /// <summary>The error is in a part of the response, so the client does not retry the transaction.</summary>
    [Fact]
    public async Task ABusyTransactionFailsAtOnce()
    {
        await using var server = await StartBusyAsync("busy=100%");
        var cars = new TableClient(server.Account.ConnectionString, "cars");
        var action = new TableTransactionAction(TableTransactionActionType.Add, new TableEntity("p", "r"));
        var error = await Refusal.AssertAsync(503, "ServerBusy", () => cars.SubmitTransactionAsync([action]));
        Assert.Null(Assert.IsType<TableTransactionFailedException>(error).FailedTransactionActionIndex);
        Assert.Equal(1, await CountRefusalsAsync(server));
    }

    /// <summary>The client cannot tell that its first attempt succeeded.</summary>
    [Fact]
    public async Task ALostAnswerOfAnInsertLooksLikeAConflict()
    {
        await using var server = await RowhouseServer.StartAsync("--rehearse", "lost-answers=100%");
        var options = new TableClientOptions { Retry = { Delay = TimeSpan.FromMilliseconds(10), MaxRetries = 1 } };
        var service = new TableServiceClient(server.Account.ConnectionString, options);
        await Refusal.AssertAsync(409, "TableAlreadyExists", () => service.CreateTableAsync("cars"));
        var insert = () => service.GetTableClient("cars").AddEntityAsync(new TableEntity("p", "r"));
        await Refusal.AssertAsync(409, "EntityAlreadyExists", insert);
    }

    [Fact]
    public async Task ADeletedNameIsReserved()
    {
        await using var server = await RowhouseServer.StartAsync("--rehearse", "deletion=40s");
        var cars = await CreateCarsAsync(server, count: 1);
        await cars.DeleteAsync();
        await Refusal.AssertAsync(409, "TableBeingDeleted", () => cars.CreateAsync());
        await server.ControlAsync(HttpMethod.Put, "/test/clock", """{"advanceSeconds":40}""");
        await cars.CreateAsync();
    }

    private static Task<RowhouseServer> StartBusyAsync(string conditions) =>
        RowhouseServer.StartAsync("--rehearse", conditions, "--log", "info,rowhouse::rehearsal=debug");

    /// <summary>Stops a server, and returns the number of requests that it refused as busy.</summary>
    private static async Task<int> CountRefusalsAsync(RowhouseServer server)
    {
        await Servers.StopAsync(server);
        return server.Log.Split('\n').Count(line => line.Contains("refused a request as busy"));
    }

    private static async Task<TableClient> CreateCarsAsync(RowhouseServer server, int count)
    {
        var cars = new TableClient(server.Account.ConnectionString, "cars");
        await cars.CreateAsync();
        for (var number = 10; number < 10 + count; number++)
        {
            await cars.AddEntityAsync(new TableEntity("kestrel", $"{number}"));
        }
        return cars;
    }
}
