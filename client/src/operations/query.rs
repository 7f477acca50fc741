//! Queries select entities of a table, and properties of these entities. `pages.rs` delivers the results.
//!
//! This module must not know how entities are written.

use super::continuation::Continuation;
use super::pages::{PageRequest, Pages, Position, Read, Results};
use super::stored::Stored;
use super::table::Table;
use crate::entity::{Entity, EntityError, KeyName, PropertyBag};
use crate::error::Error;
use crate::filter::{Filter, KeyProperty, Projection, Property};
use crate::limits::PAGE_ENTITIES_MAX;
use crate::pipeline::ReadFrom;
use model::name::PARTITION_KEY;
use model::ordered_view::view_name;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;
use wire::uri::encode_component;

/// A query of the entities of a table, in key order unless [`order_by`](Self::order_by) changes it. Nothing is sent
/// until [`stream`](Self::stream), [`pages`](Self::pages), [`collect`](Self::collect) or [`first`](Self::first) runs
/// it.
///
/// An entity must match all conditions. The compiler checks the names and types of properties;
/// [`filter_text`](Self::filter_text) accepts any expression of the filter language instead. The service examines only
/// the entities in the key range that the conditions on the keys allow. It checks all other conditions for each of
/// these entities.
///
/// ```
/// use rowhouse_client::{Entity, TableService};
///
/// #[derive(Entity)]
/// struct Customer {
///     #[entity(partition_key)]
///     city: String,
///     #[entity(row_key)]
///     id: String,
///     name: String,
///     visits: i32,
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = rowhouse_testing::TestServer::start().await?;
/// # let service = TableService::from_connection_string(&server.connection_string())?;
/// # let customers = service.table("customers");
/// # customers.create().await?;
/// # for (id, name, visits) in [("1", "Ada", 9), ("2", "Emmy", 1), ("3", "Sonja", 6)] {
/// #     customers.insert(&Customer { city: "Turin".into(), id: id.into(), name: name.into(), visits }).await?;
/// # }
/// let mut regulars = customers
///     .query::<Customer>()
///     .partition("Turin")
///     .filter(|c| c.visits.gt(5) & !c.name.eq("Ada"))
///     .stream();
/// while let Some(customer) = regulars.next().await {
///     println!("{}", customer?.name);
/// }
///
/// let names = customers.query::<Customer>().select(|c| (c.name, c.visits)).collect().await?;
/// assert_eq!(names.first(), Some(&("Ada".to_owned(), 9)));
/// # Ok(()) }
/// ```
#[must_use = "a query does nothing before it is run"]
pub struct Query<E, T = Stored<E>> {
    table: Table,
    filter: Option<Filter<E>>,
    texts: Vec<String>,
    select: Vec<String>,
    take: Option<u64>,
    page_size: usize,
    from: Option<Continuation>,
    /// Whether the table's address is the address of an ordered view.
    is_ordered: bool,
    marked: Vec<&'static str>,
    read: Read<T>,
    types: PhantomData<fn() -> E>,
}

impl<E: Entity> Query<E> {
    pub(crate) fn new(table: Table) -> Self {
        Self {
            table,
            filter: None,
            texts: Vec::new(),
            select: Vec::new(),
            take: None,
            page_size: PAGE_ENTITIES_MAX,
            from: None,
            is_ordered: false,
            marked: E::ENCRYPTED.to_vec(),
            read: Arc::new(Stored::from_bag),
            types: PhantomData,
        }
    }
}

impl<E: Entity, T> Query<E, T> {
    /// Adds a condition, which the closure builds from the properties of the type.
    ///
    /// ```
    /// # use rowhouse_client::{Entity, Table};
    /// # #[derive(Entity)]
    /// # struct Customer {
    /// #     #[entity(partition_key)] city: String,
    /// #     #[entity(row_key)] id: String,
    /// #     visits: i32,
    /// # }
    /// # fn example(customers: Table) {
    /// let query = customers.query::<Customer>().filter(|c| c.visits.ge(10) | c.city.eq("Turin"));
    /// # }
    /// ```
    pub fn filter(self, condition: impl FnOnce(E::Properties) -> Filter<E>) -> Self {
        self.and(condition(E::PROPERTIES))
    }

