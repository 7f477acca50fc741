using System.Runtime.Serialization;
using Azure;
using Azure.Core;
using Azure.Core.Pipeline;
using Azure.Data.Tables;
using Conformance.Support;
using Xunit;

namespace Conformance.Tables;

/// <summary>Entities of every type, with and without a class, and the operations on one entity.</summary>
public class EntityTests(SharedServer server) : TablesTest(server)
{
    public enum Fuel
    {
        None,
        Petrol,
        Electricity,
    }

    /// <summary>A class with a property of every type that the client supports.</summary>
    public sealed record Model : ITableEntity
    {
        public string PartitionKey { get; set; } = "p";

        public string RowKey { get; set; } = "r";

        public DateTimeOffset? Timestamp { get; set; }

        public ETag ETag { get; set; }

        public string? Text { get; set; }

        public bool Flag { get; set; }

        public int Number { get; set; }

        public long Large { get; set; }

        public double Real { get; set; }

        public Guid Id { get; set; }

        public DateTime Day { get; set; }

        public DateTimeOffset Instant { get; set; }

        public byte[]? Bytes { get; set; }

        public BinaryData? Data { get; set; }

        public Fuel Fuel { get; set; }

        public int? MaybeNumber { get; set; }

        public Guid? MaybeId { get; set; }

        [DataMember(Name = "renamed")]
        public string? Named { get; set; }

        [IgnoreDataMember]
        public string? Ignored { get; set; }
    }

    private sealed class PreferContent : HttpPipelineSynchronousPolicy
    {
        public override void OnSendingRequest(HttpMessage message) =>
            message.Request.Headers.SetValue("Prefer", "return-content");
    }

    /// <summary>The client cannot write infinities and NaN.</summary>
    public static TheoryData<string, object> Values => new()
    {
        { "an empty string", "" },
        { "white space", " \t\r\n " },
        { "every kind of character", "quote ' double \" back \\ slash / angle < > & zero \u0001 umlaut ä emoji 😀" },
        { "the longest string", new string('x', 32 * 1024) },
        { "false", false },
        { "the smallest Int32", int.MinValue },
        { "the largest Int32", int.MaxValue },
        { "the smallest Int64", long.MinValue },
        { "the largest Int64", long.MaxValue },
        { "a whole double", 5.0 },
        { "negative zero", -0.0 },
        { "the smallest double", double.MinValue },
        { "the double next to zero", double.Epsilon },
        { "the first instant", new DateTimeOffset(1601, 1, 1, 0, 0, 0, TimeSpan.Zero) },
        { "the last instant", new DateTimeOffset(9999, 12, 31, 23, 59, 59, TimeSpan.Zero).AddTicks(9_999_999) },
        { "an identifier", Guid.Parse("00112233-4455-6677-8899-aabbccddeeff") },
        { "no bytes", Array.Empty<byte>() },
        { "the longest binary", new byte[64 * 1024] },
    };

    [Theory]
    [MemberData(nameof(Values), DisableDiscoveryEnumeration = true)]
    public async Task AValueOfEveryTypeIsKept(string name, object value)
    {
        await Cars.AddEntityAsync(new TableEntity("p", name) { ["Value"] = value });
        TableEntity read = await Cars.GetEntityAsync<TableEntity>("p", name);
        Assert.IsType(value.GetType(), read["Value"]);
        Assert.Equal(value, read["Value"]);
        var queried = await Cars.QueryAsync<TableEntity>(car => car.RowKey == name).SingleAsync();
        Assert.Equal(value, queried["Value"]);
    }

    [Fact]
    public async Task APropertyThatIsNullIsNotStored()
    {
        await Cars.AddEntityAsync(new TableEntity("p", "r") { ["A"] = null, ["B"] = 1 });
        TableEntity read = await Cars.GetEntityAsync<TableEntity>("p", "r");
        Assert.False(read.ContainsKey("A"));
        Assert.Equal(1, read.GetInt32("B"));
    }

    [Fact]
    public async Task AnEntityOfAClassIsKept()
    {
        var model = new Model
        {
            Text = "grün",
            Flag = true,
            Number = -7,
            Large = 1L << 53,
            Real = 0.1,
            Id = Guid.NewGuid(),
            Day = new DateTime(2031, 2, 3, 4, 5, 6, DateTimeKind.Utc),
            Instant = new DateTimeOffset(2031, 2, 3, 4, 5, 6, TimeSpan.FromHours(2)),
            Bytes = [0, 1, 255],
            Data = new BinaryData("data"),
            Fuel = Fuel.Electricity,
            MaybeId = Guid.NewGuid(),
            Named = "name",
            Ignored = "ignored",
        };
        await Cars.AddEntityAsync(model);
        Model read = await Cars.GetEntityAsync<Model>("p", "r");
        Assert.Equal(model.Bytes, read.Bytes);
        Assert.Equal("data", read.Data!.ToString());
        Assert.Equal(model.Instant.UtcDateTime, read.Instant.UtcDateTime);
        var expected = model with
        {
            Timestamp = read.Timestamp,
            ETag = read.ETag,
            Instant = read.Instant,
            Bytes = read.Bytes,
            Data = read.Data,
            Ignored = null,
        };
        Assert.Equal(expected, read);
        TableEntity raw = await Cars.GetEntityAsync<TableEntity>("p", "r");
        Assert.Equal(("name", "Electricity"), (raw.GetString("renamed"), raw.GetString("Fuel")));
        Assert.False(raw.ContainsKey("MaybeNumber") || raw.ContainsKey("Ignored") || raw.ContainsKey("Named"));
    }

