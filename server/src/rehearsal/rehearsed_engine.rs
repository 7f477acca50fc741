//! The engine of a server with a rehearsal: the server's own engine, with the conditions that concern its calls.

use super::{Rehearsal, is_in_request, key, note_change};
use async_trait::async_trait;
use engine::{
    BoxedSink, CatalogError, CommitError, Engine, Fault, Figures, IndexState, ReadError, Scan, ScanEnd, TableKey,
    TablePage, TableQuery,
};
use model::{AccountName, EntityKey, MutationResult, Record, Retention, ServiceProperties, ServicePropertiesUpdate};
use model::{StoredAccessPolicies, TableName, TableSettings, TableSettingsUpdate, Transaction};
use std::fmt;
use std::sync::Arc;

pub(crate) struct RehearsedEngine {
    engine: Arc<dyn Engine>,
    rehearsal: Arc<Rehearsal>,
}

impl fmt::Debug for RehearsedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RehearsedEngine").field("rehearsal", &self.rehearsal).finish_non_exhaustive()
    }
}

impl RehearsedEngine {
    pub(crate) fn new(engine: Arc<dyn Engine>, rehearsal: Arc<Rehearsal>) -> Self {
        Self { engine, rehearsal }
    }

    /// Returns the rehearsal if the call belongs to a request, and `None` if it belongs to background work.
    fn rehearsal(&self) -> Option<&Rehearsal> {
        Some(&*self.rehearsal).filter(|_| is_in_request())
    }

    /// Admits a call, which belongs to the operation that a request asks for, or refuses it as busy.
    fn admit(&self) -> Result<Option<&Rehearsal>, Fault> {
        if self.rehearsal.is_busy() { Err(Fault::Busy) } else { Ok(self.rehearsal()) }
    }

    /// Admits a call for the entities of a table, which are not available immediately after its creation.
    fn admit_entities(&self, table: &TableKey) -> Result<Option<&Rehearsal>, Fault> {
        let rehearsal = self.admit()?;
        if rehearsal.is_some_and(|of| of.refuses_as_new(table)) { Err(Fault::Busy) } else { Ok(rehearsal) }
    }
}

#[async_trait]
impl Engine for RehearsedEngine {
    async fn create_table(&self, table: &TableKey) -> Result<(), CatalogError> {
        let rehearsal = self.admit().map_err(CatalogError::Fault)?;
        let earlier = |of: &Rehearsal| of.deletions.effective_before(&key(table), of.clock.now());
        if rehearsal.and_then(earlier).is_some() {
            return Err(CatalogError::BeingDeleted);
        }
        self.engine.create_table(table).await?;
        if let Some(rehearsal) = rehearsal {
            rehearsal.creations.add(key(table), (), rehearsal.clock.now());
        }
        note_change("create table");
        Ok(())
    }

    async fn delete_table(&self, table: &TableKey) -> Result<(), CatalogError> {
        let rehearsal = self.admit().map_err(CatalogError::Fault)?;
        self.engine.delete_table(table).await?;
        if let Some(rehearsal) = rehearsal {
            rehearsal.creations.forget(&key(table));
            rehearsal.deletions.add(key(table), (), rehearsal.clock.now());
            // The policies of a table disappear immediately when it is deleted.
            rehearsal.policies.forget(&key(table));
        }
        note_change("delete table");
        Ok(())
    }

    async fn table(&self, table: &TableKey) -> Result<Option<TableName>, Fault> {
        self.admit()?;
        self.engine.table(table).await
    }

    async fn accounts(&self) -> Result<Vec<AccountName>, Fault> {
        self.admit()?;
        self.engine.accounts().await
    }

    async fn list_tables(&self, account: &AccountName, from: &str, limit: usize) -> Result<Vec<TableName>, Fault> {
        self.admit()?;
        self.engine.list_tables(account, from, limit).await
    }

    async fn count_tables(&self, account: &AccountName) -> Result<u64, Fault> {
        self.engine.count_tables(account).await
    }

    async fn table_page(&self, account: &AccountName, query: TableQuery<'_>) -> Result<TablePage, Fault> {
        let limit = match self.admit()? {
            None => query.limit,
            Some(rehearsal) => rehearsal.table_page_limit(query.limit, query.from.is_empty()),
        };
        self.engine.table_page(account, TableQuery { limit, ..query }).await
    }

