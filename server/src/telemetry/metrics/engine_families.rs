//! The metrics of the engine that stores the data.

use super::metrics_page::MetricsPage;
use engine::figures::{ChangeLogFigures, CommitterFigures, DatabaseFigures, Refusal, ReplicationFigures, TreeFigures};
use engine::load::{Action, StepReport, StepResult};
use engine::{Figures, LoadReport};
use std::fmt;

/// The number of the hottest partitions whose shares are shown. They have no names here, because the page of a server
/// must not grow with the number of partitions that ever were among them.
const PARTITIONS_SHOWN: usize = 5;

pub(super) fn write(page: &mut MetricsPage<'_, '_>, figures: &Figures) -> fmt::Result {
    let help = "1 for the reason why writes are refused: outage (a write failed), unconfirmed (the standby is away), \
                disk_full (only deletions are accepted), fenced (a standby was promoted) or closed";
    page.gauges("engine_refuses_writes", help, |family| {
        let reasons = [
            ("outage", Refusal::Outage),
            ("unconfirmed", Refusal::Unconfirmed),
            ("disk_full", Refusal::DiskFull),
            ("fenced", Refusal::Fenced),
            ("closed", Refusal::Closed),
        ];
        reasons.iter().try_for_each(|(name, reason)| {
            family.value(&[("reason", *name)], u64::from(figures.refusal == Some(*reason)))
        })
    })?;
    if let Some(tables) = figures.tables {
        page.gauge("tables", "Number of tables in all accounts", tables)?;
    }
    if let Some(backlog) = figures.purge_backlog {
        let help = "Deleted tables whose entities have not been removed in the background yet";
        page.gauge("purge_backlog_tables", help, backlog)?;
    }
    if let Some(disk) = figures.disk {
        page.gauge("disk_free_bytes", "Free space on the disk of the data folder", disk.free_bytes)?;
        let help = "Free space below which only deletions are accepted (--min-free-space)";
        page.gauge("disk_reserve_bytes", help, disk.reserve_bytes)?;
    }
    if let Some(figures) = &figures.change_log {
        change_log(page, figures)?;
    }
    if let Some(figures) = &figures.replication {
        replication(page, figures)?;
    }
    if let Some(figures) = &figures.committer {
        committer(page, figures)?;
    }
    if let Some(figures) = &figures.tree {
        tree(page, figures)?;
    }
    let Some(figures) = &figures.database else { return Ok(()) };
    database(page, figures)?;
    match &figures.load {
        Some(report) => load(page, report),
        None => Ok(()),
    }
}

fn change_log(page: &mut MetricsPage<'_, '_>, figures: &ChangeLogFigures) -> fmt::Result {
    let help = "Size of the log that is kept only for readers (--keep-log)";
    page.gauge("change_log_bytes", help, figures.bytes)?;
    page.gauge("change_log_first_position", "Position of the oldest change that can be read", figures.first)?;
    page.gauge("change_log_next_position", "Position after the last change", figures.next)?;
    if let Some(bytes) = figures.undecoded_bytes {
        let help = "Size of the database's own log that this server has not decoded yet";
        page.gauge("change_log_undecoded_bytes", help, bytes)?;
    }
    let Some(oldest) = figures.oldest else { return Ok(()) };
    let help = "Unix time of the oldest change that is kept only for readers; it is missing as long as there is none";
    page.gauge("change_log_oldest_seconds", help, oldest.unix_seconds().unsigned_abs())
}

fn replication(page: &mut MetricsPage<'_, '_>, figures: &ReplicationFigures) -> fmt::Result {
    page.gauge("replication_epoch", "Number of the epoch, which increases with each promotion", figures.epoch)?;
    if let Some(standbys) = figures.standbys {
        page.gauge("replication_standbys", "Standbys that are connected to this primary", standbys)?;
    }
    let help = "1 if writes wait for a connected standby with everything acknowledged; on a standby, for this one";
    page.gauge("replication_awaited", help, u64::from(figures.is_awaited))?;
    let help = "1 on a standby that can never follow its primary again, and must begin again with an empty folder";
    page.gauge("replication_cut_off", help, u64::from(figures.is_cut_off))?;
    if let Some(lag) = figures.lag_transactions {
        let help = "Transactions that the standby does not have yet; on a primary, the standby that lacks most";
        page.gauge("replication_lag_transactions", help, lag)?;
    }
    let Some(lag) = figures.lag_milliseconds else { return Ok(()) };
    page.gauge("replication_lag_seconds", "Time since this standby had all writes of its primary", lag / 1000)
}

