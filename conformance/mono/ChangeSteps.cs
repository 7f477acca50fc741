using System;
using System.Collections.Generic;
using System.Data.Services.Client;
using System.Linq;
using static Conformance.Mono.Notices;

namespace Conformance.Mono
{
    // What the paper of 2009 describes: changes, conditions and transactions.
    static class ChangeSteps
    {
        internal static IEnumerable<Step> All()
        {
            yield return new Step("an update merges", Merge);
            yield return new Step("an update replaces if asked to", Replace);
            yield return new Step("many updates in a row lose no response", ManyUpdates);
            yield return new Step("a stale update is refused", StaleUpdate);
            yield return new Step("a refused update succeeds after a refresh", UpdateAfterRefresh);
            yield return new Step("own changes survive a refresh", KeepOwnChanges);
            yield return new Step("an update can be unconditional", UnconditionalUpdate);
            yield return new Step("a missing entity is not updated", UpdateMissing);
            yield return new Step("an entity is deleted", Delete);
            yield return new Step("a stale deletion is refused", StaleDelete);
            yield return new Step("a deletion can be unconditional", UnconditionalDelete);
            yield return new Step("a transaction changes several entities", Transaction);
            yield return new Step("a transaction returns the state of each entity", StateAfterTransaction);
            yield return new Step("a transaction changes all or nothing", FailedTransaction);
            yield return new Step("a transaction stays in one partition", TransactionAcrossPartitions);
            yield return new Step("a transaction changes an entity once", TransactionWithDuplicate);
            yield return new Step("a transaction has 100 operations at most", LargeTransaction);
            yield return new Step("an older program ignores new properties", OlderProgram);
            yield return new Step("a newer program completes old entities", NewerProgram);
        }

        static void Merge()
        {
            Context context = New();
            Specimen specimen = NewSpecimen("merge");
            context.AddObject(Table, specimen);
            context.SaveChanges();
            string before = context.GetEntityDescriptor(specimen).ETag;

            Context merging = New();
            merging.IgnoreMissingProperties = true;
            Notice notice = Read<Notice>(merging, "merge", "1");
            notice.Text = "added";
            merging.UpdateObject(notice);
            Check.Equal(204, merging.SaveChanges().Single().StatusCode, "the status");
            Check.Equal("MERGE", merging.SentMethod, "the method");
            Check.Equal(before, merging.Sent["If-Match"], "the condition");
            string after = merging.GetEntityDescriptor(notice).ETag;
            Check.True(after != before, "the library read the new ETag");
            // The library knows the new ETag, so that it can update again.
            notice.Text = "changed";
            merging.UpdateObject(notice);
            merging.SaveChanges();

            Context reading = New();
            reading.IgnoreMissingProperties = true;
            Check.Equal(Tag, Read<Specimen>(reading, "merge", "1").Tag, "a property that the update does not know");
            Check.Equal("changed", Read<Notice>(Lenient(), "merge", "1").Text, "the new property");
        }

        static void Replace()
        {
            Context context = New();
            context.AddObject(Table, NewSpecimen("replace"));
            context.SaveChanges();
            Context replacing = Lenient();
            Notice notice = Read<Notice>(replacing, "replace", "1");
            notice.Text = "all that is left";
            replacing.UpdateObject(notice);
            replacing.SaveChanges(SaveChangesOptions.ReplaceOnUpdate);
            Check.Equal("PUT", replacing.SentMethod, "the method");
            Check.Equal(null, Read<Specimen>(Lenient(), "replace", "1").Tag, "a property that the update does not know");
            Check.Equal("all that is left", Read<Notice>(New(), "replace", "1").Text, "the new property");
        }

        static void ManyUpdates()
        {
            Notice notice = Stored("manyUpdates", "1");
            Context context = New();
            context.AttachTo(Table, notice, "*");
            for (int i = 1; i <= 300; i++)
            {
                notice.Votes = i;
                context.UpdateObject(notice);
                context.SaveChanges(i % 2 == 0 ? SaveChangesOptions.None : SaveChangesOptions.ReplaceOnUpdate);
            }
            Check.Equal(300, Read<Notice>(New(), "manyUpdates", "1").Votes, "the votes");
        }

        // Changes an entity behind the back of everyone who has read it.
        static void Overtake(string board, string row, int votes)
        {
            Context other = New();
            Notice notice = Read<Notice>(other, board, row);
            notice.Votes = votes;
            other.UpdateObject(notice);
            other.SaveChanges();
        }

        // Stores an entity, reads it, and lets another context change it.
        static Notice ReadBeforeOvertaken(Context context, string board)
        {
            Stored(board, "1");
            Notice notice = Read<Notice>(context, board, "1");
            Overtake(board, "1", 50);
            return notice;
        }

