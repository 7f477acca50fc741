using Azure.Data.Tables;
using Conformance.Documents;
using Conformance.Support;
using DurableTask.AzureStorage;
using DurableTask.Core;
using Rowhouse.Testing;
using Xunit;

namespace Conformance.DurableTask;

/// <summary>Durable Task, with its history and its instances in tables.</summary>
public sealed class OrchestrationTests : IAsyncLifetime
{
    private const int Activities = 60;

    private readonly TemporaryFolder folder = new();
    private readonly ReservedPort port = new();
    private Azurite emulator = null!;
    private RowhouseServer server = null!;

    /// <summary>Runs activities at the same time, and returns the sum of their results.</summary>
    private sealed class FanOut : TaskOrchestration<int, int>
    {
        public override async Task<int> RunTask(OrchestrationContext context, int count)
        {
            var squares = Enumerable.Range(0, count).Select(number => context.ScheduleTask<int>(typeof(Square), number));
            return (await Task.WhenAll(squares)).Sum();
        }
    }

    /// <summary>The last activities wait until the server runs again.</summary>
    private sealed class Square : AsyncTaskActivity<int, int>
    {
        public static readonly TaskCompletionSource Restarted = new();

        protected override async Task<int> ExecuteAsync(TaskContext context, int number)
        {
            if (number >= Activities - 5)
            {
                await Restarted.Task;
            }
            return number * number;
        }
    }

    public async ValueTask InitializeAsync()
    {
        emulator = await Azurite.StartAsync();
        await StartServerAsync();
    }

    public async ValueTask DisposeAsync()
    {
        await Servers.StopAsync(server);
        emulator.Dispose();
        port.Dispose();
        folder.Dispose();
    }

    [Fact(Timeout = 120_000)]
    public async Task AFanOutCompletesAlthoughTheServerIsKilled()
    {
        var service = new AzureStorageOrchestrationService(new()
        {
            StorageAccountClientProvider = new(server.ConnectionString + Endpoints),
            TaskHubName = "hub",
            PartitionCount = 1,
            MaxQueuePollingInterval = TimeSpan.FromMilliseconds(200),
            UseTablePartitionManagement = true,
        });
        await service.CreateAsync();
        using var worker = new TaskHubWorker(service);
        worker.AddTaskOrchestrations(typeof(FanOut));
        worker.AddTaskActivities(typeof(Square));
        await worker.StartAsync();
        var client = new TaskHubClient(service);

        var instance = await client.CreateOrchestrationInstanceAsync(typeof(FanOut), Activities);
        await WaitForHistoryAsync(instance.InstanceId, "TaskCompleted");
        await server.KillAsync();
        await StartServerAsync();
        Assert.DoesNotContain("ExecutionCompleted", await EventsAsync(instance.InstanceId));
        Square.Restarted.SetResult();
        var state = await client.WaitForOrchestrationAsync(instance, TimeSpan.FromMinutes(2), TestContext.Current.CancellationToken);
        Assert.Equal((OrchestrationStatus.Completed, "70210"), (state.OrchestrationStatus, state.Output));

        var events = await EventsAsync(instance.InstanceId);
        Assert.Equal(Activities, events.Count(name => name == "TaskScheduled"));
        Assert.Equal(Activities, events.Count(name => name == "TaskCompleted"));
        Assert.Equal(1, events.Count(name => name == "ExecutionCompleted"));
        await worker.StopAsync(isForced: true);
    }

    [Fact(Timeout = 120_000)]
    public async Task TheProgramOfTheGuideCompletes()
    {
        var snippet = Snippet.Find("docs/durable-task.md", "").Replace("UseDevelopmentStorage=true", server.ConnectionString + Endpoints);
        Assert.Equal("Completed 9\n", await Snippet.RunAsync(await snippet.CompileAsync(folder)));
    }

    private string Endpoints => $"BlobEndpoint={emulator.BlobEndpoint};QueueEndpoint={emulator.QueueEndpoint};";

    private async Task StartServerAsync() =>
        server = await RowhouseServer.StartWithDataAsync(folder.File("data"), "--listen", $"127.0.0.1:{port.Number}");

    private async Task WaitForHistoryAsync(string instance, string name)
    {
        while (!(await EventsAsync(instance)).Contains(name))
        {
            await Task.Delay(20, TestContext.Current.CancellationToken);
        }
    }

    /// <summary>Returns the types of all events in the history of an instance.</summary>
    private async Task<List<string>> EventsAsync(string instance)
    {
        var history = new TableClient(server.Account.ConnectionString, "hubHistory");
        var events = history.QueryAsync<TableEntity>(entry => entry.PartitionKey == instance, select: ["EventType"]);
        return await events.Select(entry => entry.GetString("EventType") ?? "").ToListAsync();
    }
}