    /// Adds a condition that was built elsewhere.
    ///
    /// ```
    /// # use rowhouse_client::{Entity, Filter, Table};
    /// # #[derive(Entity)]
    /// # struct Customer {
    /// #     #[entity(partition_key)] city: String,
    /// #     #[entity(row_key)] id: String,
    /// #     visits: i32,
    /// # }
    /// # fn example(customers: Table) {
    /// fn regulars() -> Filter<Customer> {
    ///     Customer::PROPERTIES.visits.gt(5)
    /// }
    /// let query = customers.query::<Customer>().and(regulars());
    /// # }
    /// ```
    pub fn and(self, condition: Filter<E>) -> Self {
        let filter = Some(match self.filter {
            Some(filter) => filter & condition,
            None => condition,
        });
        Self { filter, ..self }
    }

    /// Adds a condition as an expression of the filter language, which the service checks. An unbalanced quote or
    /// parenthesis is an error, so that an expression cannot disable the other conditions.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # fn example(orders: Table) {
    /// let query = orders.query::<PropertyBag>().filter_text("Total gt 100L and not (State eq 'paid')");
    /// # }
    /// ```
    pub fn filter_text(mut self, text: &str) -> Self {
        self.texts.push(text.to_owned());
        self
    }

    /// Selects only entities in the given partition.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # fn example(orders: Table) {
    /// let query = orders.query::<PropertyBag>().partition("2031");
    /// # }
    /// ```
    pub fn partition(self, partition_key: &str) -> Self {
        self.and(partition::<E>().eq(partition_key))
    }