        static void StaleUpdate()
        {
            Context context = New();
            Notice notice = ReadBeforeOvertaken(context, "stale");
            notice.Votes++;
            context.UpdateObject(notice);
            Check.Fails(412, "UpdateConditionNotSatisfied", () => context.SaveChanges());
            Check.Equal(50, Read<Notice>(New(), "stale", "1").Votes, "the votes");
        }

        static void UpdateAfterRefresh()
        {
            Context context = New();
            Notice notice = ReadBeforeOvertaken(context, "refresh");
            notice.Votes++;
            context.UpdateObject(notice);
            Check.Fails(412, "UpdateConditionNotSatisfied", () => context.SaveChanges());
            context.MergeOption = MergeOption.OverwriteChanges;
            Check.True(ReferenceEquals(notice, Read<Notice>(context, "refresh", "1")), "the library refreshes the same object");
            Check.Equal(50, notice.Votes, "the votes after the refresh");
            notice.Votes++;
            context.UpdateObject(notice);
            context.SaveChanges();
            Check.Equal(51, Read<Notice>(New(), "refresh", "1").Votes, "the votes");
        }

        static void KeepOwnChanges()
        {
            Context context = New();
            Notice notice = ReadBeforeOvertaken(context, "keep");
            notice.Text = "mine";
            notice.Votes = 7;
            context.UpdateObject(notice);
            context.MergeOption = MergeOption.PreserveChanges;
            Read<Notice>(context, "keep", "1");
            context.SaveChanges();
            Notice read = Read<Notice>(New(), "keep", "1");
            Check.Equal("mine 7", read.Text + " " + read.Votes, "the properties");
        }

        static void UnconditionalUpdate()
        {
            Stored("unconditional", "1");
            Overtake("unconditional", "1", 50);
            Context context = New();
            var notice = new Notice("unconditional", "1", "whatever it was", 8);
            context.AttachTo(Table, notice, "*");
            context.UpdateObject(notice);
            context.SaveChanges();
            Check.Equal("*", context.Sent["If-Match"], "the condition");
            Check.Equal(8, Read<Notice>(New(), "unconditional", "1").Votes, "the votes");
        }

        static void UpdateMissing()
        {
            Context context = New();
            var notice = new Notice("updateMissing", "1");
            context.AttachTo(Table, notice, "*");
            context.UpdateObject(notice);
            Check.Fails(404, "ResourceNotFound", () => context.SaveChanges());
        }

        static void Delete()
        {
            Stored("delete", "1");
            Context context = New();
            Notice notice = Read<Notice>(context, "delete", "1");
            context.DeleteObject(notice);
            Check.Equal(204, context.SaveChanges().Single().StatusCode, "the status");
            Missing("delete", "1");
        }

        static void StaleDelete()
        {
            Context context = New();
            Notice notice = ReadBeforeOvertaken(context, "staleDelete");
            context.DeleteObject(notice);
            Check.Fails(412, "UpdateConditionNotSatisfied", () => context.SaveChanges());
            Check.Equal(50, Read<Notice>(New(), "staleDelete", "1").Votes, "the votes");
        }

        static void DeleteUnconditionally(string board, string row)
        {
            Context context = New();
            var notice = new Notice(board, row);
            context.AttachTo(Table, notice, "*");
            context.DeleteObject(notice);
            context.SaveChanges();
        }

        static void UnconditionalDelete()
        {
            Stored("unconditionalDelete", "1");
            DeleteUnconditionally("unconditionalDelete", "1");
            Missing("unconditionalDelete", "1");
            Check.Fails(404, "ResourceNotFound", () => DeleteUnconditionally("unconditionalDelete", "1"));
        }

        static void Transaction()
        {
            StoreBoard("transaction", 3);
            Context context = New();
            List<Notice> notices = (from notice in context.CreateQuery<Notice>(Table)
                                    where notice.PartitionKey == "transaction"
                                    select notice).ToList();
            notices[0].Votes = 100;
            context.UpdateObject(notices[0]);
            context.DeleteObject(notices[1]);
            context.AddObject(Table, new Notice("transaction", "new", "new", 5));
            DataServiceResponse response = context.SaveChanges(SaveChangesOptions.Batch);
            Check.True(response.IsBatchResponse, "a transaction was answered");
            Check.Equal(202, response.BatchStatusCode, "the status");
            Check.Sequence(new[] { 201, 204, 204 }, response.Select(one => one.StatusCode).OrderBy(status => status), "the statuses");
            var query = from notice in New().CreateQuery<Notice>(Table) where notice.PartitionKey == "transaction" select notice;
            Check.Sequence(new[] { "00000:100", "00002:2", "new:5" },
                query.AsEnumerable().Select(notice => notice.RowKey + ":" + notice.Votes), "the entities");
        }

