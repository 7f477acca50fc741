using Conformance.Support;
using Microsoft.WindowsAzure.Storage;
using Microsoft.WindowsAzure.Storage.Table;
using Rowhouse.Testing;
using Xunit;

namespace Conformance.Storage;

/// <summary>Tests of WindowsAzure.Storage. Each test has its own account with an empty table.</summary>
public abstract class StorageTest(SharedServer server) : IAsyncLifetime
{
    protected RowhouseAccount Account { get; private set; } = null!;

    protected CloudTableClient Client { get; private set; } = null!;

    protected CloudTable Cars { get; private set; } = null!;

    public virtual async ValueTask InitializeAsync()
    {
        Account = await server.NewAccountAsync();
        Client = CloudStorageAccount.Parse(Account.ConnectionString).CreateCloudTableClient();
        Cars = Client.GetTableReference("cars");
        await Cars.CreateAsync();
    }

    public ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        return ValueTask.CompletedTask;
    }

    protected static DynamicTableEntity Car(string number, params (string Name, EntityProperty Value)[] properties) =>
        new("kestrel", number, "*", properties.ToDictionary(property => property.Name, property => property.Value));

    protected async Task<DynamicTableEntity> ReadAsync(string number) =>
        (DynamicTableEntity)(await Cars.ExecuteAsync(TableOperation.Retrieve("kestrel", number))).Result;

    /// <summary>Returns all results of a query, from all its segments.</summary>
    protected async Task<List<DynamicTableEntity>> QueryAsync(TableQuery query)
    {
        var found = new List<DynamicTableEntity>();
        TableContinuationToken? token = null;
        do
        {
            var segment = await Cars.ExecuteQuerySegmentedAsync(query, token);
            found.AddRange(segment.Results);
            token = segment.ContinuationToken;
        }
        while (token is not null);
        return found;
    }

    protected async Task<string> RowKeysAsync(string filter) =>
        string.Join(' ', (await QueryAsync(new TableQuery().Where(filter))).Select(car => car.RowKey));

    /// <summary>Runs an operation that the service must refuse with a status and an error code.</summary>
    protected static async Task<StorageException> AssertRefusedAsync(int status, string code, Func<Task> operation)
    {
        var error = await Assert.ThrowsAsync<StorageException>(operation);
        var result = error.RequestInformation;
        Assert.Equal((status, code), (result.HttpStatusCode, result.ExtendedErrorInformation?.ErrorCode));
        return error;
    }
}
