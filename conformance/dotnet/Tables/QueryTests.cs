using System.Globalization;
using System.Linq.Expressions;
using Azure;
using Azure.Data.Tables;
using Conformance.Support;
using Xunit;

namespace Conformance.Tables;

/// <summary>Filters in every form that the client translates, for entities with and without a class.</summary>
public class QueryTests(SharedServer server) : TablesTest(server)
{
    private static readonly Guid FirstId = Guid.Parse("00000000-0000-0000-0000-000000000001");
    private static readonly Guid SecondId = Guid.Parse("00000000-0000-0000-0000-000000000002");
    private static readonly DateTimeOffset Start = new(2030, 1, 1, 0, 0, 0, TimeSpan.Zero);

    private sealed class CarModel : ITableEntity
    {
        public string PartitionKey { get; set; } = "kestrel";

        public string RowKey { get; set; } = "";

        public DateTimeOffset? Timestamp { get; set; }

        public ETag ETag { get; set; }

        public string Color { get; set; } = "";

        public bool Electric { get; set; }

        public int Doors { get; set; }

        public int? Seats { get; set; }

        public long Mileage { get; set; }

        public double Weight { get; set; }

        public Guid Id { get; set; }

        public DateTime Built { get; set; }

        public DateTimeOffset Sold { get; set; }

        public byte[] Code { get; set; } = [];
    }

    public override async ValueTask InitializeAsync()
    {
        await base.InitializeAsync();
        CarModel[] cars =
        [
new()
            {
                RowKey = "1",
                Color = "red",
                Electric = true,
                Doors = 2,
                Seats = 2,
                Mileage = -5,
                Weight = 981.5,
                Id = FirstId,
                Built = Start.UtcDateTime,
                Sold = Start.AddDays(1),
                Code = [1],
            },
            new()
            {
                RowKey = "2",
                Color = "d'or",
                Doors = 4,
                Mileage = 1L << 40,
                Weight = 1200,
                Id = SecondId,
                Built = Start.UtcDateTime.AddDays(2),
                Sold = Start.AddDays(3),
                Code = [1, 2],
            },
            new()
            {
                RowKey = "3",
                Color = "blue",
                Electric = true,
                Doors = 5,
                Seats = 7,
                Mileage = 0,
                Weight = -0.5,
                Id = SecondId,
                Built = Start.UtcDateTime.AddDays(4),
                Sold = Start.AddDays(5),
                Code = [],
            },
        ];
        var actions = cars.Select(car => new TableTransactionAction(TableTransactionActionType.Add, car));
        await Cars.SubmitTransactionAsync(actions);
    }

    [Fact]
    public async Task Comparisons()
    {
        await AssertFoundAsync("2", car => car.Doors == 4);
        await AssertFoundAsync("1 3", car => car.Doors != 4);
        await AssertFoundAsync("1", car => car.Doors < 4);
        await AssertFoundAsync("1 2", car => car.Doors <= 4);
        await AssertFoundAsync("3", car => car.Doors > 4);
        await AssertFoundAsync("2 3", car => car.Doors >= 4);
        await AssertFoundAsync("2 3", car => 4 <= car.Doors);
    }

    [Fact]
    public async Task LogicalOperators()
    {
        await AssertFoundAsync("3", car => car.Doors > 2 && car.Electric);
        await AssertFoundAsync("1 2", car => car.Doors == 2 || car.Doors == 4);
        await AssertFoundAsync("1 2", car => !(car.Doors == 5));
        await AssertFoundAsync("2", car => !car.Electric);
        await AssertFoundAsync("1 3", car => car.Electric == true && (car.Doors == 2 || car.Weight < 0));
        await AssertFoundAsync("1 2 3", car => true);
        await AssertFoundAsync("", car => false);
    }

    [Fact]
    public async Task ValuesOfEveryType()
    {
        byte[] code = [1, 2];
        int? seats = 7;
        await AssertFoundAsync("2", car => car.Color == "d'or");
        await AssertFoundAsync("1", car => car.Mileage < 0L);
        await AssertFoundAsync("2", car => car.Mileage == 1L << 40);
        await AssertFoundAsync("1 2", car => car.Weight >= 981.5);
        await AssertFoundAsync("3", car => car.Weight == -0.5);
        await AssertFoundAsync("2 3", car => car.Id == SecondId);
        await AssertFoundAsync("2 3", car => car.Built > new DateTime(2030, 1, 2, 0, 0, 0, DateTimeKind.Utc));
        await AssertFoundAsync("1", car => car.Sold <= Start.AddDays(1));
        await AssertFoundAsync("2", car => car.Code == code);
        await AssertFoundAsync("3", car => car.Seats == seats);
        await AssertFoundAsync("1 2 3", car => car.Timestamp > new DateTimeOffset(2020, 1, 1, 0, 0, 0, TimeSpan.Zero));
    }