        static void StateAfterTransaction()
        {
            Context context = New();
            var inserted = new Notice("state", "1", "inserted", 1);
            context.AddObject(Table, inserted);
            context.AddObject(Table, new Notice("state", "2", "inserted", 1));
            context.SaveChanges(SaveChangesOptions.Batch);
            string first = context.GetEntityDescriptor(inserted).ETag;
            Check.True(first != null && first.StartsWith("W/"), "the library read the ETag of an inserted entity: " + first);
            inserted.Votes = 2;
            context.UpdateObject(inserted);
            context.SaveChanges(SaveChangesOptions.Batch);
            string second = context.GetEntityDescriptor(inserted).ETag;
            Check.True(second != first, "the library read the ETag of an updated entity: " + second);
            inserted.Votes = 3;
            context.UpdateObject(inserted);
            context.SaveChanges();
            Check.Equal(3, Read<Notice>(New(), "state", "1").Votes, "the votes");
        }

        static void FailedTransaction()
        {
            Stored("failed", "2");
            Context context = New();
            context.AddObject(Table, new Notice("failed", "1"));
            context.AddObject(Table, new Notice("failed", "2"));
            DataServiceRequestException error = null;
            try
            {
                context.SaveChanges(SaveChangesOptions.Batch);
            }
            catch (DataServiceRequestException failure)
            {
                error = failure;
            }
            Check.True(error != null, "the transaction fails");
            Check.Equal(202, error.Response.BatchStatusCode, "the status of the batch");
            Check.Equal(409, error.Response.Single().StatusCode, "the status of the operation");
            Check.Fails(409, "EntityAlreadyExists", () => { throw error; });
            Check.True(error.InnerException.Message.Contains(">1:The specified entity already exists."), "the position: " + error.InnerException.Message);
            Missing("failed", "1");
        }

        static void FailsInTransaction(string code, params Notice[] notices)
        {
            Context context = New();
            foreach (Notice notice in notices)
            {
                context.AddObject(Table, notice);
            }
            Check.Fails(400, code, () => context.SaveChanges(SaveChangesOptions.Batch));
            foreach (Notice notice in notices.Take(2))
            {
                Missing(notice.PartitionKey, notice.RowKey);
            }
        }

        static void TransactionAcrossPartitions()
        {
            FailsInTransaction("CommandsInBatchActOnDifferentPartitions", new Notice("across1", "1"), new Notice("across2", "1"));
        }

        static void TransactionWithDuplicate()
        {
            // The service changed the code over the years.
            Context context = New();
            context.AddObject(Table, new Notice("duplicate", "1"));
            context.AddObject(Table, new Notice("duplicate", "1"));
            DataServiceClientException error = null;
            try
            {
                context.SaveChanges(SaveChangesOptions.Batch);
            }
            catch (DataServiceRequestException failure)
            {
                error = (DataServiceClientException)failure.InnerException;
            }
            Check.True(error != null && error.StatusCode == 400, "the transaction fails");
            Missing("duplicate", "1");
        }

        static void LargeTransaction()
        {
            var notices = Enumerable.Range(0, Batch + 1).Select(i => new Notice("large", i.ToString("d3"))).ToArray();
            FailsInTransaction("InvalidInput", notices);
            StoreBoard("large", Batch);
        }

        static void OlderProgram()
        {
            Context newer = New();
            var rated = new RatedNotice { PartitionKey = "older", RowKey = "1", Text = "text", Votes = 1, Rating = 4.5 };
            newer.AddObject(Table, rated);
            newer.SaveChanges();
            // Without the setting, the library refuses an entity with an unknown property.
            try
            {
                Read<Notice>(New(), "older", "1");
                throw new CheckFailed("the library ignores an unknown property");
            }
            catch (InvalidOperationException)
            {
            }
            Context older = Lenient();
            Notice notice = Read<Notice>(older, "older", "1");
            notice.Votes = 2;
            older.UpdateObject(notice);
            older.SaveChanges();
            RatedNotice read = Read<RatedNotice>(New(), "older", "1");
            Check.Equal(4.5, read.Rating, "the property that the older program does not know");
            Check.Equal(2, read.Votes, "the votes");
        }

        static void NewerProgram()
        {
            Stored("newer", "1");
            Context newer = New();
            RatedNotice notice = Read<RatedNotice>(newer, "newer", "1");
            Check.Equal(null, notice.Rating, "the rating of an old entity");
            notice.Rating = 3;
            newer.UpdateObject(notice);
            newer.SaveChanges();
            Check.Equal(3, Read<RatedNotice>(New(), "newer", "1").Rating, "the rating");
        }
    }
}
