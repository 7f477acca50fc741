using System.Diagnostics;
using Azure.Core.Pipeline;
using Azure.Data.Tables;
using Conformance.Support;
using Rowhouse.Testing;
using Xunit;

namespace Conformance.Documents;

/// <summary>Compiles and runs the .NET snippets of the documentation.</summary>
public sealed class SnippetTests(SharedServer server) : IDisposable
{
    private const string TestsPage = "docs/testing-with-rowhouse.md";

    private readonly TemporaryFolder folder = new();

    public void Dispose() => folder.Dispose();

    [Fact]
    public void EverySnippetIsKnown()
    {
        // These need packages of Testcontainers and Aspire, and containers. The pages say that no test compiles them.
        string[] notRun = ["docs/azurite.md container", "docs/azurite.md aspire", $"{TestsPage} aspire", $"{TestsPage} container"];
        string[] run = ["docs/getting-started.md ", "docs/getting-started.md tls", $"{TestsPage} file=OrderTests.cs", "docs/orleans.md silo"];
        // The test of Durable Task runs it, because it has queues and blobs.
        string[] runThere = ["docs/durable-task.md "];
        Assert.Equal(run.Concat(runThere).Concat(notRun).Order(), Snippet.All().Select(snippet => $"{snippet.Page} {snippet.Note}").Order());
    }

    [Fact]
    public async Task TheFirstProgramPrintsACar()
    {
        var account = await server.NewAccountAsync();
        var development = "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
        var snippet = Snippet.Find("docs/getting-started.md", "")
            .Replace("AccountName=devstoreaccount1", $"AccountName={account.Name}")
            .Replace(development, $"AccountKey={account.Key}")
            .Replace("http://127.0.0.1:10002/devstoreaccount1", account.Endpoint.ToString());
        Assert.Equal("0007 981.5\n", await Snippet.RunAsync(await snippet.CompileAsync(folder)));
    }

    [Fact]
    public async Task AProgramTrustsAnAuthority()
    {
        var certificate = new Certificate(folder);
        await using var server = await RowhouseServer.StartAsync(
            "--tls-cert", certificate.CertificateFile, "--tls-key", certificate.KeyFile);
        var options = new TableClientOptions { Transport = new HttpClientTransport(certificate.NewClient()) };
        await new TableServiceClient(server.Account.ConnectionString, options).CreateTableAsync("cars");
        var snippet = Snippet.Find("docs/getting-started.md", "tls")
            .Replace("ca.pem", certificate.CertificateFile)
            .Replace("https://127.0.0.1:10002/devstoreaccount1", server.Account.Endpoint.ToString());
        Assert.Equal("cars\n", await Snippet.RunAsync(await snippet.CompileAsync(folder)));
    }

    [Fact]
    public async Task TheTestsPass()
    {
        // The package of xUnit generates this when it builds a project.
        const string EntryPoint = """
            public static class Program
            {
                public static Task<int> Main(string[] args) => Xunit.Runner.InProc.SystemConsole.ConsoleRunner.Run(args);
            }
            """;
        var command = await Snippet.Find(TestsPage, "file=OrderTests.cs").CompileAsync(folder, EntryPoint);
        Directory.CreateDirectory(folder.File("fixtures"));
        await File.WriteAllTextAsync(folder.File("fixtures/prices.jsonl"), """{"PartitionKey":"north","RowKey":"pear"}""");
        Assert.Matches(@"Total: 2, Errors: 0, Failed: 0, Skipped: 0", await Snippet.RunAsync(command));
    }

    [Fact(Timeout = 120_000)]
    public async Task TheSiloJoinsItsCluster()
    {
        var account = await server.NewAccountAsync();
        var snippet = Snippet.Find("docs/orleans.md", "silo").Replace("UseDevelopmentStorage=true", account.ConnectionString);
        var command = await snippet.CompileAsync(folder);
        // By default, every silo on a machine uses the same ports.
        using ReservedPort siloPort = new();
        using ReservedPort gatewayPort = new();
        command.Environment["Orleans__Endpoints__SiloPort"] = $"{siloPort.Number}";
        command.Environment["Orleans__Endpoints__GatewayPort"] = $"{gatewayPort.Number}";
        using var silo = Process.Start(command)!;
        var printed = silo.StandardOutput.ReadToEndAsync();
        var errors = silo.StandardError.ReadToEndAsync();
        var members = new TableClient(account.ConnectionString, "OrleansSiloInstances");
        try
        {
            while (!await IsActiveAsync(members))
            {
                Assert.False(silo.HasExited, silo.HasExited ? await printed + await errors : "");
                await Task.Delay(100, TestContext.Current.CancellationToken);
            }
        }
        finally
        {
            silo.Kill();
            await silo.WaitForExitAsync();
        }
    }

    private static async Task<bool> IsActiveAsync(TableClient members)
    {
        try
        {
            return await members.QueryAsync<TableEntity>("Status eq 'Active'").AnyAsync();
        }
        catch (Azure.RequestFailedException error) when (error.ErrorCode == "TableNotFound")
        {
            return false;
        }
    }
}