    async fn policies(&self, table: &TableKey) -> Result<StoredAccessPolicies, ReadError> {
        self.admit().map_err(ReadError::Fault)?;
        self.engine.policies(table).await
    }

    /// Never refuses a call as busy, because it belongs to the check of a signature and not to the operation.
    async fn policies_in_effect(&self, table: &TableKey) -> Result<StoredAccessPolicies, ReadError> {
        match self.rehearsal().and_then(|of| of.policies.effective_before(&key(table), of.clock.now())) {
            Some(earlier) => Ok(earlier),
            None => self.engine.policies_in_effect(table).await,
        }
    }

    async fn set_policies(&self, table: &TableKey, policies: StoredAccessPolicies) -> Result<(), CatalogError> {
        let rehearsal = self.admit().map_err(CatalogError::Fault)?;
        if let Some(rehearsal) = rehearsal.filter(|rehearsal| !rehearsal.settings.policies.is_zero())
            && let Ok(current) = self.engine.policies(table).await
        {
            rehearsal.policies.add(key(table), current, rehearsal.clock.now());
        }
        self.engine.set_policies(table, policies).await.inspect(|()| note_change("set policies"))
    }

    async fn settings(&self, table: &TableKey) -> Result<TableSettings, ReadError> {
        self.admit().map_err(ReadError::Fault)?;
        self.engine.settings(table).await
    }

    async fn update_settings(&self, table: &TableKey, update: TableSettingsUpdate) -> Result<(), CatalogError> {
        self.admit().map_err(CatalogError::Fault)?;
        self.engine.update_settings(table, update).await.inspect(|()| note_change("set table settings"))
    }

    async fn tables_to_sweep(&self) -> Result<Vec<(TableKey, Retention)>, Fault> {
        self.engine.tables_to_sweep().await
    }

    async fn indexes(&self, table: &TableKey) -> Result<Vec<IndexState>, ReadError> {
        self.admit().map_err(ReadError::Fault)?;
        self.engine.indexes(table).await
    }

    async fn get(&self, table: &TableKey, key: &EntityKey) -> Result<Option<Record>, ReadError> {
        self.admit_entities(table).map_err(ReadError::Fault)?;
        self.engine.get(table, key).await
    }

    async fn scan_boxed(
        &self,
        table: &TableKey,
        scan: Scan,
        sink: BoxedSink,
    ) -> Result<(BoxedSink, ScanEnd), ReadError> {
        match self.admit_entities(table).map_err(ReadError::Fault)? {
            None => self.engine.scan_boxed(table, scan, sink).await,
            Some(rehearsal) => rehearsal.scan(&*self.engine, table, scan, sink).await,
        }
    }

    async fn commit(&self, table: &TableKey, transaction: Transaction) -> Result<Vec<MutationResult>, CommitError> {
        self.admit_entities(table).map_err(CommitError::Fault)?;
        self.engine.commit(table, transaction).await.inspect(|_| note_change("commit"))
    }

    /// Never refuses a call as busy, because the responses to all requests depend on the properties.
    fn service_properties(&self, account: &AccountName) -> Result<Arc<ServiceProperties>, Fault> {
        match self.rehearsal().and_then(|of| of.properties.effective_before(account, of.clock.now())) {
            Some(earlier) => Ok(earlier),
            None => self.engine.service_properties(account),
        }
    }

    fn set_default_properties(&self, defaults: ServiceProperties) {
        self.engine.set_default_properties(defaults);
    }

    async fn update_service_properties(
        &self,
        account: &AccountName,
        update: ServicePropertiesUpdate,
    ) -> Result<(), Fault> {
        if let Some(rehearsal) = self.admit()? {
            let current = self.engine.service_properties(account)?;
            rehearsal.properties.add(account.clone(), current, rehearsal.clock.now());
        }
        let updated = self.engine.update_service_properties(account, update).await;
        updated.inspect(|()| note_change("set service properties"))
    }

    fn figures(&self) -> Figures {
        self.engine.figures()
    }

