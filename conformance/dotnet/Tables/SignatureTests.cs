using Azure;
using Azure.Data.Tables;
using Azure.Data.Tables.Models;
using Azure.Data.Tables.Sas;
using Conformance.Support;
using Xunit;

namespace Conformance.Tables;

/// <summary>Shared access signatures of a table and of an account, and stored access policies.</summary>
public class SignatureTests(SharedServer server) : TablesTest(server)
{
    private static DateTimeOffset Tomorrow => DateTimeOffset.UtcNow.AddDays(1);

    [Fact]
    public async Task ASignatureAllowsItsPermissionsOnly()
    {
        await Cars.AddEntityAsync(Car("1"));
        var reader = With(Cars.GenerateSasUri(TableSasPermissions.Read, Tomorrow));
        Assert.Equal("1", await RowKeysAsync(reader.QueryAsync<TableEntity>()));
        await AssertForbiddenAsync(() => reader.AddEntityAsync(Car("2")));
        await AssertForbiddenAsync(() => reader.UpdateEntityAsync(Car("1"), ETag.All));
        await AssertForbiddenAsync(() => reader.DeleteEntityAsync("kestrel", "1"));
        var writer = With(Cars.GenerateSasUri(TableSasPermissions.Add | TableSasPermissions.Update, Tomorrow));
        await writer.AddEntityAsync(Car("2"));
        await writer.UpsertEntityAsync(Car("3"));
        await AssertForbiddenAsync(() => RowKeysAsync(writer.QueryAsync<TableEntity>()));
        var deleter = With(Cars.GenerateSasUri(TableSasPermissions.Delete, Tomorrow));
        await deleter.DeleteEntityAsync("kestrel", "2");
        Assert.Equal("1 3", await RowKeysAsync(reader.QueryAsync<TableEntity>()));
    }

    [Fact]
    public async Task AKeyRangeLimitsReadsAndWrites()
    {
        foreach (var (make, number) in new[] { ("heron", "9"), ("kestrel", "1"), ("kestrel", "5"), ("kestrel", "9") })
        {
            await Cars.AddEntityAsync(Car(number, make));
        }
        var builder = Cars.GetSasBuilder(TableSasPermissions.All, Tomorrow);
        builder.PartitionKeyStart = builder.PartitionKeyEnd = "kestrel";
        builder.RowKeyStart = "2";
        builder.RowKeyEnd = "6";
        var limited = With(Cars.GenerateSasUri(builder));
        Assert.Equal("5", await RowKeysAsync(limited.QueryAsync<TableEntity>()));
        await limited.UpsertEntityAsync(Car("2"));
        await AssertOutsideAsync(() => limited.UpsertEntityAsync(Car("7")));
        await AssertOutsideAsync(() => limited.AddEntityAsync(Car("3", make: "heron")));
        await AssertOutsideAsync(() => limited.DeleteEntityAsync("kestrel", "9"));
        var outside = await limited.GetEntityIfExistsAsync<TableEntity>("kestrel", "9");
        Assert.False(outside.HasValue);
        TableTransactionAction[] actions = [new(TableTransactionActionType.Add, Car("4")), new(TableTransactionActionType.Add, Car("8"))];
        await AssertOutsideAsync(() => limited.SubmitTransactionAsync(actions));
        Assert.Equal("2 5", await RowKeysAsync(limited.QueryAsync<TableEntity>()));
    }

    [Fact]
    public async Task ASignatureIsValidForItsTimeTableAndKey()
    {
        await Service.CreateTableAsync("boats");
        Task ReadAsync(TableClient table) => RowKeysAsync(table.QueryAsync<TableEntity>());
        Task AssertInvalidAsync(TableClient table) => Refusal.AssertAsync(403, "AuthenticationFailed", () => ReadAsync(table));
        await AssertInvalidAsync(With(Cars.GenerateSasUri(TableSasPermissions.Read, DateTimeOffset.UtcNow.AddMinutes(-1))));
        var builder = Cars.GetSasBuilder(TableSasPermissions.Read, Tomorrow);
        builder.StartsOn = DateTimeOffset.UtcNow.AddHours(1);
        await AssertInvalidAsync(With(Cars.GenerateSasUri(builder)));
        var valid = Cars.GenerateSasUri(TableSasPermissions.Read, Tomorrow);
        var boats = new TableClient(new UriBuilder(valid) { Path = valid.AbsolutePath.Replace("cars", "boats") }.Uri);
        await AssertOutsideAsync(() => ReadAsync(boats));
        var otherKey = new TableSharedKeyCredential(Account.Name, Convert.ToBase64String(new byte[64]));
        var forged = Cars.GetSasBuilder(TableSasPermissions.Read, Tomorrow).Sign(otherKey);
        await AssertInvalidAsync(With(forged));
    }

