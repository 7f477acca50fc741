using System;
using System.Collections.Generic;
using System.Data.Services.Client;
using System.Linq;

namespace Conformance.Mono
{
    // What the paper on upserts and projection of 2011 describes: two programs that each know a part of a customer, and
    // a third one that reads only what it needs.
    static class UpsertSteps
    {
        const string Version = "2011-08-18";

        static readonly string Table = Target.UniqueName("customers");

        static Context New()
        {
            return new Context(Version);
        }

        internal static IEnumerable<Step> All()
        {
            yield return new Step("upsert: Insert Or Replace creates an entity", ReplaceCreates);
            yield return new Step("upsert: Insert Or Replace replaces all properties", ReplaceReplaces);
            yield return new Step("upsert: Insert Or Merge creates an entity", MergeCreates);
            yield return new Step("upsert: two programs keep each other's properties", MergeKeeps);
            yield return new Step("upsert: an upsert returns the ETag", ReturnedETag);
            yield return new Step("upsert: a transaction may contain upserts", Transaction);
            yield return new Step("upsert: earlier versions require a condition", EarlierVersion);
            yield return new Step("projection: only the selected properties are returned", Projection);
            yield return new Step("projection: a missing property has no value", MissingProperty);
            yield return new Step("projection: a job changes one property of every entity", RatingJob);
            yield return new Step("projection: entities are counted by their keys", Counting);
            yield return new Step("projection: earlier versions refuse it", EarlierProjection);
        }

        // Without an ETag, the library sends an update without a condition, which is an upsert.
        static void Upsert(Context context, CustomerKey customer, SaveChangesOptions options)
        {
            context.AttachTo(Table, customer);
            context.UpdateObject(customer);
            context.SaveChanges(options);
            Check.Equal(null, context.Sent["If-Match"], "the condition of an upsert");
        }

        static void InsertOrReplace(CustomerKey customer)
        {
            Context context = New();
            Upsert(context, customer, SaveChangesOptions.ReplaceOnUpdate);
            Check.Equal("PUT", context.SentMethod, "the method");
        }

        static void InsertOrMerge(CustomerKey customer)
        {
            Context context = New();
            Upsert(context, customer, SaveChangesOptions.None);
            Check.Equal("MERGE", context.SentMethod, "the method");
        }

        static Customer Read(string region, string name)
        {
            var query = from customer in New().CreateQuery<Customer>(Table)
                        where customer.PartitionKey == region && customer.RowKey == name
                        select customer;
            return query.AsEnumerable().Single();
        }

        static CustomerContact Contact(string region, string name, string email, string city = "Oslo")
        {
            var contact = CustomerKey.New<CustomerContact>(region, name);
            contact.Email = email;
            contact.City = city;
            return contact;
        }

        static CustomerOrders Orders(string region, string name, int orders, double? rating = null)
        {
            var customer = CustomerKey.New<CustomerOrders>(region, name);
            customer.Orders = orders;
            customer.Rating = rating;
            return customer;
        }

        static void ReplaceCreates()
        {
            Context context = New();
            context.AddObject("Tables", new TableRow { TableName = Table });
            context.SaveChanges();
            InsertOrReplace(Contact("replace", "Ada", "ada@example.com"));
            Check.Equal("ada@example.com", Read("replace", "Ada").Email, "the address");
        }

        static void ReplaceReplaces()
        {
            InsertOrReplace(Contact("replace", "Bob", "bob@example.com"));
            InsertOrReplace(Orders("replace", "Bob", 4));
            Customer customer = Read("replace", "Bob");
            Check.Equal(4, customer.Orders, "the orders");
            Check.Equal(null, customer.Email, "the address");
        }

        static void MergeCreates()
        {
            InsertOrMerge(Contact("merge", "Ada", "ada@example.com"));
            Check.Equal("ada@example.com", Read("merge", "Ada").Email, "the address");
        }

        static void MergeKeeps()
        {
            InsertOrMerge(Orders("merge", "Bob", 1));
            InsertOrMerge(Contact("merge", "Bob", "bob@example.com"));
            InsertOrMerge(Orders("merge", "Bob", 2));
            Customer customer = Read("merge", "Bob");
            Check.Equal(2, customer.Orders, "the orders");
            Check.Equal("bob@example.com", customer.Email, "the address");
        }

        static void ReturnedETag()
        {
            Context context = New();
            CustomerOrders customer = Orders("etag", "Ada", 1);
            Upsert(context, customer, SaveChangesOptions.None);
            string etag = context.GetEntityDescriptor(customer).ETag;
            Check.True(etag != null && etag.StartsWith("W/"), "the library read the ETag: " + etag);
            // From now on, the library sends it, so that an update of someone else is noticed.
            InsertOrMerge(Orders("etag", "Ada", 2));
            customer.Orders = 3;
            context.UpdateObject(customer);
            Check.Fails(412, "UpdateConditionNotSatisfied", () => context.SaveChanges());
        }

