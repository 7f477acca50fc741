using Conformance.Support;
using Microsoft.WindowsAzure.Storage.Table;
using Xunit;

namespace Conformance.Storage;

/// <summary>Queries: conditions on every type, projections, and segments.</summary>
public class QueryTests(SharedServer server) : StorageTest(server)
{
    private static readonly DateTimeOffset Start = new(2030, 1, 1, 0, 0, 0, TimeSpan.Zero);
    private static readonly Guid Id = Guid.Parse("00000000-0000-0000-0000-000000000002");

    public override async ValueTask InitializeAsync()
    {
        await base.InitializeAsync();
        var batch = new TableBatchOperation();
        for (var number = 1; number <= 4; number++)
        {
            batch.Insert(Car(
                $"{number}",
                ("Color", new(number == 2 ? "d'or" : "red")),
                ("Electric", new(number % 2 == 0)),
                ("Doors", new(number)),
                ("Mileage", new((long)number << 40)),
                ("Weight", new(number + 0.5)),
                ("Built", new(Start.AddDays(number))),
                ("Id", new(new Guid($"00000000-0000-0000-0000-00000000000{number}"))),
                ("Code", new(new byte[] { (byte)number }))));
        }
        await Cars.ExecuteBatchAsync(batch);
    }

    [Fact]
    public async Task ConditionsOnEveryType()
    {
        const string Equal = QueryComparisons.Equal;
        const string Above = QueryComparisons.GreaterThan;
        const string From = QueryComparisons.GreaterThanOrEqual;
        Assert.Equal("2", await RowKeysAsync(TableQuery.GenerateFilterCondition("Color", Equal, "d'or")));
        Assert.Equal("1 3 4", await RowKeysAsync(TableQuery.GenerateFilterCondition("Color", QueryComparisons.NotEqual, "d'or")));
        Assert.Equal("2 4", await RowKeysAsync(TableQuery.GenerateFilterConditionForBool("Electric", Equal, true)));
        Assert.Equal("1 2", await RowKeysAsync(TableQuery.GenerateFilterConditionForInt("Doors", QueryComparisons.LessThanOrEqual, 2)));
        Assert.Equal("4", await RowKeysAsync(TableQuery.GenerateFilterConditionForLong("Mileage", Above, 3L << 40)));
        Assert.Equal("1", await RowKeysAsync(TableQuery.GenerateFilterConditionForDouble("Weight", QueryComparisons.LessThan, 2.5)));
        Assert.Equal("3 4", await RowKeysAsync(TableQuery.GenerateFilterConditionForDate("Built", From, Start.AddDays(3))));
        Assert.Equal("2", await RowKeysAsync(TableQuery.GenerateFilterConditionForGuid("Id", Equal, Id)));
        Assert.Equal("3", await RowKeysAsync(TableQuery.GenerateFilterConditionForBinary("Code", Equal, [3])));
        var written = TableQuery.GenerateFilterConditionForDate("Timestamp", Above, DateTimeOffset.UnixEpoch);
        Assert.Equal("1 2 3 4", await RowKeysAsync(written));
    }

    [Fact]
    public async Task ConditionsAreCombined()
    {
        var electric = TableQuery.GenerateFilterConditionForBool("Electric", QueryComparisons.Equal, true);
        var small = TableQuery.GenerateFilterConditionForInt("Doors", QueryComparisons.LessThan, 3);
        Assert.Equal("2", await RowKeysAsync(TableQuery.CombineFilters(electric, TableOperators.And, small)));
        Assert.Equal("1 2 4", await RowKeysAsync(TableQuery.CombineFilters(electric, TableOperators.Or, small)));
        Assert.Equal("1 3", await RowKeysAsync($"{TableOperators.Not} ({electric})"));
    }

    [Fact]
    public async Task SegmentsAreContinued()
    {
        var query = new TableQuery { TakeCount = 3 };
        var first = await Cars.ExecuteQuerySegmentedAsync(query, null);
        Assert.Equal(["1", "2", "3"], first.Select(car => car.RowKey));
        var second = await Cars.ExecuteQuerySegmentedAsync(query, first.ContinuationToken);
        Assert.Equal(["4"], second.Select(car => car.RowKey));
        Assert.Null(second.ContinuationToken);
        Assert.Equal(4, (await QueryAsync(query)).Count);
    }

    [Fact]
    public async Task ProjectionsReturnTheSelectedProperties()
    {
        var query = new TableQuery().Where("Doors eq 2").Select(["Color", "Missing"]);
        var car = Assert.Single(await QueryAsync(query));
        Assert.Equal("d'or", car.Properties["Color"].StringValue);
        Assert.False(car.Properties.ContainsKey("Doors"));
        var resolved = await Cars.ExecuteQuerySegmentedAsync(query, (_, _, _, properties, _) => properties["Color"].StringValue, null);
        Assert.Equal(["d'or"], resolved);
    }

    [Fact]
    public async Task AnInvalidFilterIsRefused()
    {
        await AssertRefusedAsync(400, "InvalidInput", () => RowKeysAsync("Doors eq"));
    }
}
