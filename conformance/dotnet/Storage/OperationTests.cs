using Conformance.Support;
using Microsoft.WindowsAzure.Storage.Table;
using Xunit;

namespace Conformance.Storage;

/// <summary>Tables and operations on one entity, with and without a class.</summary>
public class OperationTests(SharedServer server) : StorageTest(server)
{
    private sealed class Driver : TableEntity
    {
        public string? Name { get; set; }

        public int? Age { get; set; }

        [IgnoreProperty]
        public string? Secret { get; set; }
    }

    [Fact]
    public async Task ATableIsCreatedAndDeleted()
    {
        var boats = Client.GetTableReference("boats");
        Assert.False(await boats.ExistsAsync());
        Assert.True(await boats.CreateIfNotExistsAsync());
        Assert.False(await boats.CreateIfNotExistsAsync());
        await AssertRefusedAsync(409, "TableAlreadyExists", () => boats.CreateAsync());
        var segment = await Client.ListTablesSegmentedAsync("b", null);
        Assert.Equal(["boats"], segment.Results.Select(table => table.Name));
        Assert.True(await boats.DeleteIfExistsAsync());
        Assert.False(await boats.DeleteIfExistsAsync());
    }

    [Fact]
    public async Task EveryOperationKeepsWhatItShould()
    {
        async Task AssertStoredAsync(TableOperation operation, int status, string expected)
        {
            var result = await Cars.ExecuteAsync(operation);
            var car = await ReadAsync("1");
            Assert.Equal((status, car.ETag), (result.HttpStatusCode, result.Etag));
            var properties = car.Properties.Select(property => $"{property.Key}{property.Value.Int32Value}");
            Assert.Equal(expected, string.Join(' ', properties.Order()));
        }
        await AssertStoredAsync(TableOperation.Insert(Car("1", ("A", new(1)))), 204, "A1");
        await AssertStoredAsync(TableOperation.InsertOrMerge(Car("1", ("B", new(1)))), 204, "A1 B1");
        await AssertStoredAsync(TableOperation.Merge(Car("1", ("C", new(1)))), 204, "A1 B1 C1");
        await AssertStoredAsync(TableOperation.Replace(Car("1", ("A", new(2)))), 204, "A2");
        await AssertStoredAsync(TableOperation.InsertOrReplace(Car("1", ("D", new(1)))), 204, "D1");
        Assert.Equal(204, (await Cars.ExecuteAsync(TableOperation.Delete(Car("1")))).HttpStatusCode);
        Assert.Null(await ReadAsync("1"));
    }

    [Fact]
    public async Task AnInsertReturnsTheEntityIfAsked()
    {
        var echoed = await Cars.ExecuteAsync(TableOperation.Insert(Car("1", ("A", new(1))), echoContent: true));
        Assert.Equal(201, echoed.HttpStatusCode);
        var car = (DynamicTableEntity)echoed.Result;
        Assert.Equal((1, (await ReadAsync("1")).Timestamp), (car.Properties["A"].Int32Value, car.Timestamp));
    }

    [Fact]
    public async Task AnEntityOfAClassIsKept()
    {
        var driver = new Driver { PartitionKey = "d'or", RowKey = "ä", Name = "Novak", Age = 34, Secret = "s" };
        await Cars.ExecuteAsync(TableOperation.Insert(driver));
        var read = (Driver)(await Cars.ExecuteAsync(TableOperation.Retrieve<Driver>("d'or", "ä"))).Result;
        Assert.Equal(("Novak", 34, null), (read.Name, read.Age, read.Secret));
        Assert.Equal(driver.ETag, read.ETag);
        read.Age = null;
        await Cars.ExecuteAsync(TableOperation.Replace(read));
        var bag = (DynamicTableEntity)(await Cars.ExecuteAsync(TableOperation.Retrieve("d'or", "ä"))).Result;
        Assert.Equal(["Name"], bag.Properties.Keys);
    }

    [Fact]
    public async Task ResolversAndColumnsReadPartsOfAnEntity()
    {
        await Cars.ExecuteAsync(TableOperation.Insert(Car("1", ("A", new(1)), ("B", new(2)))));
        EntityResolver<string> resolver = (_, row, _, properties, _) => $"{row} {properties.Count} {properties["B"].Int32Value}";
        var operation = TableOperation.Retrieve("kestrel", "1", resolver, ["B"]);
        Assert.Equal("1 1 2", (await Cars.ExecuteAsync(operation)).Result);
    }

    [Fact]
    public async Task ConditionsAreChecked()
    {
        await Cars.ExecuteAsync(TableOperation.Insert(Car("1")));
        var seen = await ReadAsync("1");
        await Cars.ExecuteAsync(TableOperation.Merge(Car("1", ("A", new(1)))));
        foreach (var write in new[] { TableOperation.Merge(seen), TableOperation.Replace(seen), TableOperation.Delete(seen) })
        {
            await AssertRefusedAsync(412, "UpdateConditionNotSatisfied", () => Cars.ExecuteAsync(write));
        }
        await AssertRefusedAsync(409, "EntityAlreadyExists", () => Cars.ExecuteAsync(TableOperation.Insert(Car("1"))));
        await AssertRefusedAsync(404, "ResourceNotFound", () => Cars.ExecuteAsync(TableOperation.Replace(Car("2"))));
    }

    [Theory]
    [InlineData(TablePayloadFormat.Json)]
    [InlineData(TablePayloadFormat.JsonFullMetadata)]
    [InlineData(TablePayloadFormat.JsonNoMetadata)]
    public async Task EveryFormatHasTheSameValues(TablePayloadFormat format)
    {
        var options = new TableRequestOptions
        {
            PayloadFormat = format,
            PropertyResolver = (_, _, name, _) => name == "Large" ? EdmType.Int64 : EdmType.String,
        };
        var car = Car("1", ("Large", new(1L << 60)), ("Text", new("ä")));
        await Cars.ExecuteAsync(TableOperation.Insert(car, echoContent: true), options, null);
        var retrieve = TableOperation.Retrieve("kestrel", "1");
        var read = (DynamicTableEntity)(await Cars.ExecuteAsync(retrieve, options, null)).Result;
        Assert.Equal((1L << 60, "ä"), (read.Properties["Large"].Int64Value, read.Properties["Text"].StringValue));
        var found = await Cars.ExecuteQuerySegmentedAsync(new TableQuery(), null, options, null);
        Assert.Equal(1L << 60, Assert.Single(found.Results).Properties["Large"].Int64Value);
    }
}
