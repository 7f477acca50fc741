using Azure;
using Azure.Data.Tables;
using Conformance.Support;
using Xunit;

namespace Conformance.Tables;

/// <summary>Transactions: every kind of action, and the index of the action that failed.</summary>
public class TransactionTests(SharedServer server) : TablesTest(server)
{
    [Fact]
    public async Task EveryKindOfActionTakesEffect()
    {
        foreach (var number in new[] { "merge", "replace", "delete", "upsert-merge" })
        {
            await Cars.AddEntityAsync(new TableEntity(Car(number)) { ["A"] = 1 });
        }
        TableTransactionAction[] actions =
        [
            Action(TableTransactionActionType.Add, "add"),
            Action(TableTransactionActionType.UpdateMerge, "merge"),
            Action(TableTransactionActionType.UpdateReplace, "replace"),
            Action(TableTransactionActionType.Delete, "delete"),
            Action(TableTransactionActionType.UpsertMerge, "upsert-merge"),
            Action(TableTransactionActionType.UpsertReplace, "upsert-replace"),
        ];
        var answer = await Cars.SubmitTransactionAsync(actions);
        Assert.Equal(202, answer.GetRawResponse().Status);
        Assert.All(answer.Value, part => Assert.Equal(204, part.Status));
        var stored = await Cars.QueryAsync<TableEntity>().ToListAsync();
        var properties = stored.Select(car => $"{car.RowKey} {car.GetInt32("A")} {car.GetInt32("B")}");
        Assert.Equal(["add  2", "merge 1 2", "replace  2", "upsert-merge 1 2", "upsert-replace  2"], properties);
        var tags = answer.Value.Select(part => part.Headers.ETag).Where(tag => tag is not null);
        Assert.Equal(stored.Select(car => car.ETag).Order(Order), tags.Select(tag => tag!.Value).Order(Order));
    }

    public static TheoryData<int> Indexes => [0, 1, 50, 99];

    [Theory]
    [MemberData(nameof(Indexes))]
    public async Task AFailureNamesItsActionAndChangesNothing(int index)
    {
        await Cars.AddEntityAsync(Car("there"));
        var numbers = Enumerable.Range(0, 100).Select(number => number == index ? "there" : $"{number}");
        var actions = numbers.Select(number => Action(TableTransactionActionType.Add, number));
        await AssertFailedAsync(409, "EntityAlreadyExists", index, actions);
        Assert.Equal("there", await RowKeysAsync(Cars.QueryAsync<TableEntity>()));
    }

    [Fact]
    public async Task EveryRefusedActionHasItsCode()
    {
        var stale = (await Cars.AddEntityAsync(Car("there"))).Headers.ETag!.Value;
        await Cars.UpsertEntityAsync(Car("there"));
        var first = Action(TableTransactionActionType.Add, "first");
        Task AssertSecondFailsAsync(int status, string code, TableTransactionAction second) =>
            AssertFailedAsync(status, code, 1, [first, second]);
        var missing = Action(TableTransactionActionType.UpdateReplace, "missing");
        await AssertSecondFailsAsync(404, "ResourceNotFound", missing);
        var update = new TableTransactionAction(TableTransactionActionType.UpdateMerge, Car("there"), stale);
        await AssertSecondFailsAsync(412, "UpdateConditionNotSatisfied", update);
        var deletion = new TableTransactionAction(TableTransactionActionType.Delete, Car("there"), stale);
        await AssertSecondFailsAsync(412, "UpdateConditionNotSatisfied", deletion);
        var large = new TableEntity(Car("large")) { ["A"] = new string('x', 32 * 1024 + 1) };
        await AssertSecondFailsAsync(400, "PropertyValueTooLarge", new(TableTransactionActionType.Add, large));
        await AssertSecondFailsAsync(400, "InvalidDuplicateRow", first);
        var elsewhere = new TableTransactionAction(TableTransactionActionType.Add, Car("1", make: "heron"));
        await AssertSecondFailsAsync(400, "CommandsInBatchActOnDifferentPartitions", elsewhere);
        Assert.Equal("there", await RowKeysAsync(Cars.QueryAsync<TableEntity>()));
    }

    [Fact]
    public async Task MoreThanAHundredActionsAreRefused()
    {
        var actions = Enumerable.Range(0, 101).Select(number => Action(TableTransactionActionType.Add, $"{number}"));
        await Refusal.AssertAsync(400, "InvalidInput", () => Cars.SubmitTransactionAsync(actions));
        Assert.Equal("", await RowKeysAsync(Cars.QueryAsync<TableEntity>()));
    }

    [Fact]
    public async Task ConditionsApplyInTransactions()
    {
        var first = (await Cars.AddEntityAsync(Car("1"))).Headers.ETag!.Value;
        var second = (await Cars.AddEntityAsync(Car("2"))).Headers.ETag!.Value;
        await Cars.SubmitTransactionAsync(
            [
                new(TableTransactionActionType.UpdateReplace, Car("1"), first),
                new(TableTransactionActionType.Delete, Car("2"), second),
            ]);
        Assert.Equal("1", await RowKeysAsync(Cars.QueryAsync<TableEntity>()));
    }

    private static Comparer<ETag> Order => Comparer<ETag>.Create((one, other) => string.CompareOrdinal($"{one}", $"{other}"));

    private static TableTransactionAction Action(TableTransactionActionType kind, string number) =>
        // Without an ETag, an update inserts the entity if it is missing.
        new(kind, new TableEntity(Car(number)) { ["B"] = 2 }, ETag.All);

    private async Task AssertFailedAsync(int status, string code, int index, IEnumerable<TableTransactionAction> actions)
    {
        var error = await Refusal.AssertAsync(status, code, () => Cars.SubmitTransactionAsync(actions));
        Assert.Equal(index, Assert.IsType<TableTransactionFailedException>(error).FailedTransactionActionIndex);
    }
}
