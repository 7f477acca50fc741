using System;
using System.Collections.Generic;
using System.Data.Services.Client;
using System.Linq;

namespace Conformance.Mono
{
    // The table of notices, and what the steps on it share.
    static class Notices
    {
        // The first version with transactions.
        internal const string Version = "2009-04-14";

        // The largest number of entities in a page.
        internal const int Page = 1000;

        // The largest number of operations in a transaction.
        internal const int Batch = 100;

        internal static readonly string Table = Target.UniqueName("notices");

        internal static Context New()
        {
            return new Context(Version);
        }

        internal static Context Lenient()
        {
            Context context = New();
            context.IgnoreMissingProperties = true;
            return context;
        }

        internal static void Create(Context context, string name)
        {
            context.AddObject("Tables", new TableRow { TableName = name });
            context.SaveChanges();
        }

        internal static Notice Stored(string board, string row)
        {
            var notice = new Notice(board, row, "text", 1);
            Context context = New();
            context.AddObject(Table, notice);
            context.SaveChanges();
            return notice;
        }

        internal static T Read<T>(Context context, string board, string row)
        {
            var query = context.CreateQuery<T>(Table + "(PartitionKey='" + board + "',RowKey='" + row + "')");
            return query.Execute().Single();
        }

        internal static IEnumerable<string> Rows(IEnumerable<Notice> notices)
        {
            return notices.Select(notice => notice.RowKey);
        }

        internal static void Missing(string board, string row)
        {
            Check.Fails(404, "ResourceNotFound", () => Read<Notice>(New(), board, row));
        }

        internal static readonly Guid Tag = new Guid("0b0c0d0e-1111-4222-8333-444455556666");

        internal static Specimen NewSpecimen(string board)
        {
            return new Specimen
            {
                PartitionKey = board, RowKey = "1", Photo = new byte[] { 0, 1, 254, 255 }, IsAlive = true,
                FoundAt = new DateTime(2009, 5, 6, 7, 8, 9, DateTimeKind.Utc).AddTicks(1234567), Grams = 0.125, Tag = Tag,
                Legs = -6, Barcode = 9007199254740993, Name = " <Käfer> & 'co' "
            };
        }

        internal static void StoreBoard(string board, int count)
        {
            Context context = New();
            for (int i = 0; i < count; i++)
            {
                context.AddObject(Table, new Notice(board, i.ToString("d5"), i % 2 == 0 ? "even" : "odd", i));
                if (i % Batch == Batch - 1 || i == count - 1)
                {
                    context.SaveChanges(SaveChangesOptions.Batch);
                    context = New();
                }
            }
        }
    }
}
