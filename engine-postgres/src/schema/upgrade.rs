//! Collects the information about entities that a schema upgrade needs, in bounded steps, before the tables are
//! changed.
//!
//! The stamps of schema 3 start after all stamps of earlier versions. Since schema 2, each table has an upper bound of
//! its stamps, except for tables that have not been written to since schema 1. The upgrade reads the entities of these
//! tables once. The result is stored table by table, so an interrupted upgrade continues with the next table.

use model::RecordView;
use model::key::KEY_SEPARATOR;
use model::record::HEADER_BYTES;
use tokio_postgres::{Client, Error};

const STEP_ENTITIES: i64 = 10_000;

const TABLES_WITHOUT_BOUND: &str = "SELECT id FROM rowhouse_tables WHERE stamp_ceiling = 0 ORDER BY id";
const SOME_HEADERS: &str = "SELECT partition, row, substring(record FROM 1 FOR $5) FROM rowhouse_entities \
     WHERE (partition, row) >= ($1, $2) AND partition < $3 ORDER BY partition, row LIMIT $4";
const SET_BOUND: &str = "UPDATE rowhouse_tables SET stamp_ceiling = $2 WHERE id = $1 AND stamp_ceiling = 0";

/// Stores an upper bound of its stamps for every table that has none.
pub(crate) async fn bound_stamps(client: &Client) -> Result<(), Error> {
    for table in client.query(TABLES_WITHOUT_BOUND, &[]).await? {
        let id: i64 = table.try_get(0)?;
        let bound = bound_of(client, id).await?;
        client.execute(SET_BOUND, &[&id, &bound]).await?;
        tracing::info!(table = id, "read the Timestamps of a table for the schema upgrade");
    }
    Ok(())
}

/// Returns 1 if the table has no entities.
async fn bound_of(client: &Client, id: i64) -> Result<i64, Error> {
    let header_bytes = i32::try_from(HEADER_BYTES).expect("the header is short");
    let (mut bound, end) = (1, (id + 1).to_be_bytes());
    let mut last = (id.to_be_bytes().to_vec(), Vec::new());
    loop {
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&last.0, &last.1, &end.as_slice(), &STEP_ENTITIES, &header_bytes];
        let rows = client.query(SOME_HEADERS, &values).await?;
        for row in &rows {
            // A damaged record has no Timestamp, so none that could be issued again.
            if let Ok(record) = RecordView::new(row.try_get(2)?) {
                bound = bound.max(record.timestamp().ticks() + 1);
            }
        }
        match rows.last() {
            Some(row) if i64::try_from(rows.len()) == Ok(STEP_ENTITIES) => {
                let row_key: Vec<u8> = row.try_get(1)?;
                // No row key contains this byte, so this is the next possible row key.
                last = (row.try_get(0)?, [row_key.as_slice(), &[KEY_SEPARATOR]].concat());
            }
            _ => return Ok(bound),
        }
    }
}
