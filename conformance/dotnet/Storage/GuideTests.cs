using Conformance.Support;
using Microsoft.WindowsAzure.Storage;
using Microsoft.WindowsAzure.Storage.Table;
using Xunit;

namespace Conformance.Storage;

/// <summary>The patterns of the vendor's guide to table design, as applications of this client implement them.</summary>
public class GuideTests(SharedServer server) : StorageTest(server)
{
    private sealed class Employee : TableEntity
    {
        public string? FamilyName { get; set; }

        public string? Mail { get; set; }

        public int Age { get; set; }
    }

    private sealed class Department : TableEntity
    {
        public int Count { get; set; }
    }

    private static Employee NewEmployee(string partition, string row, string familyName = "Jones", int age = 34) =>
        new() { PartitionKey = partition, RowKey = row, FamilyName = familyName, Age = age, Mail = $"{familyName}@example.test" };

    /// <summary>One transaction keeps two copies in one partition equal, which have different row keys.</summary>
    [Fact]
    public async Task IndexInThePartition()
    {
        await WriteAsync([NewEmployee("Sales", "number_000223"), NewEmployee("Sales", "mail_jones@example.test")]);
        var byMail = And(
            TableQuery.GenerateFilterCondition("PartitionKey", QueryComparisons.Equal, "Sales"),
            TableQuery.GenerateFilterCondition("RowKey", QueryComparisons.GreaterThanOrEqual, "mail_"),
            TableQuery.GenerateFilterCondition("RowKey", QueryComparisons.LessThan, "mail`"));
        Assert.Equal("mail_jones@example.test", await RowKeysAsync(byMail));
    }

    /// <summary>A copy in another partition is written afterwards, and writing it again does no harm.</summary>
    [Fact]
    public async Task IndexInAnotherPartition()
    {
        await WriteAsync([NewEmployee("number_Sales", "000223")]);
        var copy = NewEmployee("mail_Sales", "jones@example.test");
        await Cars.ExecuteAsync(TableOperation.InsertOrReplace(copy));
        await Cars.ExecuteAsync(TableOperation.InsertOrReplace(copy));
        Assert.Equal(copy.FamilyName, (await RetrieveAsync<Employee>("mail_Sales", "jones@example.test")).FamilyName);
    }

    /// <summary>A move to another partition inserts first and deletes last, so that no crash loses the entity.</summary>
    [Fact]
    public async Task MoveToAnotherPartition()
    {
        await WriteAsync([NewEmployee("Current", "000223")]);
        var moved = await RetrieveAsync<Employee>("Current", "000223");
        await Cars.ExecuteAsync(TableOperation.InsertOrReplace(NewEmployee("Archive", moved.RowKey, moved.FamilyName!)));
        await Cars.ExecuteAsync(TableOperation.Delete(moved));
        Assert.Null(await RetrieveAsync<Employee>("Current", "000223"));
        Assert.Equal("Jones", (await RetrieveAsync<Employee>("Archive", "000223")).FamilyName);
    }

    /// <summary>An entity for each family name lists the numbers of its employees, and changes under its ETag.</summary>
    [Fact]
    public async Task IndexEntities()
    {
        var first = new DynamicTableEntity("Sales", "Jones") { Properties = { ["Numbers"] = new("000152") } };
        await Cars.ExecuteAsync(TableOperation.Insert(first));
        async Task AddAsync(string number)
        {
            while (true)
            {
                var index = (DynamicTableEntity)(await Cars.ExecuteAsync(TableOperation.Retrieve("Sales", "Jones"))).Result;
                index.Properties["Numbers"].StringValue += $",{number}";
                try
                {
                    await Cars.ExecuteAsync(TableOperation.Replace(index));
                    return;
                }
                catch (StorageException error) when (error.RequestInformation.HttpStatusCode == 412)
                {
                    // Another writer was faster.
                }
            }
        }
        await Task.WhenAll(AddAsync("000223"), AddAsync("000361"), AddAsync("000592"));
        var stored = (DynamicTableEntity)(await Cars.ExecuteAsync(TableOperation.Retrieve("Sales", "Jones"))).Result;
        Assert.Equal(["000152", "000223", "000361", "000592"], stored.Properties["Numbers"].StringValue.Split(',').Order());
    }

