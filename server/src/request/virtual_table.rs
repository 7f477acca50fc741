//! Tables that exist only as names: ordered views, and the tables of the change feed.

use model::{ChangesTable, OrderedView};

/// What the server offers in addition to the cloud service.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Offered {
    /// Ordered views, counts, and the other extensions of a server with extensions.
    pub(crate) extensions: bool,
    /// The change feed.
    pub(crate) changes: bool,
    /// The load of a cluster; only with extensions.
    pub(crate) load: bool,
}

/// What the name of a table in a URL means, if it is not the name of a table.
#[derive(Debug, Clone, Default)]
pub(crate) enum VirtualTable {
    /// It is the name of a table.
    #[default]
    None,
    /// Ordered views, in the order of precedence. Never empty.
    Views(Vec<OrderedView>),
    Changes(ChangesTable),
}

impl VirtualTable {
    pub(crate) fn views(&self) -> &[OrderedView] {
        match self {
            Self::Views(views) => views,
            Self::None | Self::Changes(_) => &[],
        }
    }

    pub(crate) fn changes(&self) -> Option<&ChangesTable> {
        match self {
            Self::Changes(changes) => Some(changes),
            Self::None | Self::Views(_) => None,
        }
    }
}