    [Theory]
    [InlineData("a'b", "''")]
    [InlineData("ä€😀", "with space")]
    [InlineData("100%", "a+b&c=d")]
    [InlineData("", "")]
    public async Task KeysMayContainUnusualCharacters(string partition, string row)
    {
        await Cars.AddEntityAsync(new TableEntity(partition, row) { ["A"] = 1 });
        TableEntity read = await Cars.GetEntityAsync<TableEntity>(partition, row);
        Assert.Equal((partition, row), (read.PartitionKey, read.RowKey));
        read["A"] = 2;
        await Cars.UpdateEntityAsync(read, read.ETag, TableUpdateMode.Replace);
        var found = Cars.QueryAsync<TableEntity>(car => car.PartitionKey == partition && car.RowKey == row);
        Assert.Equal(2, (await found.SingleAsync()).GetInt32("A"));
        Assert.Equal(204, (await Cars.DeleteEntityAsync(partition, row)).Status);
    }

    [Fact]
    public async Task EachWriteKeepsWhatItShould()
    {
        async Task AssertStoredAsync(string expected)
        {
            TableEntity car = await Cars.GetEntityAsync<TableEntity>("kestrel", "1");
            var properties = car.Where(property => property.Value is int).Select(property => $"{property.Key}{property.Value}");
            Assert.Equal(expected, string.Join(' ', properties.Order()));
        }
        TableEntity With(string name, int value) => new(Car("1")) { [name] = value };
        await Cars.UpsertEntityAsync(With("A", 1), TableUpdateMode.Merge);
        await Cars.UpsertEntityAsync(With("B", 1), TableUpdateMode.Merge);
        await AssertStoredAsync("A1 B1");
        await Cars.UpdateEntityAsync(With("C", 1), ETag.All, TableUpdateMode.Merge);
        await AssertStoredAsync("A1 B1 C1");
        await Cars.UpdateEntityAsync(With("C", 2), ETag.All, TableUpdateMode.Replace);
        await AssertStoredAsync("C2");
        await Cars.UpsertEntityAsync(With("D", 1), TableUpdateMode.Replace);
        await AssertStoredAsync("D1");
    }

    /// <summary>The client does not ask for it, and takes the status 200 for a failure.</summary>
    [Fact]
    public async Task AnUpdateReturnsItsEntityIfAPolicyAsksForIt()
    {
        var options = new TableClientOptions();
        options.AddPolicy(new PreferContent(), HttpPipelinePosition.PerCall);
        var cars = new TableServiceClient(Account.ConnectionString, options).GetTableClient("cars");
        await Cars.AddEntityAsync(new TableEntity(Car("1")) { ["A"] = 1 });
        var update = () => cars.UpdateEntityAsync(new TableEntity(Car("1")) { ["B"] = 2 }, ETag.All, TableUpdateMode.Merge);
        var answer = (await Refusal.AssertAsync(200, null, update)).GetRawResponse()!;
        var stored = answer.Content.ToObjectFromJson<Dictionary<string, object>>()!;
        Assert.Equal(("1", "2"), ($"{stored["A"]}", $"{stored["B"]}"));
    }

    [Fact]
    public async Task RefusedWritesHaveTheServicesErrors()
    {
        await Cars.AddEntityAsync(Car("1"));
        await Refusal.AssertAsync(409, "EntityAlreadyExists", () => Cars.AddEntityAsync(Car("1")));
        var missing = () => Cars.UpdateEntityAsync(Car("2"), ETag.All, TableUpdateMode.Merge);
        await Refusal.AssertAsync(404, "ResourceNotFound", missing);
        var tooLong = new TableEntity(Car("2")) { ["A"] = new string('x', 32 * 1024 + 1) };
        await Refusal.AssertAsync(400, "PropertyValueTooLarge", () => Cars.AddEntityAsync(tooLong));
        var tooOld = new TableEntity(Car("2")) { ["A"] = new DateTime(1, 1, 1, 0, 0, 0, DateTimeKind.Utc) };
        await Refusal.AssertAsync(400, "OutOfRangeInput", () => Cars.AddEntityAsync(tooOld));
        await Refusal.AssertAsync(400, "OutOfRangeInput", () => Cars.AddEntityAsync(Car("a\tb")));
    }

    [Fact]
    public async Task AMissingEntityIsNoErrorForGetIfExistsAndDelete()
    {
        var missing = await Cars.GetEntityIfExistsAsync<TableEntity>("p", "r");
        Assert.False(missing.HasValue);
        await Refusal.AssertAsync(404, "ResourceNotFound", () => Cars.GetEntityAsync<TableEntity>("p", "r"));
        Assert.Equal(404, (await Cars.DeleteEntityAsync("p", "r")).Status);
        await Cars.AddEntityAsync(new TableEntity("p", "r"));
        Assert.True((await Cars.GetEntityIfExistsAsync<TableEntity>("p", "r")).HasValue);
    }

    [Fact]
    public async Task ReadsReturnTheSelectedProperties()
    {
        await Cars.AddEntityAsync(new TableEntity(Car("1")) { ["A"] = 1, ["B"] = 2 });
        TableEntity read = await Cars.GetEntityAsync<TableEntity>("kestrel", "1", ["B", "C"]);
        Assert.False(read.ContainsKey("A") || read.ContainsKey("RowKey"));
        Assert.Equal((2, null), (read.GetInt32("B"), read.GetInt32("C")));
        var queried = await Cars.QueryAsync<TableEntity>(select: ["RowKey", "A"]).SingleAsync();
        Assert.Equal(("1", 1), (queried.RowKey, queried.GetInt32("A")));
    }
}
