//! What a move or a split of a shard must not leave behind, whether it is completed or interrupted.

use test_support::cluster::CitusCluster;
use test_support::eventually;

/// Lists the leftovers on one node.
const OF_NODE: &str = r"
    SET citus.override_table_visibility TO off;
    SELECT 'the table ' || relname FROM pg_class
    WHERE relkind = 'r' AND relname ~ '^rowhouse_.*_\d{6,}$' AND NOT EXISTS (
        SELECT FROM pg_dist_placement JOIN pg_dist_local_group USING (groupid)
        WHERE shardid = substring(relname from '\d+$')::bigint)
    UNION ALL SELECT 'the publication ' || pubname FROM pg_publication WHERE pubname LIKE 'citus_%'
    UNION ALL SELECT 'the subscription ' || subname FROM pg_subscription WHERE subname LIKE 'citus_%'
    UNION ALL SELECT 'the slot ' || slot_name FROM pg_replication_slots WHERE slot_name LIKE 'citus_%'
    UNION ALL SELECT 'the role ' || rolname FROM pg_roles WHERE rolname LIKE 'citus_%'
    UNION ALL SELECT 'the record ' || object_name FROM pg_dist_cleanup
    UNION ALL SELECT 'the transaction ' || gid FROM pg_prepared_xacts
    WHERE database = current_database() AND prepared < now() - interval '5 s'
    UNION ALL SELECT 'the wait of ' || query FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE datname = current_database() AND NOT granted AND waitstart < now() - interval '5 s'";

/// Lists what only the coordinator knows: the lock of the balancer, and parts of colocated shards that are apart.
const OF_CLUSTER: &str = "
    SELECT 'the lock of the balancer' WHERE NOT pg_try_advisory_lock(hashtextextended('rowhouse balance', 0))
    UNION ALL SELECT 'parts of ' || shardminvalue || ' in the group ' || colocationid
    FROM pg_dist_shard JOIN pg_dist_placement USING (shardid) JOIN pg_dist_partition t USING (logicalrelid)
    WHERE partmethod = 'h' GROUP BY colocationid, shardminvalue, shardmaxvalue
    HAVING count(DISTINCT groupid) > 1
        OR count(*) <> (SELECT count(*) FROM pg_dist_partition WHERE colocationid = t.colocationid)";

/// Waits until Citus has removed everything that steps needed. It does so by itself.
pub(crate) fn wait_until_nothing_is_left(cluster: &CitusCluster, database: &str) {
    let mut last = String::new();
    eventually("the removal of everything that steps needed", || {
        let mut left: String = (0..cluster.nodes()).map(|node| cluster.sql(node, database, OF_NODE)).collect();
        left += &cluster.sql(0, database, OF_CLUSTER);
        if left != last {
            println!("left: {}", left.trim().replace('\n', ", "));
            last.clone_from(&left);
        }
        left.is_empty().then_some(())
    });
}
