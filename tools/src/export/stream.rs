//! Exports into a pipe.

use super::read::write_lines;
use crate::endpoints::Place;
use crate::formats::{FileFormat, Spool};
use anyhow::Context;
use client::Query;
use model::limits::PAGE_RESULTS_MAX;
use std::io::{Error, ErrorKind, Write};
use store::TableKey;
use tokio::task::block_in_place;

/// Writes the entities of a table: JSON lines as they come, CSV when all are there.
pub(super) async fn export(
    place: &dyn Place,
    table: &TableKey,
    query: &Query,
    format: FileFormat,
    with_timestamps: bool,
) -> anyhow::Result<()> {
    let mut spool = match format {
        FileFormat::Jsonl => None,
        FileFormat::Csv => Some(Spool::new(with_timestamps)?),
    };
    let mut next = None;
    let mut text = Vec::new();
    loop {
        let page = place.page(table, query, next.as_ref(), PAGE_RESULTS_MAX).await?;
        let is_wanted = block_in_place(|| {
            if let Some(spool) = &mut spool {
                return spool.push(&page.entities).map(|()| true);
            }
            text.clear();
            write_lines(&mut text, &page.entities, with_timestamps)?;
            let mut out = std::io::stdout().lock();
            is_read(out.write_all(&text).and_then(|()| out.flush()).context("writing to standard output"))
        })?;
        if !is_wanted {
            return Ok(());
        }
        match page.next {
            None => break,
            following => next = following,
        }
    }
    match spool {
        Some(spool) => block_in_place(|| is_read(spool.write_to(&mut std::io::stdout().lock()))).map(drop),
        None => Ok(()),
    }
}

/// Whether somebody still reads what was written: to stop reading, as head does, is no error.
fn is_read(written: anyhow::Result<()>) -> anyhow::Result<bool> {
    match written {
        Err(error) if error.downcast_ref::<Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) => {
            Ok(false)
        }
        result => result.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stops_reading_ends_an_export_well() {
        let failed = |kind: ErrorKind| is_read(Err(Error::from(kind)).context("writing"));
        assert!(!failed(ErrorKind::BrokenPipe).unwrap());
        assert!(failed(ErrorKind::StorageFull).is_err());
        assert!(is_read(Ok(())).unwrap());
    }
}
