//! Decodes the database's own log into the change log. One server does: the one that reads the replication slot, which
//! the database gives to one connection at a time.
//!
//! A server that took over while the former one still stores what it decoded stores nothing twice: each step is stored
//! only if the log is as the server last saw it. Otherwise, the server starts again from what is stored.

use crate::StoreError;
use crate::changes::pgoutput::Message;
use crate::changes::setup;
use crate::changes::transactions::{Assembler, Decoded, Scope, TableChange};
use crate::connections::attempt::{AttemptError, jittered};
use crate::connections::dialect::Dialect;
use crate::connections::replication::{Replication, ReplicationError, SILENCE_MAX, StreamMessage};
use crate::connections::rows::{column, read};
use crate::connections::settings::Settings;
use crate::log_state::LogState;
use crate::slot::CHANGES_LEASE;
use crate::state::PostgresState;
use engine::parts::monotonic;
use engine::{Fault, KeptChanges};
use model::{Clock, DateTime};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use tokio_postgres::types::ToSql;

/// The pause before a server checks again whether the log is being decoded.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The interval at which the lease is renewed, which shows that the log is being decoded.
const RENEWAL: Duration = Duration::from_secs(3);
/// The interval at which the database is told what has been stored.
const CONFIRMATION: Duration = Duration::from_secs(1);
/// The time without a message after which the database is asked to respond.
const SILENCE: Duration = Duration::from_secs(10);
/// The amounts that are stored at once, unless a single transaction is larger.
const STEP_BYTES_MAX: usize = 1 << 20;
const STEP_TRANSACTIONS_MAX: usize = 1000;
/// The approximate size of a row without its changes.
pub(crate) const ROW_BYTES: i64 = 64;

/// Returns the log, whether its slot exists and is complete, the process that reads the slot, and whether the server
/// that did so has not renewed its lease for half a minute.
const STATUS: &str = "SELECT l.name, l.decoded, l.is_ready AND s.slot_name IS NOT NULL \
     AND coalesce(s.wal_status <> 'lost', false), CASE WHEN s.active THEN s.active_pid END, \
     EXISTS (SELECT FROM rowhouse_leases WHERE number = $1 AND renewed < now() - interval '30 s') \
     FROM rowhouse_change_log AS l \
     LEFT JOIN pg_replication_slots AS s ON s.slot_name = l.name AND s.database = current_database()";
const END_READER: &str = "SELECT pg_terminate_backend($1)";
/// Returns the end of the database's own log.
const TAKE_LEASE: &str = "UPDATE rowhouse_leases SET holder = $2, renewed = now() WHERE number = $1 \
     RETURNING (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint";
/// Returns how far the log has been decoded, and the tables that existed then. Without tables, returns a row with
/// nulls.
const STORED: &str = "SELECT l.next, l.time, l.decoded, t.id, t.account, t.name FROM rowhouse_change_log AS l \
     LEFT JOIN rowhouse_change_tables AS t ON true WHERE l.name = $1 AND l.is_ready";
/// Stores transactions if the log `$1` ends before the position `$2`, and announces them. `$7` is the time of the last
/// transaction, `$8` how far the log has been decoded, and `$9` the size of the transactions. `$10` to `$12` are tables
/// that were created, and `$13` those that were deleted.
pub(crate) const STORE: &str = "WITH log AS (UPDATE rowhouse_change_log SET next = next + cardinality($3::bigint[]), \
       time = $7, decoded = $8, bytes = bytes + $9 WHERE name = $1 AND next = $2 AND is_ready \
       RETURNING first, next), \
     added AS (INSERT INTO rowhouse_changes (position, time, account, name, changes) \
       SELECT $2 + n.at - 1, n.time, n.account, n.name, n.changes FROM log, \
       unnest($3::bigint[], $4::text[], $5::text[], $6::bytea[]) WITH ORDINALITY AS n (time, account, name, changes, at)), \
     created AS (INSERT INTO rowhouse_change_tables (id, account, name) SELECT n.id, n.account, n.name FROM log, \
       unnest($10::bigint[], $11::text[], $12::text[]) AS n (id, account, name)), \
     deleted AS (DELETE FROM rowhouse_change_tables WHERE id = ANY($13::bigint[]) AND EXISTS (SELECT FROM log)) \
     SELECT first, next, pg_notify('rowhouse_changes', '') FROM log";

/// The reason why decoding stopped.
#[derive(Debug)]
enum DecodeError {
    Closed,
    Database(String),
}

impl From<AttemptError> for DecodeError {
    fn from(error: AttemptError) -> Self {
        match error {
            AttemptError::Fault(Fault::Closed) => Self::Closed,
            AttemptError::Fault(fault) => Self::Database(fault.to_string()),
            AttemptError::Retry(reason) | AttemptError::RetryElsewhere(reason) => Self::Database(reason.to_string()),
        }
    }
}

