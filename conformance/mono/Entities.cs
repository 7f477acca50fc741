using System;
using System.Data.Services.Common;

namespace Conformance.Mono
{
    // A row in the list of tables.
    [DataServiceKey("TableName")]
    class TableRow
    {
        public string TableName { get; set; }
    }

    // A message on a noticeboard. The row key begins with the time that remains until the last representable time, so
    // the newest message comes first.
    [DataServiceKey("PartitionKey", "RowKey")]
    class Notice
    {
        public string PartitionKey { get; set; }
        public string RowKey { get; set; }
        public DateTime Timestamp { get; set; }
        public string Text { get; set; }
        public int Votes { get; set; }

        public Notice()
        {
        }

        internal Notice(string board, string row, string text = null, int votes = 0)
        {
            PartitionKey = board;
            RowKey = row;
            Text = text;
            Votes = votes;
        }

        internal static string NewestFirst(DateTime time)
        {
            return (DateTime.MaxValue.Ticks - time.Ticks).ToString("d19");
        }
    }

    // A later version of Notice, with a property that older programs do not know.
    [DataServiceKey("PartitionKey", "RowKey")]
    class RatedNotice
    {
        public string PartitionKey { get; set; }
        public string RowKey { get; set; }
        public DateTime Timestamp { get; set; }
        public string Text { get; set; }
        public int Votes { get; set; }
        public double? Rating { get; set; }
    }

    // An entity with a property of every type.
    [DataServiceKey("PartitionKey", "RowKey")]
    class Specimen
    {
        public string PartitionKey { get; set; }
        public string RowKey { get; set; }
        public DateTime Timestamp { get; set; }
        public byte[] Photo { get; set; }
        public bool? IsAlive { get; set; }
        public DateTime? FoundAt { get; set; }
        public double? Grams { get; set; }
        public Guid? Tag { get; set; }
        public int? Legs { get; set; }
        public long? Barcode { get; set; }
        public string Name { get; set; }
    }

    // A customer, as two programs see it that each know a part of the properties.
    [DataServiceKey("PartitionKey", "RowKey")]
    abstract class CustomerKey
    {
        public string PartitionKey { get; set; }
        public string RowKey { get; set; }
        public DateTime Timestamp { get; set; }

        internal static T New<T>(string region, string name) where T : CustomerKey, new()
        {
            return new T { PartitionKey = region, RowKey = name };
        }
    }

    // What the registration knows of a customer.
    class CustomerContact : CustomerKey
    {
        public string Email { get; set; }
        public string City { get; set; }
    }

    // What the shop knows of a customer.
    class CustomerOrders : CustomerKey
    {
        public int? Orders { get; set; }
        public double? Rating { get; set; }
    }

    // Everything known of a customer.
    class Customer : CustomerKey
    {
        public string Email { get; set; }
        public string City { get; set; }
        public int? Orders { get; set; }
        public double? Rating { get; set; }
    }
}
