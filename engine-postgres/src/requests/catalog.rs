//! Operations on tables, their policies and settings, and single entities. Each needs one or two statements.
//!
//! The catalog is read each time, so that changes by other servers are visible immediately. Only what an operation on
//! entities needs is cached, with its generation. Each use of it also checks whether the table still exists and has
//! this generation.

use crate::connections::attempt::{ATTEMPT_TIME_MAX, AttemptError, Attempts};
use crate::connections::pool::Lease;
use crate::connections::rows::{column, control, end, no_response, read};
use crate::layout::{DatabaseTableId, columns};
use crate::slot::PURGE_LEASE;
use crate::state::{KnownTable, PostgresState, TableIndex};
use crate::statements;
use engine::parts::monotonic;
use engine::parts::page::damaged;
use engine::parts::{policies_value, settings_value};
use engine::{CatalogError, Fault, IndexState, ReadError, TableKey};
use model::name::TABLE_NAMES_FROM;
use model::{
    AccountName, EntityKey, Expiry, IndexedProperty, Record, Retention, StoredAccessPolicies, TableName, TableSettings,
    TableSettingsUpdate, Visibility,
};
use std::sync::Arc;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};

pub(crate) struct ListedTable {
    pub(crate) id: DatabaseTableId,
    pub(crate) name: TableName,
    pub(crate) policies: StoredAccessPolicies,
    pub(crate) settings: TableSettings,
    generation: i64,
    indexes: Arc<[TableIndex]>,
}

impl ListedTable {
    fn known(&self) -> KnownTable {
        let (retention, indexes) = (self.settings.retention.clone(), Arc::clone(&self.indexes));
        KnownTable { id: self.id, generation: self.generation, retention, indexes }
    }
}

impl PostgresState {
    pub(crate) async fn look_up(&self, table: &TableKey) -> Result<Option<ListedTable>, Fault> {
        let (account, folded) = names(table);
        let mut attempts = Attempts::new(&self.pool.counts);
        loop {
            let found = self.persist(async || self.pool.read(statements::TABLE_BY_NAME, &[&account, &folded]).await);
            let rows = found.await?;
            let Some(row) = rows.first() else {
                self.uncache(table);
                return Ok(None);
            };
            let damaged = || Fault::Damaged("the catalog entry of a table cannot be read".to_owned());
            let name = TableName::stored(column(row, 1)?).map_err(|_| damaged())?;
            let mut policies: &[u8] = column(row, 2)?;
            let policies = policies_value::decode_from(&mut policies).ok_or_else(damaged)?;
            let id = DatabaseTableId(column(row, 0)?);
            let (settings, generation) = (decode_settings(column(row, 3)?)?, column::<i64>(row, 4)?);
            let indexes = if settings.indexes.is_empty() {
                Vec::new()
            } else {
                let values: &[&(dyn ToSql + Sync)] = &[&id.0, &generation];
                let found = self.persist(async || self.pool.read(statements::INDEXES_OF_TABLE, values).await);
                let Some(indexes) = table_indexes(&found.await?)? else {
                    attempts.next(AttemptError::table_changed()).await?;
                    continue;
                };
                indexes
            };
            let listed = ListedTable { id, name, policies, settings, generation, indexes: indexes.into() };
            self.cache(table, listed.known());
            return Ok(Some(listed));
        }
    }

    /// If the table comes from the cache, it may have been deleted or changed since.
    pub(crate) async fn known_table(&self, table: &TableKey) -> Result<Option<KnownTable>, Fault> {
        if let Some(known) = self.cached(table) {
            return Ok(Some(known));
        }
        Ok(self.look_up(table).await?.map(|listed| listed.known()))
    }

    /// Returns the tables with a retention if this server has to delete their expired entities. One of the servers that
    /// share the database has to, the one that also purges.
    pub(crate) async fn tables_to_sweep(&self) -> Result<Vec<(TableKey, Retention)>, Fault> {
        let rows = self.persist(async || self.pool.read(statements::TABLES_WITH_SETTINGS, &[]).await).await?;
        let mut tables = Vec::new();
        for row in &rows {
            let account = std::str::from_utf8(column(row, 0)?).ok().and_then(AccountName::new);
            let table = account.zip(TableName::stored(column(row, 1)?).ok());
            let (account, name) =
                table.ok_or_else(|| Fault::Damaged("the catalog entry of a table cannot be read".to_owned()))?;
            if let Some(retention) = decode_settings(column(row, 2)?)?.retention {
                tables.push((TableKey { account, name }, retention));
            }
        }
        if !tables.is_empty() && !self.persist(async || self.hold_lease(PURGE_LEASE).await).await? {
            tables.clear();
        }
        Ok(tables)
    }

