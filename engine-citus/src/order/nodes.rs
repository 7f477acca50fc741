//! The nodes of a Citus cluster, and the placements of the entities, as the database knows them.

use crate::order::placements::{Placement, Placements};
use engine_postgres::parts::{LogNode, Settings};
use tokio_postgres::{Error, Row};

/// Returns the nodes of a Citus cluster.
pub(crate) const NODES: &str = "SELECT groupid, nodename, nodeport, isactive FROM pg_dist_node \
     WHERE noderole = 'primary' ORDER BY groupid";
/// Returns the placements of the entities, each with the highest number of any placement and the number of placements
/// whose number is higher than `$1`.
pub(crate) const PLACEMENTS: &str = "SELECT s.shardminvalue, s.shardmaxvalue, p.groupid, p.placementid, \
       (SELECT max(placementid) FROM pg_dist_placement), \
       (SELECT count(*) FROM pg_dist_placement WHERE placementid > $1) \
     FROM pg_dist_shard AS s JOIN pg_dist_placement AS p USING (shardid) \
     WHERE s.logicalrelid = 'rowhouse_entities'::regclass AND p.shardstate = 1";

/// Reads a row of [`NODES`].
pub(crate) fn node_from_row(row: &Row, settings: &Settings) -> Result<LogNode, Error> {
    let (host, port): (&str, i32) = (row.try_get(1)?, row.try_get(2)?);
    let settings = settings.of_node(host, u16::try_from(port).unwrap_or_default());
    Ok(LogNode { group: row.try_get(0)?, is_active: row.try_get(3)?, settings })
}

/// Reads the rows of [`PLACEMENTS`]. Returns the placements and the number of new ones, or `None` if the entities are
/// not distributed by hash with one copy of each shard.
pub(crate) fn placements_from_rows(rows: &[Row]) -> Result<Option<(Placements, i64)>, Error> {
    let (mut all, mut last, mut added) = (Vec::new(), 0, 0);
    for row in rows {
        let bound = |index| Ok(row.try_get::<_, Option<&str>>(index)?.and_then(|text| text.parse().ok()));
        let (Some(first), Some(end)) = (bound(0)?, bound(1)?) else { return Ok(None) };
        all.push(Placement { first, last: end, group: row.try_get(2)?, number: row.try_get(3)? });
        (last, added) = (row.try_get(4)?, row.try_get(5)?);
    }
    Ok(Placements::new(all, last).map(|placements| (placements, added)))
}