    async fn close(&self) -> Result<(), Fault> {
        self.engine.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rehearsal::RehearsalSettings;
    use crate::test_controls::TestClock;
    use engine::Memory;
    use model::{Condition, CorsRule, CorsRules, KeyText, Mutation, RecordBuilder, StoredAccessPolicy};
    use std::time::Duration;

    struct World {
        engine: RehearsedEngine,
        clock: TestClock,
    }

    impl World {
        fn new(conditions: &str) -> Self {
            let clock = TestClock::new();
            clock.pause();
            let settings = RehearsalSettings::parse(conditions).unwrap();
            let rehearsal = Arc::new(Rehearsal::start(settings, Arc::new(clock.clone())));
            Self { engine: RehearsedEngine::new(Arc::new(Memory::for_tests(clock.clone())), rehearsal), clock }
        }

        /// Handles calls to the engine as part of a request, and returns their result, or `None` if the response to
        /// the request is lost.
        async fn request<T>(&self, calls: impl Future<Output = T>) -> Option<T> {
            self.engine.rehearsal.follow(calls).await
        }

        async fn tables(&self) -> Result<Vec<TableName>, Fault> {
            let query = TableQuery { filter: None, from: String::new(), limit: 1000 };
            self.engine.table_page(&account(), query).await.map(|page| page.tables)
        }

        /// Whether a policy is shown, and whether it is in effect.
        async fn has_policy(&self) -> (bool, bool) {
            let (shown, used) = (self.engine.policies(&table()).await, self.engine.policies_in_effect(&table()).await);
            (!shown.unwrap().is_empty(), !used.unwrap().is_empty())
        }

        fn has_rules(&self) -> bool {
            !self.engine.service_properties(&account()).unwrap().cors.is_empty()
        }
    }

    fn account() -> AccountName {
        AccountName::new("orchard").unwrap()
    }

    fn table() -> TableKey {
        TableKey { account: account(), name: TableName::new("harvest").unwrap() }
    }

    fn policies() -> StoredAccessPolicies {
        StoredAccessPolicies::new(vec![StoredAccessPolicy::new("readers").unwrap()]).unwrap()
    }

    fn rules() -> ServicePropertiesUpdate {
        let rule = CorsRule::new("*", "GET", "", "", 60).unwrap();
        ServicePropertiesUpdate {
            cors: Some(CorsRules::new(vec![rule]).unwrap()),
            ..ServicePropertiesUpdate::default()
        }
    }

    fn key() -> EntityKey {
        EntityKey { partition: KeyText::new("p").unwrap(), row: KeyText::new("r").unwrap() }
    }

    fn insert() -> Transaction {
        Transaction::single(Mutation::Insert { key: key(), properties: RecordBuilder::default() })
    }

    #[tokio::test]
    async fn background_work_meets_no_condition() {
        let world = World::new("all,busy=100%,lost-answers=100%,empty-pages=100%");
        let engine = &world.engine;
        engine.create_table(&table()).await.unwrap();
        engine.delete_table(&table()).await.unwrap();
        engine.create_table(&table()).await.unwrap();
        assert_eq!(world.tables().await.unwrap(), [table().name]);
        engine.set_policies(&table(), policies()).await.unwrap();
        engine.update_service_properties(&account(), rules()).await.unwrap();
        assert!(world.has_policy().await == (true, true) && world.has_rules());
        engine.commit(&table(), insert()).await.unwrap();
        assert!(engine.get(&table(), &key()).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn the_first_call_decides_whether_a_request_is_busy() {
        let outcomes = async |calls: usize| {
            let world = World::new("busy=50%,seed=7");
            let mut outcomes = Vec::new();
            for _ in 0..40 {
                let request = async {
                    // These calls belong to every request.
                    world.engine.service_properties(&account()).unwrap();
                    let policies = world.engine.policies_in_effect(&table()).await;
                    assert!(matches!(policies, Err(ReadError::TableNotFound)));
                    let mut answers = Vec::new();
                    for _ in 0..calls {
                        answers.push(matches!(world.engine.table(&table()).await, Err(Fault::Busy)));
                    }
                    answers.dedup();
                    answers
                };
                outcomes.push(world.request(request).await.unwrap());
            }
            outcomes
        };
        let once = outcomes(1).await;
        assert!(once.contains(&vec![true]) && once.contains(&vec![false]), "{once:?}");
        assert_eq!(outcomes(3).await, once, "a request draws once");
    }

    #[tokio::test]
    async fn a_busy_engine_does_nothing() {
        let world = World::new("busy=100%");
        let engine = &world.engine;
        engine.create_table(&table()).await.unwrap();
        let refused = async {
            assert!(matches!(engine.create_table(&table()).await, Err(CatalogError::Fault(Fault::Busy))));
            assert!(matches!(engine.delete_table(&table()).await, Err(CatalogError::Fault(Fault::Busy))));
            assert!(matches!(world.tables().await, Err(Fault::Busy)));
            assert!(matches!(engine.list_tables(&account(), "", 1).await, Err(Fault::Busy)));
            assert!(matches!(engine.policies(&table()).await, Err(ReadError::Fault(Fault::Busy))));
            let set = engine.set_policies(&table(), policies()).await;
            assert!(matches!(set, Err(CatalogError::Fault(Fault::Busy))));
            assert!(matches!(engine.get(&table(), &key()).await, Err(ReadError::Fault(Fault::Busy))));
            let committed = engine.commit(&table(), insert()).await;
            assert!(matches!(committed, Err(CommitError::Fault(Fault::Busy))));
            assert!(matches!(engine.update_service_properties(&account(), rules()).await, Err(Fault::Busy)));
        };
        world.request(refused).await.unwrap();
        assert_eq!(world.tables().await.unwrap(), [table().name]);
        assert!(world.has_policy().await == (false, false) && !world.has_rules());
        assert!(engine.get(&table(), &key()).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn only_the_response_to_a_change_is_lost() {
        let world = World::new("lost-answers=100%");
        let engine = &world.engine;
        assert!(world.request(engine.create_table(&table())).await.is_none());
        let again = world.request(engine.create_table(&table())).await;
        assert!(matches!(again, Some(Err(CatalogError::AlreadyExists))));
        assert!(world.request(engine.set_policies(&table(), policies())).await.is_none());
        assert!(world.request(engine.commit(&table(), insert())).await.is_none());
        assert!(matches!(
            world.request(engine.commit(&table(), insert())).await,
            Some(Err(CommitError::Refused(0, _)))
        ));
        assert!(world.request(engine.get(&table(), &key())).await.unwrap().unwrap().is_some());
        let deletion = Transaction::single(Mutation::Delete { key: key(), condition: Condition::Any });
        assert!(world.request(engine.commit(&table(), deletion)).await.is_none());
        assert!(world.request(engine.update_service_properties(&account(), rules())).await.is_none());
        assert!(world.request(async { world.has_rules() }).await.unwrap());
        assert!(world.request(engine.delete_table(&table())).await.is_none());
        assert!(world.request(engine.delete_table(&table())).await.unwrap().is_err());
    }

    #[tokio::test]
    async fn the_entities_of_a_new_table_are_busy() {
        let world = World::new("creation=2s");
        let engine = &world.engine;
        let work = async {
            engine.create_table(&table()).await.unwrap();
            assert!(engine.table(&table()).await.unwrap().is_some() && engine.policies(&table()).await.is_ok());
            for seconds in [0, 1] {
                world.clock.advance(Duration::from_secs(seconds));
                let committed = engine.commit(&table(), insert()).await;
                assert!(matches!(committed, Err(CommitError::Fault(Fault::Busy))));
                assert!(matches!(engine.get(&table(), &key()).await, Err(ReadError::Fault(Fault::Busy))));
            }
            world.clock.advance(Duration::from_secs(1));
            engine.commit(&table(), insert()).await.unwrap();
            // A creation that fails makes nothing busy.
            assert!(engine.create_table(&table()).await.is_err());
            assert!(engine.get(&table(), &key()).await.unwrap().is_some());
            engine.delete_table(&table()).await.unwrap();
            engine.create_table(&table()).await.unwrap();
            engine.delete_table(&table()).await.unwrap();
            assert!(matches!(engine.get(&table(), &key()).await, Err(ReadError::TableNotFound)));
        };
        world.request(work).await.unwrap();
    }

    #[tokio::test]
    async fn changes_take_effect_after_their_time() {
        let world = World::new("deletion=40s,properties=30s,policies=30s");
        let engine = &world.engine;
        let changes = async {
            engine.create_table(&table()).await.unwrap();
            engine.delete_table(&table()).await.unwrap();
            assert!(matches!(engine.create_table(&table()).await, Err(CatalogError::BeingDeleted)));
            assert!(engine.table(&table()).await.unwrap().is_none());
            world.clock.advance(Duration::from_secs(40));
            engine.create_table(&table()).await.unwrap();
            engine.set_policies(&table(), policies()).await.unwrap();
            engine.update_service_properties(&account(), rules()).await.unwrap();
            assert!(world.has_policy().await == (true, false) && !world.has_rules());
            world.clock.advance(Duration::from_secs(30));
            assert!(world.has_policy().await == (true, true) && world.has_rules());
        };
        world.request(changes).await.unwrap();
    }
}