impl From<Fault> for DecodeError {
    fn from(fault: Fault) -> Self {
        Self::from(AttemptError::Fault(fault))
    }
}

impl From<ReplicationError> for DecodeError {
    fn from(error: ReplicationError) -> Self {
        Self::Database(error.to_string())
    }
}

impl From<StoreError> for DecodeError {
    fn from(error: StoreError) -> Self {
        Self::Database(error.to_string())
    }
}

/// Decodes until the engine is closed, whenever no other server does.
pub(crate) async fn decode_changes<C: Clock>(shared: Arc<PostgresState<C>>, settings: Settings, log: Arc<LogState>) {
    let mut is_reported = false;
    loop {
        let ended = shared.decode_if_free(&settings, &log).await;
        log.set_decoding(false);
        match ended {
            Ok(()) => is_reported = false,
            Err(DecodeError::Closed) => return,
            Err(DecodeError::Database(error)) => {
                if !std::mem::replace(&mut is_reported, true) {
                    tracing::warn!(error, "the change log cannot be decoded at the moment; this will be retried");
                }
            }
        }
        sleep(jittered(CHECK_INTERVAL)).await;
    }
}

/// What is stored in the log.
struct Stored {
    next: i64,
    time: DateTime,
    decoded: u64,
    tables: HashMap<i64, Arc<Scope>>,
}

impl<C: Clock> PostgresState<C> {
    /// Returns without an error if another server decodes.
    async fn decode_if_free(&self, settings: &Settings, log: &LogState) -> Result<(), DecodeError> {
        let rows = match self.pool.read(STATUS, &[&CHANGES_LEASE]).await {
            Err(AttemptError::Fault(Fault::Closed)) => return Err(DecodeError::Closed),
            // The log may have been removed.
            status => status.unwrap_or_default(),
        };
        let Some(row) = rows.first().filter(|row| column::<bool>(row, 2).unwrap_or(false)) else {
            return Ok(setup::prepare(settings, Dialect::PostgreSql).await?);
        };
        let (name, decoded) = (column::<String>(row, 0)?, column::<i64>(row, 1)?.cast_unsigned());
        if let Some(reader) = column::<Option<i32>>(row, 3)? {
            if column::<bool>(row, 4)? {
                tracing::info!("the server that decoded the change log does not respond; another one continues");
                self.pool.read(END_READER, &[&reader]).await?;
            }
            return Ok(());
        }
        // Even if decoding fails, the log is in use.
        self.pool.read(TAKE_LEASE, &[&CHANGES_LEASE, &self.holder]).await?;
        let mut stream = Replication::open(settings).await?;
        match stream.start(&name, decoded).await {
            // Another server was faster.
            Err(ReplicationError::Refused { code, .. }) if code == "55006" => return Ok(()),
            started => started?,
        }
        log.note_undecoded(0);
        log.set_decoding(true);
        tracing::debug!(slot = name, "this server decodes the change log");
        let Some(mut stored) = self.stored(&name).await? else { return Ok(()) };
        let mut assembler = Assembler::new(std::mem::take(&mut stored.tables), stored.decoded);
        self.decode(&name, &mut stream, &mut stored, &mut assembler, log).await
    }