fn committer(page: &mut MetricsPage<'_, '_>, figures: &CommitterFigures) -> fmt::Result {
    let help = "Requests waiting for the committer, the only thread that writes; long waits mean that the disk is slow";
    page.gauge("commit_queue_requests", help, figures.queue)?;
    let help =
        "Memory of the transactions that are waiting for the committer or being committed; at 64 MiB, writers wait";
    page.gauge("commit_queue_bytes", help, figures.queue_bytes)?;
    let help = "Committed transactions; those refused, for instance because of a condition, are not counted";
    page.counter("commit_transactions", help, figures.transactions)?;
    let help = "Bytes of keys and records that committed transactions wrote or removed";
    page.counter("commit_stored_bytes", help, figures.stored_bytes)?;
    let help = "Transactions in each group that was written and synced together; larger groups need fewer syncs";
    page.histogram("commit_group_transactions", help, |family| family.histogram(&[], &figures.group_transactions))?;
    page.histogram("commit_group_entities", "Entities that each group wrote or removed", |family| {
        family.histogram(&[], &figures.group_entities)
    })?;
    let help = "Time to write a group to the log and, with --durability sync, to sync it to the disk";
    page.histogram("commit_write_seconds", help, |family| family.histogram_seconds(&[], &figures.write_nanoseconds))?;
    let help = "Time that the committer spent on groups, by phase; if it is close to one second per second, the committer is the bottleneck for writes";
    page.counters("commit_busy_seconds", help, |family| {
        let phases = figures.busy_nanoseconds.iter();
        phases.copied().try_for_each(|(phase, nanoseconds)| {
            family.count_seconds(&[("phase", phase)], std::time::Duration::from_nanos(nanoseconds))
        })
    })?;
    let help = "Number of times that writes became impossible because a write or sync failed";
    page.counter("commit_outages", help, figures.outages)
}

fn tree(page: &mut MetricsPage<'_, '_>, figures: &TreeFigures) -> fmt::Result {
    page.gauge("tree_disk_bytes", "Disk space used by sorted files and the log", figures.disk_bytes)?;
    let help = "Disk space used by the log, to which commits are synced, with segments that wait for reuse";
    page.gauge("log_bytes", help, figures.log_bytes)?;
    page.gauge("log_segments", "Number of live segments of the log; all are read at startup", figures.log_segments)?;
    page.gauge("tree_sorted_files", "Number of sorted files", figures.sorted_files)?;
    page.gauge(
        "tree_memtable_bytes",
        "Memory of data that is in the log but not yet in a sorted file",
        figures.memtable_bytes,
    )?;
    let help = "Memtables waiting to be flushed to sorted files; if there is one and the next is full, writers wait";
    page.gauge("tree_flushes_waiting", help, figures.flushes_waiting)?;
    page.gauge("tree_cache_bytes", "Memory of cached blocks", figures.cache_bytes)?;
    page.gauge(
        "tree_cache_limit_bytes",
        "Maximum memory for cached blocks (--cache-mib)",
        figures.cache_capacity_bytes,
    )?;
    page.gauge(
        "tree_compactions_running",
        "Compactions in progress, which merge sorted files",
        figures.compactions_running,
    )?;
    page.gauge(
        "scans_running",
        "Query pages being read; the maximum is one per processor, but at least two",
        figures.scans_running,
    )?;
    page.gauge(
        "scans_waiting",
        "Query pages that were suspended and are waiting for their next turn",
        figures.scans_waiting,
    )?;
    let help = "Block lookups in the cache, by result: hit (found in the cache) or miss (read from a file)";
    page.counters("tree_block_reads", help, |family| {
        family.count(&[("result", "hit")], figures.cache_hits)?;
        family.count(&[("result", "miss")], figures.cache_misses)
    })?;
    let help =
        "1 while single entities are read on blocking threads, because several recent reads had to wait for the disk";
    page.gauge("entity_reads_moved", help, u64::from(figures.reads.are_moved))?;
    let help = "Reads of single entities and of small pages, for gets, queries and writes, by thread: request (the thread of the request) or blocking (a thread that may wait for the disk)";
    page.counters("entity_reads", help, |family| {
        family.count(&[("thread", "request")], figures.reads.in_place)?;
        family.count(&[("thread", "blocking")], figures.reads.moved)
    })?;
    let help = "Reads of single entities and of small pages that loaded blocks and took at least 0.25 ms";
    page.counter("entity_reads_slow", help, figures.reads.slow)?;
    page.counter("tree_compactions", "Completed compactions", figures.compactions)?;
    page.counters("tree_compaction_seconds", "Total duration of compactions", |family| {
        family.count_seconds(&[], std::time::Duration::from_secs_f64(figures.compaction_seconds.max(0.0)))
    })
}

