//! Checks a log without changing it.

use crate::log::disk::Disk;
use crate::log::errors::OpenLogError;
use crate::log::judgement::{self, Reading, Visitor};
use crate::log::recovery::Cut;
use crate::sequence::Sequence;

/// What a log contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inspected {
    pub(crate) last: Sequence,
    /// The number of transactions in all segments, with those that are persisted elsewhere.
    pub(crate) transactions: u64,
    /// Whether the log was shut down cleanly.
    pub(crate) is_clean: bool,
    /// Where opening the log would cut off an incomplete write.
    pub(crate) cut: Option<Cut>,
}

/// Reads all segments, and passes every record after the persisted ones to `visit`. Returns `None` if there is no
/// segment. Without `persisted`, a log that ends too early may look complete.
pub(crate) fn inspect<D: Disk>(
    disk: &D,
    read_bytes: usize,
    persisted: Option<Sequence>,
    visit: Visitor<'_>,
) -> Result<Option<Inspected>, OpenLogError> {
    let judged = judgement::judge(disk, read_bytes, Reading { persisted, everything: true }, visit)?;
    Ok(judged.map(|judged| Inspected {
        last: judged.end.last,
        transactions: judged.transactions_read,
        is_clean: judged.is_clean(),
        cut: judged.cut(),
    }))
}
