using Conformance.Support;
using Microsoft.WindowsAzure.Storage;
using Microsoft.WindowsAzure.Storage.Auth;
using Microsoft.WindowsAzure.Storage.RetryPolicies;
using Microsoft.WindowsAzure.Storage.Shared.Protocol;
using Microsoft.WindowsAzure.Storage.Table;
using Xunit;

namespace Conformance.Storage;

/// <summary>Shared access signatures, stored access policies, service properties and statistics.</summary>
public class AccessTests(SharedServer server) : StorageTest(server)
{
    private static DateTimeOffset Tomorrow => DateTimeOffset.UtcNow.AddDays(1);

    [Fact]
    public async Task ASignatureAllowsItsPermissionsAndKeys()
    {
        await Cars.ExecuteAsync(TableOperation.Insert(Car("1")));
        await Cars.ExecuteAsync(TableOperation.Insert(Car("5")));
        var policy = new SharedAccessTablePolicy
        {
            Permissions = SharedAccessTablePermissions.Query | SharedAccessTablePermissions.Add,
            SharedAccessExpiryTime = Tomorrow,
        };
        var limited = With(Cars.GetSharedAccessSignature(policy, null, "kestrel", "3", "kestrel", "7"));
        Assert.Equal(["5"], (await limited.ExecuteQuerySegmentedAsync(new TableQuery(), null)).Select(car => car.RowKey));
        await limited.ExecuteAsync(TableOperation.Insert(Car("4")));
        await AssertRefusedAsync(403, "AuthorizationFailure", () => limited.ExecuteAsync(TableOperation.Insert(Car("8"))));
        var deletion = TableOperation.Delete(Car("5"));
        await AssertRefusedAsync(403, "AuthorizationPermissionMismatch", () => limited.ExecuteAsync(deletion));
    }

    [Fact]
    public async Task APolicyLimitsItsSignaturesAndRevokesThem()
    {
        var permissions = new TablePermissions();
        var policy = new SharedAccessTablePolicy
        {
            Permissions = SharedAccessTablePermissions.Query,
            SharedAccessExpiryTime = Tomorrow,
        };
        permissions.SharedAccessPolicies.Add("readers", policy);
        await Cars.SetPermissionsAsync(permissions);
        var stored = (await Cars.GetPermissionsAsync()).SharedAccessPolicies["readers"];
        Assert.Equal(SharedAccessTablePermissions.Query, stored.Permissions);
        var reader = With(Cars.GetSharedAccessSignature(new(), "readers"));
        Assert.Empty((await reader.ExecuteQuerySegmentedAsync(new TableQuery(), null)).Results);
        await Cars.SetPermissionsAsync(new());
        await AssertRefusedAsync(403, "AuthenticationFailed", () => reader.ExecuteQuerySegmentedAsync(new TableQuery(), null));
    }

    [Fact]
    public async Task AnAccountSignatureIsAccepted()
    {
        var policy = new SharedAccessAccountPolicy
        {
            Permissions = SharedAccessAccountPermissions.Read | SharedAccessAccountPermissions.List,
            Services = SharedAccessAccountServices.Table,
            ResourceTypes = SharedAccessAccountResourceTypes.Container | SharedAccessAccountResourceTypes.Object,
            SharedAccessExpiryTime = Tomorrow,
        };
        var signature = CloudStorageAccount.Parse(Account.ConnectionString).GetSharedAccessSignature(policy);
        var client = new CloudTableClient(Account.Endpoint, new StorageCredentials(signature));
        Assert.Equal(["cars"], (await client.ListTablesSegmentedAsync(null)).Results.Select(table => table.Name));
        var insert = TableOperation.Insert(Car("1"));
        await AssertRefusedAsync(403, "AuthorizationPermissionMismatch", () => client.GetTableReference("cars").ExecuteAsync(insert));
    }

    [Fact]
    public async Task PropertiesAndStatisticsAreThere()
    {
        var properties = await Client.GetServicePropertiesAsync();
        properties.HourMetrics = new("1.0") { MetricsLevel = MetricsLevel.ServiceAndApi, RetentionDays = 5 };
        var rule = new CorsRule { AllowedOrigins = ["https://app.example"], AllowedMethods = CorsHttpMethods.Get, MaxAgeInSeconds = 9 };
        properties.Cors.CorsRules.Add(rule);
        await Client.SetServicePropertiesAsync(properties);
        var stored = await Client.GetServicePropertiesAsync();
        Assert.Equal((MetricsLevel.ServiceAndApi, 5), (stored.HourMetrics.MetricsLevel, stored.HourMetrics.RetentionDays));
        Assert.Equal(["https://app.example"], Assert.Single(stored.Cors.CorsRules).AllowedOrigins);
        var locations = new StorageUri(Account.Endpoint, new Uri($"{Account.Endpoint}-secondary"));
        var client = new CloudTableClient(locations, new StorageCredentials(Account.Name, Account.Key));
        client.DefaultRequestOptions.LocationMode = LocationMode.SecondaryOnly;
        Assert.Equal(GeoReplicationStatus.Live, (await client.GetServiceStatsAsync()).GeoReplication.Status);
        var segment = await client.GetTableReference("cars").ExecuteQuerySegmentedAsync(new TableQuery(), null);
        Assert.Empty(segment.Results);
    }

    private CloudTable With(string signature) =>
        new CloudTableClient(Account.Endpoint, new StorageCredentials(signature)).GetTableReference("cars");
}