        static void Transaction()
        {
            InsertOrMerge(Contact("transaction", "Ada", "ada@example.com"));
            Context context = New();
            foreach (string name in new[] { "Ada", "Bob", "Cem" })
            {
                CustomerOrders customer = Orders("transaction", name, 7);
                context.AttachTo(Table, customer);
                context.UpdateObject(customer);
            }
            DataServiceResponse response = context.SaveChanges(SaveChangesOptions.Batch);
            Check.Sequence(new[] { 204, 204, 204 }, response.Select(one => one.StatusCode), "the statuses");
            Check.Equal("ada@example.com", Read("transaction", "Ada").Email, "the address of a merged customer");
            Check.Equal(7, Read("transaction", "Cem").Orders, "the orders of a new customer");
        }

        static void EarlierVersion()
        {
            Context context = new Context("2009-09-19");
            CustomerOrders customer = Orders("earlier", "Ada", 1);
            context.AttachTo(Table, customer);
            context.UpdateObject(customer);
            Check.Fails(400, "MissingRequiredHeader", () => context.SaveChanges());
        }

        static void Projection()
        {
            InsertOrMerge(Contact("projection", "Ada", "ada@example.com", "Oslo"));
            InsertOrMerge(Contact("projection", "Bob", "bob@example.com", "Rome"));
            Context context = New();
            var query = from customer in context.CreateQuery<Customer>(Table)
                        where customer.PartitionKey == "projection"
                        select new { customer.City };
            Check.Sequence(new[] { "Oslo", "Rome" }, query.AsEnumerable().Select(customer => customer.City), "the cities");
            Check.True(context.SentTo.Query.Contains("$select=City"), "the library selects: " + context.SentTo);
            Check.True(context.Sent["DataServiceVersion"].StartsWith("2.0"), "the library asks for version 2.0");
        }

        static void MissingProperty()
        {
            InsertOrMerge(Contact("missing", "Ada", "ada@example.com"));
            InsertOrMerge(Orders("missing", "Bob", 1, 2.5));
            var query = from customer in New().CreateQuery<Customer>(Table)
                        where customer.PartitionKey == "missing"
                        select new { customer.RowKey, customer.Rating };
            Check.Sequence(new[] { "Ada:", "Bob:2.5" },
                query.AsEnumerable().Select(customer => customer.RowKey + ":" + customer.Rating), "the ratings");
        }

        static void RatingJob()
        {
            for (int i = 1; i <= 3; i++)
            {
                InsertOrMerge(Contact("job", "name" + i, i + "@example.com"));
                InsertOrMerge(Orders("job", "name" + i, i * 10));
            }
            Context context = New();
            var query = from customer in context.CreateQuery<CustomerOrders>(Table)
                        where customer.PartitionKey == "job"
                        select new CustomerOrders
                        {
                            PartitionKey = customer.PartitionKey, RowKey = customer.RowKey, Orders = customer.Orders
                        };
            foreach (CustomerOrders customer in query)
            {
                customer.Rating = customer.Orders > 15 ? 5 : 1;
                context.UpdateObject(customer);
            }
            context.SaveChanges(SaveChangesOptions.Batch);
            var ratings = new List<string>();
            for (int i = 1; i <= 3; i++)
            {
                Customer customer = Read("job", "name" + i);
                ratings.Add(customer.Email + " " + customer.Orders + " " + customer.Rating);
            }
            Check.Sequence(new[] { "1@example.com 10 1", "2@example.com 20 5", "3@example.com 30 5" }, ratings, "the customers");
        }

        static void Counting()
        {
            const int Count = 1150;
            for (int i = 0; i < Count; i += 50)
            {
                Context writing = New();
                for (int j = i; j < i + 50; j++)
                {
                    CustomerOrders customer = Orders("counting", j.ToString("d5"), j);
                    writing.AttachTo(Table, customer);
                    writing.UpdateObject(customer);
                }
                writing.SaveChanges(SaveChangesOptions.Batch);
            }
            int counted = 0;
            string partition = null, row = null;
            do
            {
                Context context = New();
                // One property is enough to count, and the smaller the responses, the faster.
                var query = (DataServiceQuery<CustomerOrders>)(
                    from customer in context.CreateQuery<CustomerOrders>(Table)
                    where customer.PartitionKey == "counting"
                    select new CustomerOrders { PartitionKey = customer.PartitionKey, RowKey = customer.RowKey });
                if (partition != null)
                {
                    query = query.AddQueryOption("NextPartitionKey", partition).AddQueryOption("NextRowKey", row);
                }
                var response = (QueryOperationResponse<CustomerOrders>)query.Execute();
                counted += response.Count();
                response.Headers.TryGetValue("x-ms-continuation-NextPartitionKey", out partition);
                response.Headers.TryGetValue("x-ms-continuation-NextRowKey", out row);
            }
            while (partition != null && counted < 2 * Count);
            Check.Equal(Count, counted, "the number of entities");
        }

        static void EarlierProjection()
        {
            var query = from customer in new Context("2009-09-19").CreateQuery<Customer>(Table)
                        where customer.PartitionKey == "projection"
                        select new { customer.City };
            Check.Fails(400, "InvalidInput", () => query.AsEnumerable().Count());
        }
    }
}