    pub(crate) async fn list_tables(
        &self,
        account: &AccountName,
        from: &str,
        limit: usize,
    ) -> Result<Vec<TableName>, Fault> {
        let (account, from) = (account.as_str().as_bytes(), from.max(TABLE_NAMES_FROM).as_bytes());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows =
            self.persist(async || self.pool.read(statements::LIST_TABLES, &[&account, &from, &limit]).await).await?;
        let damaged = |_| Fault::Damaged("the name of a table cannot be read".to_owned());
        rows.iter().map(|row| TableName::stored(column(row, 0)?).map_err(damaged)).collect()
    }

    /// The database counts an index's entries, so the names of the tables are not sent.
    pub(crate) async fn count_tables(&self, account: &AccountName) -> Result<u64, Fault> {
        let (account, from) = (account.as_str().as_bytes(), TABLE_NAMES_FROM.as_bytes());
        let rows = self.persist(async || self.pool.read(statements::COUNT_TABLES, &[&account, &from]).await).await?;
        let count = rows.first().map(|row| column::<i64>(row, 0)).transpose()?;
        Ok(count.unwrap_or_default().unsigned_abs())
    }

    pub(crate) async fn accounts(&self) -> Result<Vec<AccountName>, Fault> {
        let rows = self.persist(async || self.pool.read(statements::ACCOUNTS, &[]).await).await?;
        let account = |row| {
            let name = std::str::from_utf8(column(row, 0)?).ok().and_then(AccountName::new);
            name.ok_or_else(|| Fault::Damaged("the name of an account cannot be read".to_owned()))
        };
        let with_tables = rows.iter().map(account).collect::<Result<Vec<_>, Fault>>()?;
        Ok(self.properties().accounts_and(with_tables.iter()))
    }

    pub(crate) async fn create_table(&self, table: &TableKey) -> Result<(), CatalogError> {
        let created = self.persist(async || self.try_create_table(table).await).await;
        match created.map_err(CatalogError::Fault)? {
            Some(id) => {
                self.cache(table, KnownTable { id, generation: 0, retention: None, indexes: Arc::default() });
                Ok(())
            }
            None => Err(CatalogError::AlreadyExists),
        }
    }

    /// Returns `None` if a table with the same name exists.
    async fn try_create_table(&self, table: &TableKey) -> Result<Option<DatabaseTableId>, AttemptError> {
        let (account, folded) = names(table);
        let lease = self.pool.take().await?;
        if !read(&lease, statements::TABLE_BY_NAME, &[&account, &folded]).await?.is_empty() {
            lease.return_to_pool();
            return Ok(None);
        }
        control(&lease, "BEGIN").await?;
        let id = next_id(&lease).await?;
        let mut policies = Vec::new();
        policies_value::encode_to(&StoredAccessPolicies::default(), &mut policies);
        let values: &[&(dyn ToSql + Sync)] = &[&id, &account, &folded, &table.name.as_str(), &policies];
        if execute(&lease, statements::CREATE_TABLE, values).await? == 0 {
            // Another server created a table with the same name first.
            control(&lease, "ROLLBACK").await?;
            lease.return_to_pool();
            return Ok(None);
        }
        end(&lease).await?;
        lease.return_to_pool();
        Ok(Some(DatabaseTableId(id)))
    }

    pub(crate) async fn delete_table(&self, table: &TableKey) -> Result<(), CatalogError> {
        let (account, folded) = names(table);
        self.change(statements::DELETE_TABLE, &[&account, &folded]).await?;
        self.uncache(table);
        self.purges.notify_one();
        Ok(())
    }

    pub(crate) async fn set_policies(
        &self,
        table: &TableKey,
        policies: &StoredAccessPolicies,
    ) -> Result<(), CatalogError> {
        let (account, folded) = names(table);
        let mut value = Vec::new();
        policies_value::encode_to(policies, &mut value);
        self.change(statements::SET_POLICIES, &[&account, &folded, &value]).await
    }

