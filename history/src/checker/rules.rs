//! What the checker assumes, and how much it tries.

/// How Timestamps relate to the serial order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampOrder {
    /// They increase with every write of a partition, as in the engines of a single server.
    Partition,
    /// They increase with every write of an entity, even if it was deleted in between.
    Entity,
    /// They increase as long as the entity exists, as on a database that several servers share.
    Life,
}

/// What the checker assumes and how much it tries.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// How Timestamps relate to the serial order.
    pub order: StampOrder,
    /// The maximum number of states that a partition may be in at a time, according to the answers so far.
    pub configurations_max: usize,
    /// Whether violations are reduced to the operations that show them, which takes longer than finding them.
    pub explains: bool,
}

impl Rules {
    /// Creates rules with the usual bounds.
    pub fn new(order: StampOrder) -> Self {
        Self { order, configurations_max: 256, explains: true }
    }

    /// Like [`Self::new`], but a violation contains only the operation at which it was found.
    pub fn without_explanation(order: StampOrder) -> Self {
        Self { explains: false, ..Self::new(order) }
    }

    /// Returns the maximum number of states that are tried to explain one answer.
    pub(super) fn steps_max(&self) -> usize {
        self.configurations_max.saturating_mul(16)
    }

    /// Returns the number of explanations of one answer after which no more are sought.
    pub(super) fn reached_max(&self) -> usize {
        self.configurations_max.saturating_mul(4)
    }
}
