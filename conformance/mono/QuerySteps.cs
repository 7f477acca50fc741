using System;
using System.Collections.Generic;
using System.Data.Services.Client;
using System.Linq;
using static Conformance.Mono.Notices;

namespace Conformance.Mono
{
    // What the paper of 2009 describes: queries and their pages.
    static class QuerySteps
    {
        internal static IEnumerable<Step> All()
        {
            yield return new Step("an entity is found by its keys", PointQuery);
            yield return new Step("a missing entity is an error", PointQueryOfMissing);
            yield return new Step("a partition is queried", PartitionQuery);
            yield return new Step("a range of row keys is queried", RangeQuery);
            yield return new Step("conditions are combined", CombinedConditions);
            yield return new Step("properties of every type are compared", EveryComparison);
            yield return new Step("the newest entities come first", NewestFirst);
            yield return new Step("Take returns a token for the rest", TakeAndContinue);
            yield return new Step("the paging loop returns every entity", PagingLoop);
            yield return new Step("a token continues in another program", ContinueElsewhere);
            yield return new Step("the first page is incomplete", FirstPage);
        }

        // The number of entities of which the table has pages.
        const int Many = 2300;

        // The token of a response: null, or a part of each key. The names are compared letter by letter, as programs
        // of that time do.
        static string[] Token(QueryOperationResponse<Notice> response)
        {
            string partition, row;
            if (!response.Headers.TryGetValue("x-ms-continuation-NextPartitionKey", out partition))
            {
                return null;
            }
            response.Headers.TryGetValue("x-ms-continuation-NextRowKey", out row);
            return new[] { partition, row };
        }

        static List<Notice> OnePage(string board, int? limit, ref string[] token)
        {
            var all = from notice in New().CreateQuery<Notice>(Table) where notice.PartitionKey == board select notice;
            var query = (DataServiceQuery<Notice>)(limit == null ? all : all.Take(limit.Value));
            if (token != null)
            {
                query = query.AddQueryOption("NextPartitionKey", token[0]);
                if (token[1] != null)
                {
                    query = query.AddQueryOption("NextRowKey", token[1]);
                }
            }
            var response = (QueryOperationResponse<Notice>)query.Execute();
            List<Notice> page = response.ToList();
            token = Token(response);
            return page;
        }

        static void PointQuery()
        {
            Stored("point", "1");
            Context context = New();
            var query = from notice in context.CreateQuery<Notice>(Table)
                        where notice.PartitionKey == "point" && notice.RowKey == "1"
                        select notice;
            Check.Equal("text", query.AsEnumerable().Single().Text, "the text");
            Check.True(Uri.UnescapeDataString(context.SentTo.AbsolutePath).EndsWith("(PartitionKey='point',RowKey='1')"),
                "the library asks for one entity: " + context.SentTo);
        }

        static void PointQueryOfMissing()
        {
            var query = from notice in New().CreateQuery<Notice>(Table)
                        where notice.PartitionKey == "point" && notice.RowKey == "missing"
                        select notice;
            Check.Fails(404, "ResourceNotFound", () => query.AsEnumerable().Count());
        }

        static void PartitionQuery()
        {
            StoreBoard("partition", 3);
            StoreBoard("partition2", 1);
            var query = from notice in New().CreateQuery<Notice>(Table) where notice.PartitionKey == "partition" select notice;
            Check.Sequence(new[] { "00000", "00001", "00002" }, Rows(query), "the row keys");
        }

        static void RangeQuery()
        {
            StoreBoard("range", 20);
            var query = from notice in New().CreateQuery<Notice>(Table)
                        where notice.PartitionKey == "range" && notice.RowKey.CompareTo("00008") >= 0
                            && notice.RowKey.CompareTo("00011") < 0
                        select notice;
            Check.Sequence(new[] { "00008", "00009", "00010" }, Rows(query), "the row keys");
        }

