using Azure;
using Azure.Data.Tables;
using Conformance.Support;
using Xunit;

namespace Conformance.Tables;

/// <summary>ETags and conditional writes.</summary>
public class ConditionTests(SharedServer server) : TablesTest(server)
{
    [Fact]
    public async Task EveryWriteReturnsTheETagThatTheEntityThenHas()
    {
        var car = Car("1");
        async Task AssertCurrentAsync(Response response)
        {
            TableEntity read = await Cars.GetEntityAsync<TableEntity>("kestrel", "1");
            Assert.Equal(read.ETag, response.Headers.ETag);
            var timestamp = $"{read.Timestamp:yyyy-MM-ddTHH:mm:ss.FFFFFFFZ}";
            Assert.Equal($"W/\"datetime'{Uri.EscapeDataString(timestamp)}'\"", $"{read.ETag:G}");
        }
        await AssertCurrentAsync(await Cars.AddEntityAsync(car));
        await AssertCurrentAsync(await Cars.UpdateEntityAsync(car, ETag.All, TableUpdateMode.Merge));
        await AssertCurrentAsync(await Cars.UpdateEntityAsync(car, ETag.All, TableUpdateMode.Replace));
        await AssertCurrentAsync(await Cars.UpsertEntityAsync(car, TableUpdateMode.Merge));
        await AssertCurrentAsync(await Cars.UpsertEntityAsync(car, TableUpdateMode.Replace));
    }

    [Theory]
    [InlineData(TableUpdateMode.Merge)]
    [InlineData(TableUpdateMode.Replace)]
    public async Task TheSecondWriterLoses(TableUpdateMode mode)
    {
        await Cars.AddEntityAsync(Car("1"));
        TableEntity seen = await Cars.GetEntityAsync<TableEntity>("kestrel", "1");
        seen["Driver"] = "first";
        await Cars.UpdateEntityAsync(seen, seen.ETag, mode);
        seen["Driver"] = "second";
        const string Code = "UpdateConditionNotSatisfied";
        await Refusal.AssertAsync(412, Code, () => Cars.UpdateEntityAsync(seen, seen.ETag, mode));
        await Refusal.AssertAsync(412, Code, () => Cars.DeleteEntityAsync(seen, seen.ETag));
        TableEntity stored = await Cars.GetEntityAsync<TableEntity>("kestrel", "1");
        Assert.Equal("first", stored.GetString("Driver"));
        Assert.Equal(204, (await Cars.DeleteEntityAsync(stored, stored.ETag)).Status);
    }

    [Fact]
    public async Task ADeletionWithoutAnETagAppliesToAnyVersion()
    {
        await Cars.AddEntityAsync(Car("1"));
        Assert.Equal(204, (await Cars.DeleteEntityAsync("kestrel", "1", default)).Status);
    }

    [Fact]
    public async Task WritersThatReadAgainLoseNoUpdate()
    {
        await Cars.AddEntityAsync(new TableEntity(Car("1")) { ["Count"] = 0 });
        async Task IncreaseAsync()
        {
            while (true)
            {
                TableEntity car = await Cars.GetEntityAsync<TableEntity>("kestrel", "1");
                car["Count"] = car.GetInt32("Count") + 1;
                try
                {
                    await Cars.UpdateEntityAsync(car, car.ETag, TableUpdateMode.Replace);
                    return;
                }
                catch (RequestFailedException error) when (error.Status == 412)
                {
                    // Another writer was faster.
                }
            }
        }
        await Task.WhenAll(Enumerable.Range(0, 10).Select(_ => IncreaseAsync()));
        TableEntity counted = await Cars.GetEntityAsync<TableEntity>("kestrel", "1");
        Assert.Equal(10, counted.GetInt32("Count"));
    }
}