    [Fact]
    public async Task APolicyLimitsItsSignaturesAndRevokesThem()
    {
        var policy = new TableAccessPolicy(DateTimeOffset.UtcNow.AddHours(-1), Tomorrow, "r");
        await Cars.SetAccessPolicyAsync([new TableSignedIdentifier("readers", policy)]);
        var stored = Assert.Single((await Cars.GetAccessPoliciesAsync()).Value);
        Assert.Equal(("readers", "r"), (stored.Id, stored.AccessPolicy.Permission));
        Assert.Equal(policy.ExpiresOn!.Value.ToUnixTimeSeconds(), stored.AccessPolicy.ExpiresOn!.Value.ToUnixTimeSeconds());

        var builder = new TableSasBuilder { TableName = "cars", Identifier = "readers" };
        var signature = builder.Sign(new TableSharedKeyCredential(Account.Name, Account.Key));
        var reader = With(signature);
        Assert.Equal("", await RowKeysAsync(reader.QueryAsync<TableEntity>()));
        await AssertForbiddenAsync(() => reader.AddEntityAsync(Car("1")));
        await Cars.SetAccessPolicyAsync([]);
        Assert.Empty((await Cars.GetAccessPoliciesAsync()).Value);
        await Refusal.AssertAsync(403, "AuthenticationFailed", () => RowKeysAsync(reader.QueryAsync<TableEntity>()));
    }

    [Fact]
    public async Task SixPoliciesAreTooMany()
    {
        var policies = Enumerable.Range(0, 6).Select(number => new TableSignedIdentifier($"{number}", new(null, Tomorrow, "r")));
        // The client reads no code from an error in XML.
        var error = await Refusal.AssertAsync(400, null, () => Cars.SetAccessPolicyAsync(policies));
        Assert.Contains("InvalidXmlDocument", error.Message);
    }

    [Fact]
    public async Task AnAccountSignatureAllowsItsResourceTypesOnly()
    {
        await Cars.AddEntityAsync(Car("1"));
        TableServiceClient Allowing(TableAccountSasPermissions permissions, TableAccountSasResourceTypes types) =>
            new(Service.GenerateSasUri(permissions, types, Tomorrow));
        var everything = Allowing(TableAccountSasPermissions.All, TableAccountSasResourceTypes.All);
        Assert.Equal(["cars"], await everything.QueryAsync().Select(table => table.Name).ToListAsync());
        await everything.CreateTableAsync("boats");
        Assert.NotNull((await everything.GetPropertiesAsync()).Value.Logging);
        var entities = Allowing(TableAccountSasPermissions.Read | TableAccountSasPermissions.Add, TableAccountSasResourceTypes.Object);
        var cars = entities.GetTableClient("cars");
        await cars.AddEntityAsync(Car("2"));
        Assert.Equal("1 2", await RowKeysAsync(cars.QueryAsync<TableEntity>()));
        await Refusal.AssertAsync(403, "AuthorizationResourceTypeMismatch", () => entities.CreateTableAsync("bikes"));
        await Refusal.AssertAsync(403, "AuthorizationPermissionMismatch", () => cars.DeleteEntityAsync("kestrel", "1"));
        var signed = Service.GenerateSasUri(TableAccountSasPermissions.Read, TableAccountSasResourceTypes.Object, Tomorrow);
        var connection = $"TableEndpoint={Account.Endpoint};SharedAccessSignature={signed.Query[1..]}";
        Assert.Equal("1 2", await RowKeysAsync(new TableClient(connection, "cars").QueryAsync<TableEntity>()));
    }

    private static TableClient With(Uri signed) => new(signed);

    private TableClient With(string signature) =>
        new TableServiceClient(Account.Endpoint, new AzureSasCredential(signature)).GetTableClient("cars");

    private static Task AssertForbiddenAsync(Func<Task> operation) =>
        Refusal.AssertAsync(403, "AuthorizationPermissionMismatch", operation);

    /// <summary>The entity or table is not one of those for which the signature is valid.</summary>
    private static Task AssertOutsideAsync(Func<Task> operation) =>
        Refusal.AssertAsync(403, "AuthorizationFailure", operation);
}
