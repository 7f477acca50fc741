using System;
using System.Collections.Generic;
using System.Data.Services.Client;
using System.Linq;
using static Conformance.Mono.Notices;

namespace Conformance.Mono
{
    // What the paper of 2009 describes: tables and new entities.
    static class TableSteps
    {
        internal static IEnumerable<Step> All()
        {
            yield return new Step("a table is created", CreateTable);
            yield return new Step("a table is created once", CreateTableAgain);
            yield return new Step("a table name has rules", CreateTableWithInvalidName);
            yield return new Step("the list of tables has the table", ListTables);
            yield return new Step("the list of tables has pages", ListTablesInPages);
            yield return new Step("an entity is inserted", Insert);
            yield return new Step("an entity is inserted once", InsertAgain);
            yield return new Step("values of every type return", EveryType);
            yield return new Step("a property without a value is not stored", NoValue);
            yield return new Step("a table need not have a schema", NoSchema);
            yield return new Step("keys may contain any other character", UnusualKeys);
        }

        // What must come last.
        internal static IEnumerable<Step> Last()
        {
            yield return new Step("a wrong key is refused", WrongKey);
            yield return new Step("a missing table is an error", MissingTable);
            yield return new Step("a table is deleted with its entities", DeleteTable);
        }

        static void CreateTable()
        {
            Create(New(), Table);
        }

        static void CreateTableAgain()
        {
            Check.Fails(409, "TableAlreadyExists", () => Create(New(), Table));
        }

        static void CreateTableWithInvalidName()
        {
            Check.Fails(400, "InvalidResourceName", () => Create(New(), "a_table"));
        }

        static void ListTables()
        {
            Context context = New();
            var all = from table in context.CreateQuery<TableRow>("Tables") where table.TableName == Table select table;
            Check.Equal(Table, all.AsEnumerable().Single().TableName, "the name");
        }

        static void ListTablesInPages()
        {
            string second = Target.UniqueName("notices");
            Create(New(), second);
            string[] expected = { Table, second };
            Array.Sort(expected, StringComparer.Ordinal);
            var found = new List<string>();
            string next = null;
            int pages = 0;
            do
            {
                Context context = New();
                var query = (DataServiceQuery<TableRow>)(
                    from table in context.CreateQuery<TableRow>("Tables")
                    where table.TableName == expected[0] || table.TableName == expected[1]
                    select table).Take(1);
                if (next != null)
                {
                    query = query.AddQueryOption("NextTableName", next);
                }
                var response = (QueryOperationResponse<TableRow>)query.Execute();
                found.AddRange(response.Select(table => table.TableName));
                pages++;
                response.Headers.TryGetValue("x-ms-continuation-NextTableName", out next);
            }
            while (next != null && pages < 5);
            Check.Sequence(expected, found, "the tables");
            Context deleting = New();
            var row = new TableRow { TableName = second };
            deleting.AttachTo("Tables", row);
            deleting.DeleteObject(row);
            deleting.SaveChanges();
        }

        static void Insert()
        {
            Context context = New();
            var notice = new Notice("insert", "1", "Bicycle for sale", 3);
            context.AddObject(Table, notice);
            DataServiceResponse response = context.SaveChanges();
            Check.Equal(201, response.Single().StatusCode, "the status");
            Check.True(notice.Timestamp > DateTime.UtcNow.AddDays(-1), "the library read the time of the insert");
            string etag = context.GetEntityDescriptor(notice).ETag;
            Check.True(etag != null && etag.StartsWith("W/\"datetime'"), "the library read the ETag: " + etag);
            Context reading = New();
            Notice read = Read<Notice>(reading, "insert", "1");
            Check.Equal("Bicycle for sale", read.Text, "the text");
            Check.Equal(3, read.Votes, "the votes");
            Check.Equal(etag, reading.GetEntityDescriptor(read).ETag, "the ETag of the query");
        }

        static void InsertAgain()
        {
            Stored("insertAgain", "1");
            Check.Fails(409, "EntityAlreadyExists", () => Stored("insertAgain", "1"));
        }

        static void EveryType()
        {
            Specimen written = NewSpecimen("types");
            Context context = New();
            context.AddObject(Table, written);
            context.SaveChanges();
            Specimen read = Read<Specimen>(New(), "types", "1");
            Specimen expected = NewSpecimen("types");
            foreach (Specimen found in new[] { written, read })
            {
                Check.Sequence(expected.Photo, found.Photo, "Binary");
                Check.Equal(expected.IsAlive, found.IsAlive, "Boolean");
                Check.Equal(expected.FoundAt, found.FoundAt.Value.ToUniversalTime(), "DateTime");
                Check.Equal(expected.Grams, found.Grams, "Double");
                Check.Equal(expected.Tag, found.Tag, "Guid");
                Check.Equal(expected.Legs, found.Legs, "Int32");
                Check.Equal(expected.Barcode, found.Barcode, "Int64");
                Check.Equal(expected.Name, found.Name, "String");
            }
        }

        static void NoValue()
        {
            Context context = New();
            context.AddObject(Table, new Specimen { PartitionKey = "noValue", RowKey = "1", Name = "" });
            context.SaveChanges();
            Specimen read = Read<Specimen>(New(), "noValue", "1");
            Check.Equal(null, read.Grams, "a number");
            Check.Equal(null, read.Photo, "bytes");
            Check.Equal("", read.Name, "an empty string, which is a value");
        }

        static void NoSchema()
        {
            Stored("noSchema", "1");
            Context context = New();
            Specimen specimen = NewSpecimen("noSchema");
            specimen.RowKey = "2";
            context.AddObject(Table, specimen);
            context.SaveChanges();
            Context reading = New();
            reading.IgnoreMissingProperties = true;
            var all = from notice in reading.CreateQuery<Notice>(Table) where notice.PartitionKey == "noSchema" select notice;
            Check.Sequence(new[] { "1", "2" }, Rows(all), "the row keys");
        }

        static void UnusualKeys()
        {
            const string Board = "1 + 1 = 2 & é";
            const string Row = "it's 100% \"$;:@,!*()[]";
            Stored(Board, Row);
            Context context = New();
            var found = from notice in context.CreateQuery<Notice>(Table)
                        where notice.PartitionKey == Board && notice.RowKey == Row
                        select notice;
            Notice one = found.AsEnumerable().Single();
            Check.Equal(Row, one.RowKey, "the row key");
            one.Votes = 9;
            context.UpdateObject(one);
            context.SaveChanges();
            Check.Equal(9, (from notice in New().CreateQuery<Notice>(Table)
                            where notice.PartitionKey == Board && notice.Votes == 9
                            select notice).AsEnumerable().Single().Votes, "the votes");
        }

        static void WrongKey()
        {
            string key = Convert.ToBase64String(new byte[64]);
            var query = new Context(Notices.Version, key).CreateQuery<TableRow>("Tables");
            Check.Fails(403, "AuthenticationFailed", () => query.Execute());
        }

        static void MissingTable()
        {
            string missing = Target.UniqueName("missing");
            Context context = New();
            context.AddObject(missing, new Notice("board", "1"));
            Check.Fails(404, "TableNotFound", () => context.SaveChanges());
            Check.Fails(404, "TableNotFound", () => New().CreateQuery<Notice>(missing).Execute());
        }

        static void DeleteTable()
        {
            Context context = New();
            var row = new TableRow { TableName = Table };
            context.AttachTo("Tables", row);
            context.DeleteObject(row);
            context.SaveChanges();
            Check.Fails(404, "TableNotFound", () => New().CreateQuery<Notice>(Table).Execute());
        }
    }
}