    [Fact]
    public async Task OrderOfStrings()
    {
        await AssertFoundAsync("1 2", car => car.Color.CompareTo("c") > 0);
        await AssertFoundAsync("3", car => string.Compare(car.Color, "c") < 0);
        await AssertFoundAsync("2 3", car => car.RowKey.CompareTo("2") >= 0 && car.PartitionKey == "kestrel");
        await AssertFoundAsync("2", car => car.Color.Equals("d'or"));
    }

    [Fact]
    public async Task VariablesAndCalls()
    {
        var doors = new[] { 2, 4 };
        var number = "3";
        await AssertFoundAsync("2", car => car.Doors == doors[1]);
        await AssertFoundAsync("2", car => car.Doors == doors.Max());
        await AssertFoundAsync("3", car => car.RowKey == number);
        await AssertFoundAsync("1", car => car.Color == string.Concat("r", "ed"));
        await AssertFoundAsync("3", car => car.Doors == int.Parse("5", CultureInfo.InvariantCulture));
    }

    [Fact]
    public async Task EntitiesWithoutAClass()
    {
        await AssertFoundInBagsAsync("1", car => car.GetString("Color") == "red");
        await AssertFoundInBagsAsync("2", car => car.GetInt32("Doors") == 4);
        await AssertFoundInBagsAsync("2 3", car => car.GetInt64("Mileage") >= 0);
        await AssertFoundInBagsAsync("1", car => car.GetDouble("Weight") == 981.5);
        await AssertFoundInBagsAsync("1 3", car => car.GetBoolean("Electric") == true);
        await AssertFoundInBagsAsync("1", car => car.GetGuid("Id") == FirstId);
        await AssertFoundInBagsAsync("3", car => car.GetDateTime("Built") > Start.AddDays(3).UtcDateTime);
        await AssertFoundInBagsAsync("1", car => (DateTimeOffset)car["Sold"] < Start.AddDays(2));
        await AssertFoundInBagsAsync("1", car => (string)car["Color"] == "red");
        await AssertFoundInBagsAsync("2", car => (int)car["Doors"] == 4 && car.PartitionKey == "kestrel");
        // A property that no entity has makes the comparison false.
        await AssertFoundInBagsAsync("", car => car.GetInt32("Wheels") != 4);
    }

    [Fact]
    public async Task InterpolatedStrings()
    {
        async Task AssertTextAsync(string expected, string filter) =>
            Assert.Equal(expected, await RowKeysAsync(Cars.QueryAsync<TableEntity>(filter)));
        await AssertTextAsync("2", TableClient.CreateQueryFilter($"Color eq {"d'or"}"));
        await AssertTextAsync("1", TableClient.CreateQueryFilter($"Mileage lt {0L} and Electric eq {true}"));
        await AssertTextAsync("2 3", TableClient.CreateQueryFilter($"Id eq {SecondId} or Weight eq {1e9}"));
        await AssertTextAsync("1", TableClient.CreateQueryFilter($"Built lt {Start.AddDays(1)} and not (Doors eq {4})"));
        await AssertTextAsync("2", TableClient.CreateQueryFilter($"Code eq {new byte[] { 1, 2 }}"));
        await AssertTextAsync("1 3", TableClient.CreateQueryFilter<CarModel>(car => car.Electric));
    }

    [Fact]
    public async Task AnInvalidFilterIsRefused()
    {
        var query = Cars.QueryAsync<TableEntity>("Doors eq");
        await Refusal.AssertAsync(400, "InvalidInput", () => query.ToListAsync().AsTask());
        var missing = Service.GetTableClient("boats").QueryAsync<TableEntity>();
        await Refusal.AssertAsync(404, "TableNotFound", () => missing.ToListAsync().AsTask());
    }

    private async Task AssertFoundAsync(string expected, Expression<Func<CarModel, bool>> filter)
    {
        var found = await RowKeysAsync(Cars.QueryAsync(filter));
        Assert.Equal($"{filter}: {expected}", $"{filter}: {found}");
    }

    private async Task AssertFoundInBagsAsync(string expected, Expression<Func<TableEntity, bool>> filter)
    {
        var found = await RowKeysAsync(Cars.QueryAsync(filter));
        Assert.Equal($"{filter}: {expected}", $"{filter}: {found}");
    }
}
