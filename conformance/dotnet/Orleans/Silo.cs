using Azure.Data.Tables;
using Conformance.Support;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Orleans.Configuration;

namespace Conformance.Orleans;

/// <summary>A silo in this process that keeps its members, grain state and reminders in tables.</summary>
internal sealed class Silo : IAsyncDisposable
{
    private readonly IHost host;
    private readonly ReservedPort siloPort = new();
    private readonly ReservedPort gatewayPort = new();

    private Silo(string connectionString)
    {
        var tables = new TableServiceClient(connectionString);
        var builder = Host.CreateApplicationBuilder();
        builder.Logging.ClearProviders();
        builder.UseOrleans(silo => silo
            .Configure<ClusterOptions>(options => (options.ClusterId, options.ServiceId) = ("cluster", "service"))
            .ConfigureEndpoints("127.0.0.1", siloPort.Number, gatewayPort.Number)
            .Configure<ReminderOptions>(options => options.MinimumReminderPeriod = TimeSpan.FromSeconds(1))
            .UseAzureStorageClustering(options => options.TableServiceClient = tables)
            .UseAzureTableReminderService(options => options.TableServiceClient = tables)
            .AddAzureTableGrainStorageAsDefault(options => options.TableServiceClient = tables));
        host = builder.Build();
    }

    public static async Task<Silo> StartAsync(string connectionString)
    {
        var silo = new Silo(connectionString);
        await silo.host.StartAsync();
        return silo;
    }

    public ICounterGrain Counter(string name) =>
        host.Services.GetRequiredService<IGrainFactory>().GetGrain<ICounterGrain>(name);

    public async ValueTask DisposeAsync()
    {
        await host.StopAsync();
        host.Dispose();
        siloPort.Dispose();
        gatewayPort.Dispose();
    }
}
