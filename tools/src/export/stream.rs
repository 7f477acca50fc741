use super::read::write_lines;
use crate::endpoints::{Query, Source};
use crate::formats::{CsvSpool, FileFormat};
use crate::terminal::is_broken_pipe;
use anyhow::Context;
use engine::TableKey;
use model::limits::PAGE_RESULTS_MAX;
use std::io::Write;
use tokio::task::block_in_place;

/// Writes JSON Lines page by page, but CSV only once all entities have been read.
pub(super) async fn export(
    source: &dyn Source,
    table: &TableKey,
    query: &Query,
    format: FileFormat,
    with_timestamps: bool,
) -> anyhow::Result<()> {
    let mut spool = match format {
        FileFormat::Jsonl => None,
        FileFormat::Csv => Some(CsvSpool::new(with_timestamps)?),
    };
    let mut next = None;
    let mut text = Vec::new();
    loop {
        let page = source.page(table, query, next.as_ref(), PAGE_RESULTS_MAX).await?;
        let has_reader = block_in_place(|| {
            if let Some(spool) = &mut spool {
                return spool.push(&page.entities).map(|()| true);
            }
            text.clear();
            write_lines(&mut text, &page.entities, with_timestamps)?;
            let mut out = std::io::stdout().lock();
            has_reader(out.write_all(&text).and_then(|()| out.flush()).context("writing to standard output"))
        })?;
        if !has_reader {
            return Ok(());
        }
        match page.next {
            None => break,
            following => next = following,
        }
    }
    match spool {
        Some(spool) => block_in_place(|| has_reader(spool.write_to(&mut std::io::stdout().lock()))).map(drop),
        None => Ok(()),
    }
}

/// A reader that stops early, as `head` does, is not an error.
fn has_reader(written: anyhow::Result<()>) -> anyhow::Result<bool> {
    match written {
        Err(error) if is_broken_pipe(&error) => Ok(false),
        result => result.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn a_reader_that_stops_early_is_no_error() {
        let failed = |kind: ErrorKind| has_reader(Err(Error::from(kind)).context("writing"));
        assert!(!failed(ErrorKind::BrokenPipe).unwrap());
        assert!(failed(ErrorKind::StorageFull).is_err());
        assert!(has_reader(Ok(())).unwrap());
    }
}