    /// If another server changes the settings in between, applies the update to the changed settings.
    pub(crate) async fn update_settings(
        &self,
        table: &TableKey,
        update: TableSettingsUpdate,
    ) -> Result<(), CatalogError> {
        loop {
            let listed = self.look_up(table).await.map_err(CatalogError::Fault)?.ok_or(CatalogError::NotFound)?;
            let updated = listed.settings.clone().updated(update.clone());
            if updated == listed.settings {
                return Ok(());
            }
            let changed = self.persist(async || self.try_update_settings(&listed, &updated).await).await;
            self.uncache(table);
            if changed.map_err(CatalogError::Fault)? {
                self.indexing.notify_one();
                return Ok(());
            }
        }
    }

    /// Replaces the settings of a table, and adds and removes indexes accordingly. Returns `false` if the settings have
    /// changed since they were read.
    async fn try_update_settings(&self, listed: &ListedTable, updated: &TableSettings) -> Result<bool, AttemptError> {
        let lease = self.pool.take().await?;
        control(&lease, "BEGIN").await?;
        let values: &[&(dyn ToSql + Sync)] = &[&listed.id.0, &listed.generation, &settings_value::encode(updated)];
        if execute(&lease, statements::SET_SETTINGS, values).await? == 0 {
            control(&lease, "ROLLBACK").await?;
            lease.return_to_pool();
            return Ok(false);
        }
        for property in listed.settings.indexes.iter().filter(|property| !updated.indexes.contains(property)) {
            execute(&lease, statements::REMOVE_INDEX, &[&listed.id.0, &property.as_str()]).await?;
        }
        for property in updated.indexes.iter().filter(|property| !listed.settings.indexes.contains(property)) {
            let id = next_id(&lease).await?;
            execute(&lease, statements::ADD_INDEX, &[&id, &listed.id.0, &property.as_str()]).await?;
        }
        end(&lease).await?;
        lease.return_to_pool();
        Ok(true)
    }

    pub(crate) async fn indexes(&self, table: &TableKey) -> Result<Vec<IndexState>, ReadError> {
        let listed = self.look_up(table).await.map_err(ReadError::Fault)?.ok_or(ReadError::TableNotFound)?;
        let state = |property: &IndexedProperty| {
            let is_ready = listed.indexes.iter().any(|index| index.property == *property && index.is_ready);
            IndexState { property: property.clone(), is_ready }
        };
        Ok(listed.settings.indexes.iter().map(state).collect())
    }