    /// Selects only entities whose partition key is in a range.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # fn example(orders: Table) {
    /// let query = orders.query::<PropertyBag>().partitions("2031".."2035");
    /// # }
    /// ```
    pub fn partitions<'k>(self, partition_keys: impl RangeBounds<&'k str>) -> Self {
        self.and(partition::<E>().in_range(partition_keys))
    }

    /// Selects only entities whose partition key starts with a prefix.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # fn example(orders: Table) {
    /// let query = orders.query::<PropertyBag>().partition_prefix("eu-");
    /// # }
    /// ```
    pub fn partition_prefix(self, prefix: &str) -> Self {
        self.and(partition::<E>().starts_with(prefix))
    }

    /// Selects only entities whose row key is in a range. Without a condition on the partition key, the service
    /// examines every entity in the table.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # fn example(orders: Table) {
    /// let query = orders.query::<PropertyBag>().partition("2031").rows("0100".."0200");
    /// # }
    /// ```
    pub fn rows<'k>(self, row_keys: impl RangeBounds<&'k str>) -> Self {
        self.and(row::<E>().in_range(row_keys))
    }

    /// Selects only entities whose row key starts with a prefix. Without a condition on the partition key, the service
    /// examines every entity in the table.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # fn example(orders: Table) {
    /// let query = orders.query::<PropertyBag>().partition("2031").row_prefix("01");
    /// # }
    /// ```
    pub fn row_prefix(self, prefix: &str) -> Self {
        self.and(row::<E>().starts_with(prefix))
    }

    /// Limits the total number of results.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// let first_ten = orders.query::<PropertyBag>().take(10).collect().await?;
    /// # Ok(()) }
    /// ```
    pub fn take(self, results_max: u64) -> Self {
        Self { take: Some(results_max), ..self }
    }

    /// Sets the maximum number of results in a page, from 1 to 1,000. The default is 1,000.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # fn example(orders: Table) {
    /// let pages = orders.query::<PropertyBag>().page_size(50).pages();
    /// # }
    /// ```
    pub fn page_size(self, results_max: usize) -> Self {
        Self { page_size: results_max.clamp(1, PAGE_ENTITIES_MAX), ..self }
    }

    /// Starts at the position at which an earlier query with the same conditions stopped.
    ///
    /// ```
    /// # use rowhouse_client::{Continuation, PropertyBag, Table};
    /// # async fn example(orders: Table, continuation: Continuation) -> Result<(), rowhouse_client::Error> {
    /// let rest = orders.query::<PropertyBag>().resume(continuation).collect().await?;
    /// # Ok(()) }
    /// ```
    pub fn resume(self, from: Continuation) -> Self {
        Self { from: Some(from), ..self }
    }

    /// Returns the entities in the order of the values of a property, and entities with the same value in key order.
    /// Entities without the property are not returned.
    ///
    /// This requires a server that runs with `--extensions` and has an index of the property
    /// ([`Table::set_indexes`]). Other servers and the cloud refuse the query. There, keep the entities in another
    /// table as well, with keys in the desired order, or sort all results.
    ///
    /// ```
    /// # use rowhouse_client::{Entity, Table};
    /// # #[derive(Entity)]
    /// # struct Customer {
    /// #     #[entity(partition_key)] city: String,
    /// #     #[entity(row_key)] id: String,
    /// #     visits: i32,
    /// # }
    /// # async fn example(customers: Table) -> Result<(), rowhouse_client::Error> {
    /// let rare = customers.query::<Customer>().order_by(|c| c.visits).filter(|c| c.visits.ge(1)).take(10).collect().await?;
    /// # Ok(()) }
    /// ```
    pub fn order_by<V, N: AsRef<str>>(self, property: impl FnOnce(E::Properties) -> Property<E, V, N>) -> Self {
        self.ordered(property(E::PROPERTIES).name(), false)
    }

    /// Like [`order_by`](Self::order_by), but returns the entities in the reverse order.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// let largest = orders.query::<PropertyBag>().order_by_descending(|p| p.property::<i64>("Total")).first().await?;
    /// # Ok(()) }
    /// ```
    pub fn order_by_descending<V, N: AsRef<str>>(
        self,
        property: impl FnOnce(E::Properties) -> Property<E, V, N>,
    ) -> Self {
        self.ordered(property(E::PROPERTIES).name(), true)
    }

    fn ordered(mut self, property: &str, is_descending: bool) -> Self {
        let view = view_name(&self.table.name, property, is_descending);
        self.table.encoded = Arc::from(encode_component(&view));
        Self { is_ordered: true, ..self }
    }

    /// Reads only a property or a tuple of properties.
    ///
    /// ```
    /// # use rowhouse_client::{Entity, Table};
    /// # #[derive(Entity)]
    /// # struct Customer {
    /// #     #[entity(partition_key)] city: String,
    /// #     #[entity(row_key)] id: String,
    /// #     visits: i32,
    /// # }
    /// # async fn example(customers: Table) -> Result<(), rowhouse_client::Error> {
    /// let visits: Vec<(String, i32)> = customers.query::<Customer>().select(|c| (c.id, c.visits)).collect().await?;
    /// # Ok(()) }
    /// ```
    pub fn select<P>(self, project: impl FnOnce(E::Properties) -> P) -> Query<E, P::Output>
    where
        P: Projection<E> + Send + Sync + 'static,
    {
        let projection = project(E::PROPERTIES);
        let names = projection.names();
        self.reading(names, move |bag| projection.read(&bag))
    }

    /// Reads only the properties of another type, which may have fewer properties. Reads all properties if that type
    /// has a field for the remaining ones.
    ///
    /// ```
    /// # use rowhouse_client::{Entity, PropertyBag, Table};
    /// #[derive(Entity)]
    /// struct Badge {
    ///     #[entity(partition_key)]
    ///     city: String,
    ///     #[entity(row_key)]
    ///     id: String,
    ///     name: String,
    /// }
    /// # async fn example(customers: Table) -> Result<(), rowhouse_client::Error> {
    /// let badges = customers.query::<PropertyBag>().select_as::<Badge>().collect().await?;
    /// # Ok(()) }
    /// ```
    pub fn select_as<P: Entity>(self) -> Query<E, Stored<P>> {
        let names = P::SELECT.unwrap_or_default().iter().map(|name| (*name).to_owned()).collect();
        let mut query = self.reading(names, Stored::from_bag);
        query.marked.extend(P::ENCRYPTED);
        query
    }

    /// Reads some properties by name and converts them to any value. Reads all properties if the list of names is
    /// empty.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// let lines: Vec<String> = orders
    ///     .query::<PropertyBag>()
    ///     .resolve(&["Total"], |bag| Ok(format!("{}: {}", bag.key.row.as_str(), bag.get::<i64>("Total")?)))
    ///     .collect()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub fn resolve<R>(
        self,
        names: &[&str],
        resolver: impl Fn(PropertyBag) -> Result<R, EntityError> + Send + Sync + 'static,
    ) -> Query<E, R> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.reading(names, resolver)
    }

    fn reading<R>(
        self,
        select: Vec<String>,
        read: impl Fn(PropertyBag) -> Result<R, EntityError> + Send + Sync + 'static,
    ) -> Query<E, R> {
        let Self { table, filter, texts, take, page_size, from, is_ordered, marked, types, .. } = self;
        Query { table, filter, texts, select, take, page_size, from, is_ordered, marked, read: Arc::new(read), types }
    }

    /// Reads only keys, which are not encrypted.
    pub(super) fn reading_keys<R>(
        self,
        read: impl Fn(PropertyBag) -> Result<R, EntityError> + Send + Sync + 'static,
    ) -> Query<E, R> {
        let mut query = self.reading(vec![PARTITION_KEY.to_owned()], read);
        query.marked.clear();
        #[cfg(feature = "encryption")]
        {
            query.table.encryption = None;
        }
        query
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// Reads only from the primary.
    pub(super) fn reading_primary(mut self) -> Self {
        self.table.pipeline.read_from = ReadFrom::Primary;
        self
    }

    /// Returns the position at which the query starts; `None` for the first entity.
    pub(super) fn start(&self) -> Option<&Continuation> {
        self.from.as_ref()
    }

    /// Returns true if the query reads in the order of a property.
    pub(super) fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// Returns true if the number of results is limited.
    pub(super) fn is_limited(&self) -> bool {
        self.take.is_some()
    }

    pub(super) fn check_reads_all(&self) -> Result<(), Error> {
        if self.is_ordered {
            return Err(Error::Invalid("a scan reads in key order: it does not support `order_by`".to_owned()));
        }
        if self.take.is_some() || self.from.is_some() {
            return Err(Error::Invalid("a scan reads all results: it supports neither `take` nor `resume`".to_owned()));
        }
        Ok(())
    }

    pub(super) fn request(self) -> PageRequest<T> {
        let names: Vec<&str> = self.select.iter().map(String::as_str).collect();
        let list = self.table.select_list(&names);
        let options = list.map_or_else(String::new, |list| format!("&$select={list}"));
        let Self { table, page_size, marked, read, select, .. } = self;
        PageRequest { table, options, page_size, select, marked, read }
    }

    /// Returns the filter to send, or `None` to select every entity. Fails if a value has no literal in the filter
    /// language.
    ///
    /// ```
    /// # use rowhouse_client::{Entity, Table};
    /// # #[derive(Entity)]
    /// # struct Customer {
    /// #     #[entity(partition_key)] city: String,
    /// #     #[entity(row_key)] id: String,
    /// #     visits: i64,
    /// # }
    /// # fn example(customers: Table) -> Result<(), rowhouse_client::EntityError> {
    /// let query = customers.query::<Customer>().partition("L'Aquila").filter(|c| c.visits.gt(5));
    /// assert_eq!(query.text()?.as_deref(), Some("PartitionKey eq 'L''Aquila' and visits gt 5L"));
    /// # Ok(()) }
    /// ```
    pub fn text(&self) -> Result<Option<String>, EntityError> {
        if let Some(text) = self.texts.iter().find(|text| !is_closed(text)) {
            return Err(EntityError::FilterText { text: Box::from(text.as_str()) });
        }
        let typed = self.filter.as_ref().map(Filter::text).transpose()?;
        let mut parts: Vec<&String> = typed.iter().chain(&self.texts).collect();
        Ok(match (parts.pop(), &parts[..]) {
            (last, []) => last.cloned(),
            (last, before) => {
                let all = before.iter().copied().chain(last);
                Some(all.map(|text| format!("({text})")).collect::<Vec<_>>().join(" and "))
            }
        })
    }

    /// Runs the query and returns its results in pages.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// let mut pages = orders.query::<PropertyBag>().pages();
    /// while let Some(page) = pages.next().await {
    ///     let page = page?;
    ///     println!("{} entities, and {}", page.items.len(), if page.next.is_some() { "more follow" } else { "no more" });
    /// }
    /// # Ok(()) }
    /// ```
    pub fn pages(self) -> Pages<T>
    where
        T: Send + 'static,
    {
        let remaining = self.take.unwrap_or(u64::MAX);
        let (filter, error) = match self.text() {
            Ok(filter) => (filter, None),
            Err(reason) => (None, Some(Error::Entity(reason))),
        };
        let position = (remaining > 0).then(|| Position { from: self.from.clone(), remaining });
        Pages::new(self.request().with_filter(filter.as_deref()), position, error)
    }

    /// Runs the query and returns its results one by one.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// let mut all = orders.query::<PropertyBag>().stream();
    /// while let Some(order) = all.next().await {
    ///     println!("{}", order?.key.row.as_str());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn stream(self) -> Results<T>
    where
        T: Send + 'static,
    {
        Results::new(self.pages())
    }

    /// Runs the query and collects all results, whatever their number.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// let orders = orders.query::<PropertyBag>().partition("2031").collect().await?;
    /// # Ok(()) }
    /// ```
    pub async fn collect(self) -> Result<Vec<T>, Error>
    where
        T: Send + 'static,
    {
        let mut pages = self.pages();
        let mut all = Vec::new();
        while let Some(page) = pages.next().await {
            all.append(&mut page?.items);
        }
        Ok(all)
    }

    /// Runs the query and returns its first result, or `None` if there are no results.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// let newest = orders.query::<PropertyBag>().partition("2031").first().await?;
    /// # Ok(()) }
    /// ```
    pub async fn first(self) -> Result<Option<T>, Error>
    where
        T: Send + 'static,
    {
        self.take(1).stream().next().await.transpose()
    }
}

