using Azure.Data.Tables;
using Azure.Data.Tables.Models;
using Conformance.Support;
using Xunit;

namespace Conformance.Tables;

/// <summary>The life cycle of tables, and the list of tables.</summary>
public class TableTests(SharedServer server) : TablesTest(server)
{
    private static readonly string[] Names = ["boats", "bikes", "buses", "trains"];

    [Fact]
    public async Task ATableIsCreatedAndDeleted()
    {
        var boats = Service.GetTableClient("boats");
        Assert.Equal("boats", (await boats.CreateAsync()).Value.Name);
        await Refusal.AssertAsync(409, TableErrorCode.TableAlreadyExists.ToString(), () => boats.CreateAsync());
        Assert.Equal(204, (await boats.DeleteAsync()).Status);
        await Refusal.AssertAsync(404, "TableNotFound", () => boats.AddEntityAsync(Car("1")));
    }

    [Fact]
    public async Task CreateIfNotExistsAcceptsAnExistingTable()
    {
        var boats = Service.GetTableClient("boats");
        Assert.Equal("boats", (await boats.CreateIfNotExistsAsync()).Value.Name);
        await boats.AddEntityAsync(Car("1"));
        await boats.CreateIfNotExistsAsync();
        await Service.CreateTableIfNotExistsAsync("boats");
        Assert.Equal("1", await RowKeysAsync(boats.QueryAsync<TableEntity>()));
    }

    [Fact]
    public async Task DeletingAMissingTableIsNoError()
    {
        Assert.Equal(404, (await Service.DeleteTableAsync("boats")).Status);
    }

    [Theory]
    [InlineData("a1", "OutOfRangeInput")]
    [InlineData("1cars", "InvalidResourceName")]
    [InlineData("red-cars", "InvalidResourceName")]
    public async Task InvalidNamesAreRefused(string name, string code)
    {
        await Refusal.AssertAsync(400, code, () => Service.CreateTableAsync(name));
    }

    [Fact]
    public async Task TablesAreListedInPages()
    {
        await CreateAllAsync();
        var pages = await Service.QueryAsync(maxPerPage: 2).AsPages().ToListAsync();
        Assert.Equal(["bikes boats", "buses cars", "trains"], pages.Select(page => Join(page.Values)));
        var rest = Service.QueryAsync().AsPages(pages[0].ContinuationToken);
        Assert.Equal("buses cars trains", Join((await rest.SingleAsync()).Values));
    }

    [Fact]
    public async Task TablesAreFilteredByName()
    {
        await CreateAllAsync();
        var byText = Service.QueryAsync("TableName ge 'b' and TableName lt 'c'");
        Assert.Equal("bikes boats buses", Join(await byText.ToListAsync()));
        var byExpression = Service.QueryAsync(table => table.Name == "buses" || table.Name.CompareTo("t") >= 0);
        Assert.Equal("buses trains", Join(await byExpression.ToListAsync()));
        var name = "train's";
        var quoted = TableServiceClient.CreateQueryFilter($"TableName lt {name} and TableName ge {"c"}");
        Assert.Equal("cars", Join(await Service.QueryAsync(quoted).ToListAsync()));
    }

    /// <summary>
    /// The client takes `localhost` for the emulator of Cosmos DB unless the port is 10002. It then sends POST with
    /// X-HTTP-Method instead of PATCH.
    /// </summary>
    [Fact]
    public async Task AnEndpointOnLocalhostWorks()
    {
        var endpoint = new UriBuilder(Account.Endpoint) { Host = "localhost" }.Uri;
        var credential = new TableSharedKeyCredential(Account.Name, Account.Key);
        var cars = new TableClient(endpoint, "cars", credential);
        await cars.UpsertEntityAsync(new TableEntity("p", "r") { ["A"] = 1, ["B"] = 1 }, TableUpdateMode.Merge);
        await cars.UpsertEntityAsync(new TableEntity("p", "r") { ["B"] = 2 }, TableUpdateMode.Merge);
        TableEntity merged = await cars.GetEntityAsync<TableEntity>("p", "r");
        Assert.Equal((1, 2), (merged.GetInt32("A"), merged.GetInt32("B")));
        merged["A"] = 3;
        await cars.UpdateEntityAsync(merged, merged.ETag, TableUpdateMode.Merge);
        var actions = new[] { new TableTransactionAction(TableTransactionActionType.UpdateMerge, merged) };
        await cars.SubmitTransactionAsync(actions);
        Assert.Equal("r", await RowKeysAsync(cars.QueryAsync<TableEntity>(car => car.GetInt32("A") == 3)));
        await cars.DeleteEntityAsync("p", "r");
    }

    /// <summary>The client then sends two slashes between the account and the table.</summary>
    [Fact]
    public async Task AnEndpointMayEndInASlash()
    {
        var endpoint = Account.Endpoint.ToString();
        var service = new TableServiceClient(Account.ConnectionString.Replace(endpoint, $"{endpoint}/"));
        var boats = (await service.CreateTableAsync("boats")).Value.Name;
        await service.GetTableClient(boats).AddEntityAsync(new TableEntity("p", "r"));
        var found = service.GetTableClient(boats).QueryAsync<TableEntity>(boat => boat.PartitionKey == "p");
        Assert.Equal("r", await RowKeysAsync(found));
        Assert.Equal("boats cars", Join(await service.QueryAsync().ToListAsync()));
    }

    [Fact]
    public async Task TheSynchronousMethodsDoTheSame()
    {
        await Task.Run(
            () =>
            {
                var boats = Service.CreateTable("boats");
                Assert.Equal("boats", boats.Value.Name);
                var table = Service.GetTableClient("boats");
                table.AddEntity(new TableEntity("p", "r") { ["A"] = 1 });
                TableEntity read = table.GetEntity<TableEntity>("p", "r");
                table.UpdateEntity(read, read.ETag, TableUpdateMode.Replace);
                Assert.Equal(1, Assert.Single(table.Query<TableEntity>("A eq 1")).GetInt32("A"));
                Assert.Equal(204, table.DeleteEntity("p", "r").Status);
                Assert.Equal(204, table.Delete().Status);
            });
    }

    private async Task CreateAllAsync()
    {
        foreach (var name in Names)
        {
            await Service.CreateTableAsync(name);
        }
    }

    private static string Join(IEnumerable<TableItem> tables) => string.Join(' ', tables.Select(table => table.Name));
}