fn database(page: &mut MetricsPage<'_, '_>, figures: &DatabaseFigures) -> fmt::Result {
    let nodes = || figures.nodes.iter().map(|node| (("node", node.node.as_str()), node));
    let help = "Connections to the database, by node and by state: in_use (by a request) or idle";
    page.gauges("store_connections", help, |family| {
        nodes().try_for_each(|(name, node)| {
            let used = node.connections.saturating_sub(node.connections_idle);
            family.value(&[name, ("state", "in_use")], used)?;
            family.value(&[name, ("state", "idle")], node.connections_idle)
        })
    })?;
    page.gauge(
        "store_connections_limit",
        "Maximum number of connections to the database (--store-connections)",
        figures.connections_max,
    )?;
    page.gauges("store_connections_waiting", "Requests waiting for a connection to a database node", |family| {
        nodes().try_for_each(|(name, node)| family.value(&[name], node.waiting))
    })?;
    let help = "1 if the database node responded to the last attempt to reach it, otherwise 0";
    page.gauges("store_node_up", help, |family| {
        nodes().try_for_each(|(name, node)| family.value(&[name], u64::from(node.is_up)))
    })?;
    let help = "Time that requests waited for a connection, including the time to open new ones";
    page.histogram("store_connection_wait_seconds", help, |family| {
        nodes().try_for_each(|(name, node)| family.histogram_seconds(&[name], &node.wait_nanoseconds))
    })?;
    let help = "Response time of a database node for one step of an operation: one round trip, plus one for \
                each statement that the connection had not prepared yet";
    page.histogram("store_step_seconds", help, |family| {
        nodes().try_for_each(|(name, node)| family.histogram_seconds(&[name], &node.step_nanoseconds))
    })?;
    let help = "Attempts that were retried, by reason: conflict (with a concurrent change), timeout, or connection";
    page.counters("store_retries", help, |family| {
        figures.retries.iter().try_for_each(|(reason, count)| family.count(&[("reason", *reason)], *count))
    })
}

/// The load of a cluster. Every server shows the load that all servers measured.
fn load(page: &mut MetricsPage<'_, '_>, report: &LoadReport) -> fmt::Result {
    let nodes = || report.nodes.iter().map(|node| ([("node", node.name.as_str())], node));
    let help = "Servers that measured the load of the cluster in the last 30 seconds";
    page.gauge("cluster_servers", help, report.servers as u64)?;
    let help = "Estimated processor time that the requests of all servers need on a node, in seconds per second";
    page.gauges("cluster_node_load", help, |family| {
        nodes().try_for_each(|(name, node)| family.gauge_f64(&name, node.load.load))
    })?;
    let help = "Time that the requests of all servers waited for a node, in seconds per second";
    page.gauges("cluster_node_waiting", help, |family| {
        nodes().try_for_each(|(name, node)| family.gauge_f64(&name, node.load.waiting))
    })?;
    page.gauges("cluster_node_shards", "Shards of the entities on a node", |family| {
        nodes().try_for_each(|(name, node)| family.value(&name, node.shards as u64))
    })?;
    if let Some(imbalance) = report.imbalance() {
        let help = "Load of the hottest node, divided by the average of the nodes that may have shards";
        page.gauges("cluster_imbalance_ratio", help, |family| family.gauge_f64(&[], imbalance))?;
    }
    let help = "Share of the load of the cluster that the hottest partitions have, by rank";
    page.gauges("cluster_partition_share", help, |family| {
        let mut ranked = (1..).zip(report.partition_shares().take(PARTITIONS_SHOWN));
        ranked.try_for_each(|(rank, share): (usize, _)| family.gauge_f64(&[("rank", &rank.to_string())], share))
    })?;
    let help = "1 for what would be done about the load now: nothing, because there is little load (idle), only one node \
                (one_node), or no large difference (even), or because no step would help (stuck); or to move or split a \
                shard";
    page.gauges("balance_advice", help, |family| {
        let actions = [
            ("idle", Action::Idle),
            ("one_node", Action::OneNode),
            ("even", Action::Even),
            ("stuck", Action::Stuck),
            ("move", Action::Move),
            ("split", Action::Split),
        ];
        actions
            .iter()
            .try_for_each(|(name, action)| family.value(&[("advice", *name)], u64::from(report.action == *action)))
    })?;
    let help = "Moves and splits of shards that began in the last 24 hours, by result: completed, failed, or unfinished \
                (running, or interrupted)";
    page.gauges("balance_steps", help, |family| {
        let name = |step: &StepReport| match step.result() {
            StepResult::Completed { .. } => "completed",
            StepResult::Failed(_) => "failed",
            StepResult::Unfinished => "unfinished",
        };
        let count = |result| report.steps.iter().filter(|step| name(step) == result).count() as u64;
        let results = ["completed", "failed", "unfinished"];
        results.iter().try_for_each(|result| family.value(&[("result", *result)], count(*result)))
    })?;
    let Some(last) = report.steps.last() else { return Ok(()) };
    let help = "Unix time when the last of these steps began; it is missing as long as there is none";
    page.gauge("balance_last_step_timestamp_seconds", help, last.began)
}
