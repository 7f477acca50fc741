using Azure;
using Azure.Data.Tables;
using Conformance.Support;
using Rowhouse.Testing;
using Xunit;

namespace Conformance.Tables;

/// <summary>Tests of Azure.Data.Tables. Each test has its own account with an empty table.</summary>
public abstract class TablesTest(SharedServer server) : IAsyncLifetime
{
    protected RowhouseAccount Account { get; private set; } = null!;

    protected TableServiceClient Service { get; private set; } = null!;

    protected TableClient Cars { get; private set; } = null!;

    public virtual async ValueTask InitializeAsync()
    {
        Account = await server.NewAccountAsync();
        Service = new TableServiceClient(Account.ConnectionString);
        Cars = Service.GetTableClient("cars");
        await Cars.CreateAsync();
    }

    public ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        return ValueTask.CompletedTask;
    }

    protected static TableEntity Car(string number, string make = "kestrel") => new(make, number);

    protected static async Task<string> RowKeysAsync<T>(AsyncPageable<T> entities) where T : class, ITableEntity =>
        string.Join(' ', await entities.Select(entity => entity.RowKey).ToListAsync());
}