impl<E: Entity, T> fmt::Debug for Query<E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("table", &self.table.name)
            .field("filter", &self.filter)
            .field("texts", &self.texts)
            .field("select", &self.select)
            .field("take", &self.take)
            .field("is_ordered", &self.is_ordered)
            .finish_non_exhaustive()
    }
}

/// Returns true if an expression of the filter language stays a single operand when put in parentheses.
pub(super) fn is_closed(text: &str) -> bool {
    let (mut depth, mut is_quoted) = (0_usize, false);
    for c in text.chars() {
        match c {
            // A quote inside a string literal is doubled, which closes the literal and reopens it.
            '\'' => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => match depth.checked_sub(1) {
                Some(less) => depth = less,
                None => return false,
            },
            _ => {}
        }
    }
    depth == 0 && !is_quoted
}

fn partition<E>() -> KeyProperty<E, String> {
    KeyProperty::new(KeyName::Partition)
}

fn row<E>() -> KeyProperty<E, String> {
    KeyProperty::new(KeyName::Row)
}

impl Table {
    /// Creates a query of all entities in the table. Add conditions to restrict it.
    ///
    /// ```
    /// # use rowhouse_client::{PropertyBag, Table};
    /// # async fn example(orders: Table) -> Result<(), rowhouse_client::Error> {
    /// let all = orders.query::<PropertyBag>().collect().await?;
    /// # Ok(()) }
    /// ```
    pub fn query<E: Entity>(&self) -> Query<E> {
        Query::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_get_out_of_its_parentheses() -> Result<(), crate::Error> {
        let table = crate::TableService::from_connection_string("UseDevelopmentStorage=true")?.table("orders");
        let query = |text: &str| table.query::<PropertyBag>().partition("tenant").filter_text(text).text();
        let expected = "(PartitionKey eq 'tenant') and (a eq 'it''s )(' or (b eq 1))";
        assert_eq!(query("a eq 'it''s )(' or (b eq 1)").ok().flatten().as_deref(), Some(expected));
        for text in ["true) or (true", "a eq 'x", "a eq 'x''", "((a eq 1)", "a eq 1)", "a eq ')') or ('(' eq b"] {
            assert_eq!(query(text), Err(EntityError::FilterText { text: Box::from(text) }));
        }
        Ok(())
    }

    #[test]
    fn an_ordered_query_has_the_address_of_a_view() -> Result<(), crate::Error> {
        let table = crate::TableService::from_connection_string("UseDevelopmentStorage=true")?.table("orders");
        let path = |query: Query<PropertyBag>| query.request().table.path("()");
        let query = || table.query::<PropertyBag>();
        assert_eq!(path(query().order_by(|p| p.property::<i64>("Total"))), "/%24ByTotalOforders()");
        let descending = |p: crate::filter::BagProperties| p.property::<String>("Größe");
        assert_eq!(path(query().order_by_descending(descending)), "/%24ByGr%C3%B6%C3%9FeDescendingOforders()");
        // The last order applies.
        let twice = query().order_by_descending(descending).order_by(|p| p.property::<i64>("A b"));
        assert_eq!(path(twice.take(1)), "/%24ByA%20bOforders()");
        assert!(query().order_by(|p| p.property::<i64>("Total")).check_reads_all().is_err());
        Ok(())
    }
}
