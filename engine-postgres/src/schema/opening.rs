//! Opens an engine: determines the kind of database, and creates, upgrades or distributes the tables, over separate
//! connections.
//!
//! On Citus, every node responds to queries, but only the coordinator changes the tables. The coordinator is contacted
//! only if something must be changed, so that a server can be started while the coordinator is down.

use crate::StoreError;
use crate::connections::dialect::Dialect;
use crate::connections::login::Login;
use crate::connections::settings::Settings;
use crate::schema::migration;
use crate::schema::names::Names;
use engine::parts::monotonic;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error};

const OPEN_TIME_MAX: Duration = Duration::from_secs(10);
const OPEN_WAIT: Duration = Duration::from_millis(500);

/// Returns the group of the contacted node. The coordinator's group is 0.
const GROUP: &str = "SELECT groupid FROM pg_dist_local_group";
const OTHERS: &str = "SELECT count(*) FROM pg_dist_node WHERE groupid <> 0";
/// Returns the address of the Citus coordinator.
pub(crate) const COORDINATOR: &str =
    "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid = 0 AND noderole = 'primary'";

/// Acquires a lock whose number must not be used for anything else.
pub const TAKE_TURNS: &str = "SELECT pg_advisory_lock(hashtextextended('rowhouse schema', 0))";

/// An unresponsive database is retried for ten seconds.
pub(crate) async fn prepare(settings: &Settings, distribute: bool) -> Result<(Dialect, Names), StoreError> {
    let (began, mut is_said) = (monotonic::now(), false);
    loop {
        match try_prepare(settings, distribute).await {
            Err(error) if error.is_transient && began.elapsed() < OPEN_TIME_MAX => {
                if !std::mem::replace(&mut is_said, true) {
                    tracing::warn!(%error, "waiting for the database");
                }
                tokio::time::sleep(OPEN_WAIT).await;
            }
            prepared => return prepared,
        }
    }
}

async fn try_prepare(settings: &Settings, distribute: bool) -> Result<(Dialect, Names), StoreError> {
    let place = &settings.place;
    let error = |error| StoreError::from_postgres(place, &error);
    let session = Session::open(settings).await?;
    let client = &session.client;
    let dialect = Dialect::detect(client, place).await?;
    if distribute && dialect != Dialect::Citus {
        return Err(StoreError::new(format!(
            "--distribute was given, but Citus is not installed in the database {place}; install it and run CREATE \
             EXTENSION citus in the database, or omit --distribute: PostgreSQL and YugabyteDB do not need it"
        )));
    }
    let is_to_be_distributed =
        dialect == Dialect::Citus && migration::is_to_be_distributed(client, distribute).await.map_err(error)?;
    let group: i32 = match dialect {
        Dialect::Citus => client.query_one(GROUP, &[]).await.and_then(|row| row.try_get(0)).map_err(error)?,
        Dialect::PostgreSql | Dialect::YugabyteDb => 0,
    };
    if group == 0 {
        change(client, dialect, is_to_be_distributed, settings).await?;
    } else if is_to_be_distributed || !migration::is_current(client).await.map_err(error)? {
        if !is_to_be_distributed && !migration::exists(client).await.map_err(error)? {
            return Err(StoreError::new(format!(
                "{place} is a Citus worker without Rowhouse tables; add --distribute, so that the tables are \
                 distributed over the nodes, or give the URL of the coordinator"
            )));
        }
        tracing::info!("creating or upgrading the tables on the Citus coordinator");
        let session = coordinator_of(client, settings).await?;
        change(&session.client, dialect, is_to_be_distributed, settings).await?;
        session.close().await;
    }
    let names = Names::query(client, dialect).await.map_err(error)?;
    if let Ok(row) = client.query_one("SHOW synchronous_commit", &[]).await
        && row.try_get(0).is_ok_and(|value: &str| value == "off")
    {
        tracing::warn!(
            "synchronous_commit is off in the database: if the database crashes, acknowledged writes may be lost"
        );
    }
    session.close().await;
    Ok((dialect, names))
}