    /// Returns `None` if there is another log now.
    async fn stored(&self, name: &str) -> Result<Option<Stored>, DecodeError> {
        let rows = self.pool.read(STORED, &[&name]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut tables = HashMap::new();
        for row in &rows {
            if let Some(id) = column::<Option<i64>>(row, 3)? {
                let scope = Scope { account: column(row, 4)?, table: Some(column(row, 5)?) };
                tables.insert(id, Arc::new(scope));
            }
        }
        let time = DateTime::from_ticks(column(row, 1)?).unwrap_or(DateTime::MIN);
        let decoded = column::<i64>(row, 2)?.cast_unsigned();
        Ok(Some(Stored { next: column(row, 0)?, time, decoded, tables }))
    }

    async fn decode(
        &self,
        name: &str,
        stream: &mut Replication,
        stored: &mut Stored,
        assembler: &mut Assembler,
        log: &LogState,
    ) -> Result<(), DecodeError> {
        // The position up to which everything is stored or has no changes.
        let mut settled = stored.decoded;
        let (mut confirmed, mut confirmed_at) = (0, monotonic::now());
        let (mut heard_at, mut renewed_at) = (monotonic::now(), monotonic::now());
        let mut asked_at: Option<Instant> = None;
        loop {
            let (mut is_response_due, mut is_step_full) = (false, false);
            while let Some(message) = stream.next()? {
                match message {
                    StreamMessage::Data(payload) => {
                        let message = Message::parse(&payload);
                        let applied = message.as_ref().and_then(|message| assembler.apply(message).ok());
                        applied.ok_or_else(|| {
                            DecodeError::Database("a message of the database's log cannot be read".to_owned())
                        })?;
                    }
                    StreamMessage::KeepAlive { end, is_response_expected } => {
                        is_response_due |= is_response_expected;
                        // Everything before this position has been received.
                        if !assembler.is_within_transaction() && assembler.decoded().transactions.is_empty() {
                            settled = settled.max(end);
                        }
                    }
                }
                let decoded = assembler.decoded();
                if decoded.bytes >= STEP_BYTES_MAX || decoded.transactions.len() >= STEP_TRANSACTIONS_MAX {
                    is_step_full = true;
                    break;
                }
            }
            if !assembler.is_within_transaction() || !assembler.decoded().transactions.is_empty() {
                let decoded = assembler.take();
                settled = settled.max(decoded.end);
                if !decoded.transactions.is_empty() && !self.store(name, stored, decoded, log).await? {
                    // Another server has stored something.
                    return Ok(());
                }
            }
            let is_silent = heard_at.elapsed() >= SILENCE && asked_at.is_none_or(|at| at.elapsed() >= SILENCE);
            let is_due = settled > confirmed && confirmed_at.elapsed() >= CONFIRMATION;
            if is_response_due || is_silent || is_due {
                stream.confirm(settled, is_silent).await?;
                (confirmed, confirmed_at) = (settled, monotonic::now());
                asked_at = is_silent.then(monotonic::now).or(asked_at);
            }
            if renewed_at.elapsed() >= RENEWAL {
                let rows = self.pool.read(TAKE_LEASE, &[&CHANGES_LEASE, &self.holder]).await?;
                let end = rows.first().map_or(Ok(0), |row| column::<i64>(row, 0))?.cast_unsigned();
                log.note_undecoded(end.saturating_sub(settled));
                renewed_at = monotonic::now();
            }
            if is_step_full {
                continue;
            }
            match timeout(CONFIRMATION, stream.fill()).await {
                Ok(filled) => {
                    filled?;
                    heard_at = monotonic::now();
                }
                Err(_) if heard_at.elapsed() >= SILENCE_MAX => {
                    return Err(DecodeError::Database("the database stopped sending its log".to_owned()));
                }
                Err(_) => {}
            }
        }
    }

    /// Returns false if the log is not as this server last saw it. Nothing is stored then.
    async fn store(
        &self,
        name: &str,
        stored: &mut Stored,
        decoded: Decoded,
        log: &LogState,
    ) -> Result<bool, DecodeError> {
        let (mut times, mut accounts, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let (mut changes, mut bytes): (Vec<&[u8]>, i64) = (Vec::new(), 0);
        for transaction in &decoded.transactions {
            // The clocks of servers differ, but the log is ordered by time.
            stored.time = stored.time.max(transaction.time);
            times.push(stored.time.ticks());
            accounts.push(transaction.scope.account.as_str());
            names.push(transaction.scope.table.as_deref());
            changes.push(&transaction.changes);
            bytes += ROW_BYTES + i64::try_from(transaction.changes.len()).unwrap_or(i64::MAX / 2);
        }
        let (mut created, mut created_accounts, mut created_names) = (Vec::new(), Vec::new(), Vec::new());
        let mut deleted = Vec::new();
        for (id, change) in &decoded.tables {
            match change {
                TableChange::Created(scope) => {
                    created.push(*id);
                    created_accounts.push(scope.account.as_str());
                    created_names.push(scope.table.as_deref());
                }
                TableChange::Deleted => deleted.push(*id),
            }
        }
        let (next, time, end) = (stored.next, stored.time.ticks(), decoded.end.cast_signed());
        let values: [&(dyn ToSql + Sync); 13] = [
            &name,
            &next,
            &times,
            &accounts,
            &names,
            &changes,
            &time,
            &end,
            &bytes,
            &created,
            &created_accounts,
            &created_names,
            &deleted,
        ];
        let lease = self.pool.take().await?;
        let rows = read(&lease, STORE, &values).await?;
        lease.return_to_pool();
        let Some(row) = rows.first() else { return Ok(false) };
        let kept = KeptChanges {
            first: column::<i64>(row, 0)?.try_into().unwrap_or(0),
            next: column::<i64>(row, 1)?.try_into().unwrap_or(0),
        };
        log.note(kept);
        (stored.next, stored.decoded) = (column(row, 1)?, decoded.end);
        Ok(true)
    }
}
