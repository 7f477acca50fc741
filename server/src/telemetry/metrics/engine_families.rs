//! The metrics of the engine that keeps the data.

use super::metrics_page::MetricsPage;
use std::fmt;
use store::Figures;
use store::figures::{CommitterFigures, DatabaseFigures, Refusal, TreeFigures};

pub(super) fn write(page: &mut MetricsPage<'_, '_>, figures: &Figures) -> fmt::Result {
    let help =
        "1 for the reason why writes are refused: outage (a write failed), disk_full (deletions are taken) or closed";
    page.gauge("engine_refuses_writes", help, |family| {
        let reasons = [("outage", Refusal::Outage), ("disk_full", Refusal::DiskFull), ("closed", Refusal::Closed)];
        reasons.iter().try_for_each(|(name, reason)| {
            family.value(&[("reason", *name)], u64::from(figures.refusal == Some(*reason)))
        })
    })?;
    if let Some(tables) = figures.tables {
        page.gauge("tables", "Tables of all accounts", |family| family.value(&[], tables))?;
    }
    if let Some(backlog) = figures.purge_backlog {
        let help = "Deleted tables whose entities are still to be removed in the background";
        page.gauge("purge_backlog_tables", help, |family| family.value(&[], backlog))?;
    }
    if let Some(disk) = figures.disk {
        page.gauge("disk_free_bytes", "Free space on the disk of the data folder", |family| {
            family.value(&[], disk.free_bytes)
        })?;
        let help = "Free space below which nothing but deletions is taken (--min-free-space)";
        page.gauge("disk_reserve_bytes", help, |family| family.value(&[], disk.reserve_bytes))?;
    }
    if let Some(figures) = &figures.committer {
        committer(page, figures)?;
    }
    if let Some(figures) = &figures.tree {
        tree(page, figures)?;
    }
    match &figures.database {
        Some(figures) => database(page, figures),
        None => Ok(()),
    }
}

fn committer(page: &mut MetricsPage<'_, '_>, figures: &CommitterFigures) -> fmt::Result {
    let help =
        "Requests that wait for the committer, the one thread that writes; long waits mean that the disk is slow";
    page.gauge("commit_queue_requests", help, |family| family.value(&[], figures.queue))?;
    let help = "Memory of the transactions that wait for the committer or are in its hands; writers wait at 64 MiB";
    page.gauge("commit_queue_bytes", help, |family| family.value(&[], figures.queue_bytes))?;
    let help = "Transactions that were committed; one that was refused, for instance by a condition, is not";
    page.counter("commit_transactions", help, |family| family.count(&[], figures.transactions))?;
    let help = "Bytes of keys and records that committed transactions wrote or removed";
    page.counter("commit_stored_bytes", help, |family| family.count(&[], figures.stored_bytes))?;
    let help = "Transactions of each group that was written and synced together; larger groups share a sync";
    page.histogram("commit_group_transactions", help, |family| family.spread(&[], &figures.group_transactions))?;
    page.histogram("commit_group_entities", "Entities that each group wrote or removed", |family| {
        family.spread(&[], &figures.group_entities)
    })?;
    let help = "Time to write a group to the journal and, with --durability sync, to sync it to the disk";
    page.histogram("commit_write_seconds", help, |family| family.times(&[], &figures.write_nanoseconds))?;
    let help = "Time that the committer was busy with groups, by what it did; near one second a second it is what bounds writes";
    page.counter("commit_busy_seconds", help, |family| {
        let phases = figures.busy_nanoseconds.iter();
        phases.copied().try_for_each(|(phase, nanoseconds)| {
            family.count_time(&[("phase", phase)], std::time::Duration::from_nanos(nanoseconds))
        })
    })?;
    let help = "How often writing became impossible because a write or sync had failed";
    page.counter("commit_outages", help, |family| family.count(&[], figures.outages))
}

