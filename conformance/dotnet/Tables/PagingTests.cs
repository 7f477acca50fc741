using Azure;
using Azure.Data.Tables;
using Conformance.Support;
using Xunit;

namespace Conformance.Tables;

/// <summary>Queries whose results do not fit into one page.</summary>
public class PagingTests(SharedServer server) : TablesTest(server)
{
    private const int Count = 1_050;

    public override async ValueTask InitializeAsync()
    {
        await base.InitializeAsync();
        var numbers = Enumerable.Range(0, Count).Select(number => $"{number:0000}");
        foreach (var chunk in numbers.Chunk(100))
        {
            var actions = chunk.Select(number => new TableTransactionAction(TableTransactionActionType.Add, Car(number)));
            await Cars.SubmitTransactionAsync(actions);
        }
    }

    [Fact]
    public async Task AllEntitiesAreReturnedInOrder()
    {
        var all = await Cars.QueryAsync<TableEntity>().ToListAsync();
        Assert.Equal(Enumerable.Range(0, Count).Select(number => $"{number:0000}"), all.Select(car => car.RowKey));
        var synchronous = await Task.Run(() => Cars.Query<TableEntity>().Count());
        Assert.Equal(Count, synchronous);
    }

    [Fact]
    public async Task APageHasAtMostAThousandEntities()
    {
        var pages = await Cars.QueryAsync<TableEntity>().AsPages().ToListAsync();
        Assert.Equal([1_000, 50], pages.Select(page => page.Values.Count));
        Assert.Null(pages[1].ContinuationToken);
        var pageTooLarge = Cars.QueryAsync<TableEntity>(maxPerPage: 1_001);
        await Refusal.AssertAsync(400, "InvalidInput", () => pageTooLarge.ToListAsync().AsTask());
    }

    [Fact]
    public async Task ATokenContinuesInAnotherClient()
    {
        const string Filter = "RowKey ge '0990'";
        var first = await Cars.QueryAsync<TableEntity>(Filter, maxPerPage: 25).AsPages().FirstAsync();
        Assert.Equal("0990 1014", $"{first.Values[0].RowKey} {first.Values[^1].RowKey}");
        var other = new TableClient(Account.ConnectionString, "cars");
        var rest = await other.QueryAsync<TableEntity>(Filter)
            .AsPages(first.ContinuationToken, pageSizeHint: 20).ToListAsync();
        Assert.Equal([20, 15], rest.Select(page => page.Values.Count));
        Assert.Equal("1015", rest[0].Values[0].RowKey);
    }

    [Fact]
    public async Task EntitiesThatAreDeletedBetweenPagesAreNotReturned()
    {
        await using var pages = Cars.QueryAsync<TableEntity>(select: ["RowKey"], maxPerPage: 1_000).AsPages().GetAsyncEnumerator();
        Assert.True(await pages.MoveNextAsync());
        await Cars.DeleteEntityAsync("kestrel", "1000", ETag.All);
        Assert.True(await pages.MoveNextAsync());
        Assert.Equal(("1001", 49), (pages.Current.Values[0].RowKey, pages.Current.Values.Count));
    }
}
