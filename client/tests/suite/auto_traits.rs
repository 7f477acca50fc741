//! Programs rely on these traits to spawn futures, and to share and store values. The compiler checks them.

use crate::support::Customer;
use rowhouse_client::{
    BulkReport, BulkWriter, ConnectionString, Continuation, Credential, Endpoint, EndpointError, EntityError, Error,
    Filter, IfMatch, MalformedContinuation, Page, Pages, PropertyBag, Query, Results, RetryPolicy, Stored, Table,
    TableService, TableServiceBuilder, Transaction, Written,
};

fn is_sent<T: Send + 'static>(_: T) {}
fn is_shared<T: Send + Sync + 'static>() {}
fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
fn is_cloned_and_shown<T: Clone + std::fmt::Debug>() {}
fn is_moved<T: Send + Unpin + 'static>() {}

/// Every future can be spawned on a multi-threaded runtime.
fn futures_are_sent(table: &'static Table, service: &'static TableService, bag: &'static PropertyBag) {
    is_sent(table.create_if_missing());
    is_sent(table.insert(bag));
    is_sent(table.insert_with_echo(bag));
    is_sent(table.get::<PropertyBag>("p", "r"));
    is_sent(table.find::<Customer>("p", "r"));
    is_sent(table.replace(bag, IfMatch::Any));
    is_sent(table.delete("p", "r", IfMatch::Any));
    is_sent(table.update::<PropertyBag>("p", "r", |_| Ok(())));
    is_sent(table.commit(Transaction::new().insert(bag)));
    is_sent(table.policies());
    is_sent(table.query::<Customer>().filter(|c| c.visits.gt(5)).select(|c| c.id).collect());
    is_sent(table.query::<Customer>().first());
    is_sent(table.query::<Customer>().count());
    is_sent(table.query::<Customer>().scan().count());
    is_sent(table.query::<Customer>().delete_matching());
    is_sent(service.tables().all());
    is_sent(service.properties());
    is_sent(async {
        let mut bulk = table.bulk();
        bulk.insert(bag).await?;
        let mut all = table.query::<Customer>().stream();
        while let Some(one) = all.next().await {
            drop(one?);
        }
        Ok::<_, Error>(bulk.finish().await)
    });
}

#[test]
fn values_can_be_sent_shared_and_shown() {
    let _ = futures_are_sent;
    is_shared::<TableService>();
    is_shared::<TableServiceBuilder>();
    is_shared::<Table>();
    is_shared::<Query<Customer>>();
    is_shared::<Filter<Customer>>();
    is_shared::<Transaction>();
    is_moved::<Pages<Stored<Customer>>>();
    is_moved::<Results<Stored<Customer>>>();
    is_moved::<BulkWriter>();
    is_error::<Error>();
    is_error::<EntityError>();
    is_error::<EndpointError>();
    is_error::<MalformedContinuation>();
    is_cloned_and_shown::<TableService>();
    is_cloned_and_shown::<Table>();
    is_cloned_and_shown::<Transaction>();
    is_cloned_and_shown::<Filter<Customer>>();
    is_cloned_and_shown::<RetryPolicy>();
    is_cloned_and_shown::<Credential>();
    is_cloned_and_shown::<ConnectionString>();
    is_cloned_and_shown::<Endpoint>();
    is_cloned_and_shown::<Continuation>();
    is_cloned_and_shown::<Page<Customer>>();
    is_cloned_and_shown::<Written>();
    is_cloned_and_shown::<BulkReport>();
}