        static void CombinedConditions()
        {
            StoreBoard("combined", 10);
            var query = from notice in New().CreateQuery<Notice>(Table)
                        where notice.PartitionKey == "combined"
                            && ((notice.Text == "even" && !(notice.Votes > 3)) || notice.Votes >= 9)
                            && notice.Votes != 0
                        select notice;
            Check.Sequence(new[] { "00002", "00009" }, Rows(query), "the row keys");
        }

        static void EveryComparison()
        {
            Context context = New();
            context.AddObject(Table, NewSpecimen("compared"));
            context.SaveChanges();
            DateTime found = NewSpecimen("").FoundAt.Value;
            var all = New().CreateQuery<Specimen>(Table).Where(specimen => specimen.PartitionKey == "compared");
            var matching = new Dictionary<string, IQueryable<Specimen>>
            {
                { "Boolean", all.Where(specimen => specimen.IsAlive == true) },
                { "DateTime", all.Where(specimen => specimen.FoundAt <= found && specimen.FoundAt >= found) },
                { "Double", all.Where(specimen => specimen.Grams < 0.1251) },
                { "Guid", all.Where(specimen => specimen.Tag == Tag) },
                { "Int32", all.Where(specimen => specimen.Legs == -6) },
                { "Int64", all.Where(specimen => specimen.Barcode == 9007199254740993) },
                { "String", all.Where(specimen => specimen.Name == " <Käfer> & 'co' ") }
            };
            foreach (var query in matching)
            {
                Check.Equal(1, query.Value.AsEnumerable().Count(), query.Key);
            }
            Check.Equal(0, all.Where(specimen => specimen.Barcode == 9007199254740992).AsEnumerable().Count(), "another Int64");
        }

        static void NewestFirst()
        {
            var noon = new DateTime(2009, 5, 6, 12, 0, 0, DateTimeKind.Utc);
            Context context = New();
            for (int hour = 0; hour < 5; hour++)
            {
                context.AddObject(Table, new Notice("newest", Notice.NewestFirst(noon.AddHours(hour)), "hour " + hour));
            }
            context.SaveChanges(SaveChangesOptions.Batch);
            var query = (from notice in New().CreateQuery<Notice>(Table) where notice.PartitionKey == "newest" select notice)
                .Take(2);
            Check.Sequence(new[] { "hour 4", "hour 3" }, query.AsEnumerable().Select(notice => notice.Text), "the texts");
        }

        static void TakeAndContinue()
        {
            StoreBoard("take", 5);
            var pages = new List<int>();
            string[] token = null;
            do
            {
                pages.Add(OnePage("take", 2, ref token).Count);
            }
            while (token != null && pages.Count < 10);
            // The service may return a token without another entity.
            Check.Sequence(new[] { 2, 2, 1 }, pages.Where(entities => entities > 0), "the sizes of the pages");
        }

        static void PagingLoop()
        {
            StoreBoard("many", Many);
            var found = new List<Notice>();
            string[] token = null;
            int pages = 0;
            do
            {
                List<Notice> page = OnePage("many", null, ref token);
                Check.True(page.Count <= Page, "a page has 1,000 entities at most");
                found.AddRange(page);
                pages++;
            }
            while (token != null && pages < Many);
            Check.Sequence(Enumerable.Range(0, Many), found.Select(notice => notice.Votes), "the entities");
        }

        static void ContinueElsewhere()
        {
            string[] token = null;
            List<Notice> first = OnePage("many", 10, ref token);
            Check.True(token != null, "the page has a token");
            // All that the other program knows is the token.
            List<Notice> second = OnePage("many", 10, ref token);
            Check.Equal("00010", second.First().RowKey, "the first row key");
            Check.Equal(10, first.Count, "the size of the first page");
        }

        static void FirstPage()
        {
            var query = from notice in New().CreateQuery<Notice>(Table) where notice.PartitionKey == "many" select notice;
            int found = query.AsEnumerable().Count();
            Check.True(found <= Page, "a query without a loop returns a page: " + found);
        }
    }
}