fn tree(page: &mut MetricsPage<'_, '_>, figures: &TreeFigures) -> fmt::Result {
    let mut gauge = |name, help, value| page.gauge(name, help, |family| family.value(&[], value));
    gauge("tree_disk_bytes", "Space of sorted files and journals on the disk", figures.disk_bytes)?;
    gauge("tree_journal_bytes", "Space of the journals on the disk; a start reads them all", figures.journal_bytes)?;
    gauge("tree_journals", "Journals, the files to which commits are synced", figures.journals)?;
    gauge("tree_sorted_files", "Sorted files that hold what is in no journal any more", figures.sorted_files)?;
    gauge(
        "tree_memtable_bytes",
        "Memory of what is in the journals and in no sorted file yet",
        figures.memtable_bytes,
    )?;
    let help = "Memtables that wait to be written out as sorted files; at 3 writers wait";
    gauge("tree_flushes_waiting", help, figures.flushes_waiting)?;
    gauge("tree_cache_bytes", "Memory of cached blocks", figures.cache_bytes)?;
    gauge("tree_cache_limit_bytes", "Most memory of cached blocks (--cache-mib)", figures.cache_capacity_bytes)?;
    gauge("tree_compactions_running", "Compactions that merge sorted files right now", figures.compactions_running)?;
    gauge(
        "scans_running",
        "Pages of queries that are being read, at most one for each processor, or two",
        figures.scans_running,
    )?;
    gauge("scans_waiting", "Pages of queries that wait until others have had their turn", figures.scans_waiting)?;
    let help =
        "Blocks that were looked for in the cache: hit if they were there, miss if they had to be read from a file";
    page.counter("tree_block_reads", help, |family| {
        family.count(&[("result", "hit")], figures.cache_hits)?;
        family.count(&[("result", "miss")], figures.cache_misses)
    })?;
    page.counter("tree_compactions", "Compactions that are done", |family| family.count(&[], figures.compactions))?;
    page.counter("tree_compaction_seconds", "Time that compactions took; several may run at a time", |family| {
        family.count_time(&[], std::time::Duration::from_secs_f64(figures.compaction_seconds.max(0.0)))
    })
}

fn database(page: &mut MetricsPage<'_, '_>, figures: &DatabaseFigures) -> fmt::Result {
    let nodes = || figures.nodes.iter().map(|node| (("node", node.node.as_str()), node));
    let help = "Connections to the database, by its node and by whether a request has them";
    page.gauge("store_connections", help, |family| {
        nodes().try_for_each(|(name, node)| {
            let used = node.connections.saturating_sub(node.connections_idle);
            family.value(&[name, ("state", "in_use")], used)?;
            family.value(&[name, ("state", "idle")], node.connections_idle)
        })
    })?;
    page.gauge("store_connections_limit", "Most connections to the database (--store-connections)", |family| {
        family.value(&[], figures.connections_max)
    })?;
    page.gauge(
        "store_connections_waiting",
        "Requests that wait for a connection to a node of the database",
        |family| nodes().try_for_each(|(name, node)| family.value(&[name], node.waiting)),
    )?;
    let help = "1 if the node of the database answered when it was last asked, otherwise 0";
    page.gauge("store_node_up", help, |family| {
        nodes().try_for_each(|(name, node)| family.value(&[name], u64::from(node.is_up)))
    })?;
    let help = "Time for which requests waited for a connection, new connections included";
    page.histogram("store_connection_wait_seconds", help, |family| {
        nodes().try_for_each(|(name, node)| family.times(&[name], &node.wait_nanoseconds))
    })?;
    let help = "Time in which a node of the database answered one step of an operation: a round trip, and another one for \
                each statement that the connection had not prepared yet";
    page.histogram("store_step_seconds", help, |family| {
        nodes().try_for_each(|(name, node)| family.times(&[name], &node.step_nanoseconds))
    })?;
    let help = "Attempts that were made again by reason: conflict (somebody changed the same), timeout, or connection";
    page.counter("store_retries", help, |family| {
        figures.retries.iter().try_for_each(|(reason, count)| family.count(&[("reason", *reason)], *count))
    })
}