    async fn change(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<(), CatalogError> {
        let changed = self.persist(async || self.pool.write(sql, values).await).await;
        if changed.map_err(CatalogError::Fault)? == 0 { Err(CatalogError::NotFound) } else { Ok(()) }
    }

    pub(crate) async fn get(&self, table: &TableKey, key: &EntityKey) -> Result<Option<Record>, ReadError> {
        let mut attempts = Attempts::new(&self.pool.counts);
        loop {
            let known = self.known_table(table).await.map_err(ReadError::Fault)?.ok_or(ReadError::TableNotFound)?;
            let now = self.now();
            let found = self.persist(async || self.try_get(&known, key).await).await.map_err(ReadError::Fault)?;
            let Some(found) = found else {
                self.uncache(table);
                attempts.next(AttemptError::table_changed()).await.map_err(ReadError::Fault)?;
                continue;
            };
            let Some(record) = found else { return Ok(None) };
            let view = record.view().map_err(|_| ReadError::Fault(damaged(&key.encode())))?;
            let is_visible = Expiry::new(known.retention.as_ref(), Visibility::Live, now).sees(view);
            return Ok(is_visible.then_some(record));
        }
    }

    /// The outer `None` means that the table no longer exists or has changed.
    async fn try_get(&self, table: &KnownTable, key: &EntityKey) -> Result<Option<Option<Record>>, AttemptError> {
        let (partition, row) = columns(table.id, key);
        let lease = self.pool.take_for(&partition).await?;
        let (is_current, rows) = if self.names.is_distributed {
            // Citus plans two simple statements faster than one with a join.
            self.read_of_table(&lease, table, statements::RECORD, &[&partition, &row]).await?
        } else {
            let values: &[&(dyn ToSql + Sync)] = &[&partition, &row, &table.id.0, &table.generation];
            let rows = read(&lease, statements::RECORD_OF_TABLE, values).await?;
            (!rows.is_empty(), rows)
        };
        lease.return_to_pool();
        if !is_current {
            return Ok(None);
        }
        let record = rows.first().map(|row| column(row, 0)).transpose().map_err(AttemptError::Fault)?.flatten();
        Ok(Some(record.map(Record::from_bytes)))
    }

    /// Returns the rows of a statement about entities, and whether their table still exists and has not changed. The
    /// table is checked last: if it exists then, it also existed when the entities were read, and its purge had not
    /// begun. Whether shards are being moved is checked first; if so, the result is the same as for a changed table.
    pub(crate) async fn read_of_table(
        &self,
        lease: &Lease,
        table: &KnownTable,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<(bool, Vec<Row>), AttemptError> {
        let answers = timeout(ATTEMPT_TIME_MAX, async {
            let entities = lease.prepare_cached(sql).await?;
            let table_is_current = lease.prepare_cached(&self.names.table_is_current).await?;
            let moving = prepare_moving(lease, self.names.is_distributed).await?;
            let began = monotonic::now();
            let (are_moving, entities, is_current) = tokio::join!(
                biased;
                are_moving(lease, moving.as_ref()),
                lease.query(&entities, values),
                async { lease.query_opt(&table_is_current, &[&table.id.0, &table.generation]).await },
            );
            lease.record_step(began);
            let entities = entities?;
            lease.record_rows(entities.len());
            Ok((is_current?.is_some() && !are_moving?, entities))
        });
        answers.await.map_err(|_| no_response())?.map_err(|error| AttemptError::before_commit(&error))
    }
}

/// Prepares the statement for [`are_moving`], if the entities are distributed.
pub(crate) async fn prepare_moving(lease: &Lease, is_distributed: bool) -> Result<Option<Statement>, Error> {
    if !is_distributed {
        return Ok(None);
    }
    lease.prepare_cached(statements::SHARDS_ARE_MOVING).await.map(Some)
}

/// Returns whether shards are being moved or split, so that reads must be retried.
pub(crate) async fn are_moving(lease: &Lease, statement: Option<&Statement>) -> Result<bool, Error> {
    match statement {
        Some(statement) => lease.query_one(statement, &[]).await?.try_get(0),
        None => Ok(false),
    }
}

/// Runs a write statement inside a transaction. Returns the number of changed rows.
async fn execute(lease: &Lease, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<u64, AttemptError> {
    let changed = timeout(ATTEMPT_TIME_MAX, async {
        let statement = lease.prepare_cached(sql).await?;
        lease.execute(&statement, values).await
    });
    changed.await.map_err(|_| no_response())?.map_err(|error| AttemptError::before_commit(&error))
}

/// Returns an ID for a table or an index.
async fn next_id(lease: &Lease) -> Result<i64, AttemptError> {
    let rows = read(lease, statements::NEXT_ID, &[]).await?;
    let damaged = || AttemptError::Fault(Fault::Damaged("the ID of the last table is missing".to_owned()));
    column(rows.first().ok_or_else(damaged)?, 0).map_err(AttemptError::Fault)
}

/// Reads the rows of [`statements::INDEXES_OF_TABLE`]. Returns `None` if the table does not exist or has changed.
pub(crate) fn table_indexes(rows: &[Row]) -> Result<Option<Vec<TableIndex>>, Fault> {
    if rows.is_empty() {
        return Ok(None);
    }
    let mut indexes = Vec::new();
    for row in rows {
        let (Some(id), Some(property)) = (column(row, 0)?, column::<Option<&str>>(row, 1)?) else { continue };
        indexes.push(TableIndex { id, property: indexed_property(property)?, is_ready: column(row, 2)? });
    }
    Ok(Some(indexes))
}

pub(crate) fn indexed_property(name: &str) -> Result<IndexedProperty, Fault> {
    IndexedProperty::new(name).ok_or_else(|| Fault::Damaged("the property of an index cannot be read".to_owned()))
}

fn decode_settings(bytes: &[u8]) -> Result<TableSettings, Fault> {
    let newer =
        || Fault::Damaged("the settings of a table cannot be read; perhaps a newer version wrote them".to_owned());
    settings_value::decode(bytes).ok_or_else(newer)
}

/// Returns the account and the folded name of a table as bytes, so that no collation affects their order.
fn names(table: &TableKey) -> (&[u8], &[u8]) {
    (table.account.as_str().as_bytes(), table.name.folded().as_bytes())
}
