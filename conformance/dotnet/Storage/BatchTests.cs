using Conformance.Support;
using Microsoft.WindowsAzure.Storage.Table;
using Xunit;

namespace Conformance.Storage;

/// <summary>Batches, which are transactions, and the operation that failed.</summary>
public class BatchTests(SharedServer server) : StorageTest(server)
{
    [Fact]
    public async Task EveryOperationTakesEffect()
    {
        foreach (var number in new[] { "merge", "replace", "delete" })
        {
            await Cars.ExecuteAsync(TableOperation.Insert(Car(number, ("A", new(1)))));
        }
        DynamicTableEntity Changed(string number) => Car(number, ("B", new(2)));
        var batch = new TableBatchOperation();
        batch.Insert(Changed("insert"), echoContent: true);
        batch.Insert(Changed("silent"), echoContent: false);
        batch.Merge(Changed("merge"));
        batch.Replace(Changed("replace"));
        batch.Delete(Changed("delete"));
        batch.InsertOrMerge(Changed("insert-or-merge"));
        batch.InsertOrReplace(Changed("insert-or-replace"));
        var results = await Cars.ExecuteBatchAsync(batch);
        Assert.Equal([201, 204, 204, 204, 204, 204, 204], results.Select(result => result.HttpStatusCode));
        Assert.Equal((await ReadAsync("insert")).Timestamp, ((DynamicTableEntity)results[0].Result).Timestamp);
        Assert.Equal((await ReadAsync("merge")).ETag, results[2].Etag);
        Assert.Equal(["A", "B"], (await ReadAsync("merge")).Properties.Keys.Order());
        Assert.Equal(["B"], (await ReadAsync("replace")).Properties.Keys);
        Assert.Equal("insert insert-or-merge insert-or-replace merge replace silent", await RowKeysAsync(""));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(57)]
    [InlineData(99)]
    public async Task AFailureNamesItsOperationAndChangesNothing(int index)
    {
        await Cars.ExecuteAsync(TableOperation.Insert(Car("there")));
        var batch = new TableBatchOperation();
        for (var number = 0; number < 100; number++)
        {
            batch.Insert(Car(number == index ? "there" : $"{number}"));
        }
        var error = await AssertRefusedAsync(409, "EntityAlreadyExists", () => Cars.ExecuteBatchAsync(batch));
        Assert.StartsWith($"{index}:", error.RequestInformation.ExtendedErrorInformation.ErrorMessage);
        Assert.Equal("there", await RowKeysAsync(""));
    }

    [Fact]
    public async Task ConditionsAreChecked()
    {
        await Cars.ExecuteAsync(TableOperation.Insert(Car("1")));
        var seen = await ReadAsync("1");
        await Cars.ExecuteAsync(TableOperation.Merge(Car("1")));
        var batch = new TableBatchOperation { TableOperation.Insert(Car("2")), TableOperation.Replace(seen) };
        var error = await AssertRefusedAsync(412, "UpdateConditionNotSatisfied", () => Cars.ExecuteBatchAsync(batch));
        Assert.StartsWith("1:", error.RequestInformation.ExtendedErrorInformation.ErrorMessage);
        Assert.Equal("1", await RowKeysAsync(""));
    }

    [Fact]
    public async Task ABatchMayBeOneQuery()
    {
        await Cars.ExecuteAsync(TableOperation.Insert(Car("1", ("A", new(1)))));
        async Task<TableResult> RetrieveAsync(string number) =>
            Assert.Single(await Cars.ExecuteBatchAsync([TableOperation.Retrieve("kestrel", number)]));
        var found = await RetrieveAsync("1");
        Assert.Equal((200, 1), (found.HttpStatusCode, ((DynamicTableEntity)found.Result).Properties["A"].Int32Value));
        Assert.Equal(404, (await RetrieveAsync("2")).HttpStatusCode);
    }
}
