using Azure.Core;
using Azure.Core.Pipeline;
using Azure.Data.Tables;
using Conformance.Support;
using Rowhouse.Testing;
using Xunit;

namespace Conformance.Tables;

/// <summary>Bearer tokens, which the client sends only over TLS.</summary>
public sealed class TokenTests : IAsyncLifetime
{
    private readonly TemporaryFolder folder = new();
    private readonly Issuer issuer = new();
    private Certificate certificate = null!;
    private RowhouseServer server = null!;

    public async ValueTask InitializeAsync()
    {
        certificate = new Certificate(folder);
        var configuration = folder.File("rowhouse.toml");
        await File.WriteAllTextAsync(
            configuration,
            $$"""
            [oauth]
            authorization-uri = "https://login.example.net/66666666-7777-8888-9999-000000000000/oauth2/authorize"
            allow-plain-http-issuer-on-loopback = true
            [[oauth.issuers]]
            issuer = "{{issuer.Name}}"
            [[oauth.assignments]]
            principal = { oid = "reader" }
            role = "reader"
            scope = "devstoreaccount1"
            [[oauth.assignments]]
            principal = { oid = "writer" }
            role = "contributor"
            scope = "devstoreaccount1"
            """);
        server = await RowhouseServer.StartAsync(
            "--config", configuration, "--tls-cert", certificate.CertificateFile, "--tls-key", certificate.KeyFile);
        await NewTable(issuer.Credential("writer")).CreateAsync();
    }

    public async ValueTask DisposeAsync()
    {
        await Servers.StopAsync(server);
        issuer.Dispose();
        folder.Dispose();
    }

    [Fact]
    public async Task AContributorWrites()
    {
        var cars = NewTable(issuer.Credential("writer"));
        await cars.AddEntityAsync(new TableEntity("p", "r") { ["A"] = 1 });
        var added = new TableTransactionAction(TableTransactionActionType.Add, new TableEntity("p", "s"));
        await cars.SubmitTransactionAsync([added]);
        Assert.Equal(2, await cars.QueryAsync<TableEntity>().CountAsync());
    }

    [Fact]
    public async Task AReaderOnlyReads()
    {
        await NewTable(issuer.Credential("writer")).AddEntityAsync(new TableEntity("p", "r"));
        var cars = NewTable(issuer.Credential("reader"));
        Assert.Equal("r", (await cars.GetEntityAsync<TableEntity>("p", "r")).Value.RowKey);
        await Refusal.AssertAsync(
            403, "AuthorizationPermissionMismatch", () => cars.AddEntityAsync(new TableEntity("p", "s")));
    }

    [Fact]
    public async Task OtherTokensAreRefused()
    {
        Task ReadAsync(TokenCredential credential) =>
            NewTable(credential).GetEntityIfExistsAsync<TableEntity>("p", "r");
        using var stranger = new Issuer();
        const string Invalid = "InvalidAuthenticationInfo";
        await Refusal.AssertAsync(401, Invalid, () => ReadAsync(issuer.Credential("reader", ("aud", "https://example.net"))));
        await Refusal.AssertAsync(401, Invalid, () => ReadAsync(issuer.Credential("reader", ("exp", 1_000_000_000))));
        await Refusal.AssertAsync(401, Invalid, () => ReadAsync(stranger.Credential("reader", ("iss", issuer.Name))));
        await Refusal.AssertAsync(
            403, "AuthorizationPermissionMismatch", () => ReadAsync(issuer.Credential("nobody")));
    }

    [Fact]
    public async Task AnUnknownCertificateIsNotTrusted()
    {
        var options = new TableClientOptions { Retry = { MaxRetries = 0 } };
        var cars = new TableClient(server.Account.Endpoint, "cars", issuer.Credential("writer"), options);
        await Refusal.AssertAsync(0, null, () => cars.AddEntityAsync(new TableEntity("p", "r")));
    }

    private TableClient NewTable(TokenCredential credential)
    {
        var options = new TableClientOptions { Transport = new HttpClientTransport(certificate.NewClient()) };
        return new TableClient(server.Account.Endpoint, "cars", credential, options);
    }
}