/// Connects to the coordinator that a worker knows.
async fn coordinator_of(worker: &Client, settings: &Settings) -> Result<Session, StoreError> {
    let place = &settings.place;
    let error = |error| StoreError::from_postgres(place, &error);
    let row = worker.query_opt(COORDINATOR, &[]).await.map_err(error)?;
    let row = row.ok_or_else(|| {
        StoreError::new(format!(
            "the nodes of the database {place} do not know the Citus coordinator, which is needed to change its tables \
             or shards; on the coordinator, run SELECT citus_set_coordinator_host('HOST', PORT)"
        ))
    })?;
    let (host, port): (&str, i32) = (row.try_get(0).map_err(error)?, row.try_get(1).map_err(error)?);
    Session::open_at(settings, &settings.at(host, u16::try_from(port).unwrap_or_default())).await
}

/// Connects to the coordinator of a Citus cluster, whichever nodes the URL contains.
pub async fn on_coordinator(settings: &Settings) -> Result<Session, StoreError> {
    let error = |error| StoreError::from_postgres(&settings.place, &error);
    let session = Session::open(settings).await?;
    let group: i32 = session.client.query_one(GROUP, &[]).await.and_then(|row| row.try_get(0)).map_err(error)?;
    if group == 0 {
        return Ok(session);
    }
    let coordinator = coordinator_of(&session.client, settings).await?;
    session.close().await;
    Ok(coordinator)
}

async fn change(client: &Client, dialect: Dialect, distribute: bool, settings: &Settings) -> Result<(), StoreError> {
    let place = &settings.place;
    let error = |error| StoreError::from_postgres(place, &error);
    // A worker that has not been added yet considers itself a coordinator, and would get its own tables.
    if distribute && settings.nodes.len() > 1 {
        let others: i64 = client.query_one(OTHERS, &[]).await.and_then(|row| row.try_get(0)).map_err(error)?;
        if others == 0 {
            return Err(StoreError::transient(format!(
                "the tables cannot be distributed, because a node of the database {place} has no workers registered; \
                 first run SELECT citus_add_node('HOST', PORT) on the coordinator for each worker"
            )));
        }
    }
    if dialect != Dialect::YugabyteDb {
        // Hold the lock until the session ends, so that servers that start together take turns. If they used only table
        // locks, they could deadlock on Citus, or look for something that another server has just removed.
        client.execute(TAKE_TURNS, &[]).await.map_err(error)?;
    }
    migration::migrate(client, dialect, place).await?;
    if distribute && migration::is_to_be_distributed(client, distribute).await.map_err(error)? {
        migration::distribute(client, place).await?;
    }
    Ok(())
}

/// A connection for changes of the schema, which requests do not use.
pub struct Session {
    /// The client.
    pub client: Client,
    connection: JoinHandle<()>,
}

impl Session {
    /// Connects to the database.
    pub async fn open(settings: &Settings) -> Result<Self, StoreError> {
        Self::open_at(settings, &settings.login).await
    }

    async fn open_at(settings: &Settings, login: &Login) -> Result<Self, StoreError> {
        let connected = tokio::time::timeout(settings.connect_time_max, login.connect(settings.tls.clone())).await;
        let (client, connection) = connected
            .map_err(|_| StoreError::unreachable(&settings.place, "no response in time"))?
            .map_err(|error| StoreError::from_postgres(&settings.place, &error))?;
        let connection = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection used for opening broke");
            }
        });
        Ok(Self { client, connection })
    }

    /// Cancels the statement that is running.
    pub async fn cancel(&self, settings: &Settings) -> Result<(), Error> {
        self.client.cancel_token().cancel_query(settings.tls.clone()).await
    }

    /// Closes the connection.
    pub async fn close(self) {
        drop(self.client);
        // The connection closes when the client is dropped.
        let _ended = self.connection.await;
    }
}