    /// <summary>The row key of a review is the employee's number and the year, so one range contains an employee.</summary>
    [Fact]
    public async Task CompoundKeys()
    {
        foreach (var number in new[] { "000222", "000223" })
        {
            await WriteAsync(Enumerable.Range(2018, 6).Select(year => NewEmployee("Sales", $"{number}_{year}", age: year % 5)));
        }
        var years = And(
            TableQuery.GenerateFilterCondition("RowKey", QueryComparisons.GreaterThanOrEqual, "000223_2020"),
            TableQuery.GenerateFilterCondition("RowKey", QueryComparisons.LessThan, "000223_2023"));
        var query = new TableQuery<Employee>().Where(years).Select(["Age"]);
        var reviews = (await Cars.ExecuteQuerySegmentedAsync(query, null)).Results;
        Assert.Equal([(0, null), (1, null), (2, null)], reviews.Select(review => (review.Age, review.FamilyName)));
    }

    /// <summary>A row key that falls with time lists the newest entries first.</summary>
    [Fact]
    public async Task NewestFirst()
    {
        var start = new DateTime(2031, 5, 6, 0, 0, 0, DateTimeKind.Utc);
        await WriteAsync(Enumerable.Range(0, 30).Select(hour =>
            NewEmployee("log", $"{DateTime.MaxValue.Ticks - start.AddHours(hour).Ticks:d19}", age: hour)));
        var newest = await Cars.ExecuteQuerySegmentedAsync(new TableQuery<Employee>().Take(10), null);
        Assert.Equal(Enumerable.Range(20, 10).Reverse(), newest.Select(entry => entry.Age));
    }

    /// <summary>Old entries are read segment by segment, with only their keys, and deleted in batches.</summary>
    [Fact]
    public async Task DeletionsInBatches()
    {
        foreach (var chunk in Enumerable.Range(0, 250).Chunk(100))
        {
            await WriteAsync(chunk.Select(number => NewEmployee("2030-01", $"{number:d5}")));
        }
        await WriteAsync([NewEmployee("2030-02", "00001")]);
        var old = new TableQuery<Employee>().Where("PartitionKey lt '2030-02'").Select(["PartitionKey", "RowKey"]);
        TableContinuationToken? token = null;
        do
        {
            var segment = await Cars.ExecuteQuerySegmentedAsync(old.Take(100), token);
            var batch = new TableBatchOperation();
            segment.Results.ForEach(batch.Delete);
            await Cars.ExecuteBatchAsync(batch);
            token = segment.ContinuationToken;
        }
        while (token is not null);
        Assert.Equal("00001", await RowKeysAsync(""));
    }

    /// <summary>An entity for each day has a property for each hour, which a merge adds.</summary>
    [Fact]
    public async Task DataSeries()
    {
        for (var hour = 0; hour < 24; hour++)
        {
            var reading = new DynamicTableEntity("sensor", "2031-05-06") { Properties = { [$"H{hour:d2}"] = new(100 + hour) } };
            await Cars.ExecuteAsync(TableOperation.InsertOrMerge(reading));
        }
        var day = (DynamicTableEntity)(await Cars.ExecuteAsync(TableOperation.Retrieve("sensor", "2031-05-06"))).Result;
        Assert.Equal(Enumerable.Range(100, 24), day.Properties.OrderBy(hour => hour.Key).Select(hour => hour.Value.Int32Value!.Value));
    }

