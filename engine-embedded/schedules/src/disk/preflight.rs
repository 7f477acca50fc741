//! The types of the engine's module, which checks files before they are opened. Here, there are none to check.

#[derive(Debug, Clone, Copy)]
pub(crate) enum IncompleteWrites {
    LastBatch,
    Everything,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Acknowledged {
    UpTo(Option<u64>),
    Unknown,
}
