using Azure.Data.Tables;
using Conformance.Support;
using Microsoft.WindowsAzure.Storage.Table;
using Xunit;

namespace Conformance.Storage;

/// <summary>Properties of every type, which the current client reads, too.</summary>
public class EntityPropertyTests(SharedServer server) : StorageTest(server)
{
    private sealed class Driver
    {
        public string Name { get; set; } = "";

        public Address Home { get; set; } = new();
    }

    private sealed class Address
    {
        public string City { get; set; } = "";

        public int Number { get; set; }
    }

    public static TheoryData<string, object> Values => new()
    {
        { "a string", "\"ä\" <&> '😀'" },
        { "an empty string", "" },
        { "a boolean", true },
        { "the smallest Int32", int.MinValue },
        { "the largest Int64", long.MaxValue },
        { "a whole double", 5.0 },
        { "the largest double", double.MaxValue },
        { "not a number", double.NaN },
        { "infinity", double.PositiveInfinity },
        { "negative infinity", double.NegativeInfinity },
        { "an instant", new DateTimeOffset(2031, 2, 3, 4, 5, 6, TimeSpan.Zero).AddTicks(1_234_567) },
        { "an identifier", Guid.Parse("00112233-4455-6677-8899-aabbccddeeff") },
        { "bytes", new byte[] { 0, 127, 255 } },
    };

    [Theory]
    [MemberData(nameof(Values), DisableDiscoveryEnumeration = true)]
    public async Task AValueOfEveryTypeIsKept(string name, object value)
    {
        await Cars.ExecuteAsync(TableOperation.Insert(Car(name, ("Value", EntityProperty.CreateEntityPropertyFromObject(value)))));
        var read = (await ReadAsync(name)).Properties["Value"];
        Assert.Equal(value is DateTimeOffset instant ? instant.UtcDateTime : value, read.PropertyAsObject);
        var current = new TableClient(Account.ConnectionString, "cars");
        Azure.Data.Tables.TableEntity other = await current.GetEntityAsync<Azure.Data.Tables.TableEntity>(
            "kestrel", name);
        Assert.Equal(value, other["Value"]);
    }

    [Fact]
    public async Task ANullIsNotStored()
    {
        await Cars.ExecuteAsync(TableOperation.Insert(Car("1", ("Text", new((string?)null)), ("Number", new((int?)null)))));
        Assert.Empty((await ReadAsync("1")).Properties);
    }

    [Fact]
    public async Task ANestedObjectIsFlattenedIntoProperties()
    {
        var driver = new Driver { Name = "Novak", Home = new() { City = "Turin", Number = 7 } };
        var flat = Microsoft.WindowsAzure.Storage.Table.TableEntity.Flatten(driver, new());
        await Cars.ExecuteAsync(TableOperation.Insert(new DynamicTableEntity("kestrel", "1", "*", flat)));
        var properties = (await ReadAsync("1")).Properties;
        Assert.Equal(["Home_City", "Home_Number", "Name"], properties.Keys.Order());
        var read = Microsoft.WindowsAzure.Storage.Table.TableEntity.ConvertBack<Driver>(properties, new());
        Assert.Equal(("Novak", "Turin", 7), (read.Name, read.Home.City, read.Home.Number));
    }
}