    /// <summary>More than 252 properties are split between two entities, which one transaction writes.</summary>
    [Fact]
    public async Task WideEntities()
    {
        var batch = new TableBatchOperation();
        for (var part = 0; part < 2; part++)
        {
            var properties = Enumerable.Range(part * 200, 200).ToDictionary(number => $"P{number}", number => new EntityProperty(number));
            batch.Insert(new DynamicTableEntity("wide", $"{part}", null, properties));
        }
        await Cars.ExecuteBatchAsync(batch);
        var parts = await QueryAsync(new TableQuery().Where("PartitionKey eq 'wide'"));
        Assert.Equal(400, parts.SelectMany(part => part.Properties).Count());
        var tooWide = Enumerable.Range(0, 253).ToDictionary(number => $"P{number}", number => new EntityProperty(number));
        var insert = TableOperation.Insert(new DynamicTableEntity("wide", "3", null, tooWide));
        await AssertRefusedAsync(400, "TooManyProperties", () => Cars.ExecuteAsync(insert));
    }

    /// <summary>A value of more than 64 KiB is split between several properties.</summary>
    [Fact]
    public async Task LargeValues()
    {
        var data = new byte[300_000];
        Random.Shared.NextBytes(data);
        var parts = data.Chunk(64 * 1024).Select((bytes, index) => ($"Part{index}", new EntityProperty(bytes)));
        await Cars.ExecuteAsync(TableOperation.Insert(Car("large", [.. parts])));
        var stored = (await ReadAsync("large")).Properties.OrderBy(part => part.Key);
        Assert.Equal(data, stored.SelectMany(part => part.Value.BinaryValue).ToArray());
    }

    /// <summary>A partition contains entities of two classes, of which a property names the class.</summary>
    [Fact]
    public async Task EntitiesOfSeveralClasses()
    {
        DynamicTableEntity Of(TableEntity entity, string type)
        {
            var properties = TableEntity.WriteUserObject(entity, new());
            properties["EntityType"] = new(type);
            return new(entity.PartitionKey, entity.RowKey, null, properties);
        }
        var department = new Department { PartitionKey = "Sales", RowKey = "department", Count = 2 };
        var employees = new[] { NewEmployee("Sales", "1"), NewEmployee("Sales", "2", "Baker") };
        await WriteAsync([Of(department, "Department"), .. employees.Select(employee => Of(employee, "Employee"))]);
        EntityResolver<TableEntity> resolver = (partition, row, timestamp, properties, tag) =>
        {
            TableEntity entity = properties["EntityType"].StringValue == "Employee" ? new Employee() : new Department();
            (entity.PartitionKey, entity.RowKey, entity.Timestamp, entity.ETag) = (partition, row, timestamp, tag);
            entity.ReadEntity(properties, null);
            return entity;
        };
        var all = (await Cars.ExecuteQuerySegmentedAsync(new TableQuery(), resolver, null)).Results;
        Assert.Equal(["Jones", "Baker"], all.OfType<Employee>().Select(employee => employee.FamilyName));
        Assert.Equal(2, Assert.Single(all.OfType<Department>()).Count);
        Assert.Equal("1 2", await RowKeysAsync("EntityType eq 'Employee'"));
    }

    /// <summary>Many operations at the same time need no transaction if they are independent.</summary>
    [Fact]
    public async Task ParallelWrites()
    {
        var employees = Enumerable.Range(0, 100).Select(number => NewEmployee($"department{number % 10}", $"{number:d3}", age: number));
        await Task.WhenAll(employees.Select(employee => Cars.ExecuteAsync(TableOperation.InsertOrMerge(employee))));
        var isAdult = TableQuery.GenerateFilterConditionForInt("Age", QueryComparisons.GreaterThanOrEqual, 18);
        Assert.Equal(82, (await QueryAsync(new TableQuery().Where(isAdult))).Count);
    }

    private static string And(params string[] conditions) =>
        conditions.Aggregate((all, next) => TableQuery.CombineFilters(all, TableOperators.And, next));

    private async Task<T> RetrieveAsync<T>(string partition, string row) where T : TableEntity =>
        (T)(await Cars.ExecuteAsync(TableOperation.Retrieve<T>(partition, row))).Result;

    private async Task WriteAsync(IEnumerable<ITableEntity> entities)
    {
        var batch = new TableBatchOperation();
        foreach (var entity in entities)
        {
            batch.Insert(entity);
        }
        await Cars.ExecuteBatchAsync(batch);
    }
}
