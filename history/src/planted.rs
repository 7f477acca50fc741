//! Bugs that a checker must find. The model store has each of them behind a switch.

macro_rules! planted_bugs {
    ($($(#[doc = $doc:literal])+ $variant:ident,)+) => {
        /// A bug that breaks strict serializability.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum PlantedBug {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl PlantedBug {
            /// All bugs.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
        }
    };
}

planted_bugs! {
    /// A read returns an earlier version than was current when it was called.
    StaleRead,
    /// A write is visible before it is durable, and a crash removes it.
    VisibleBeforeSynced,
    /// After files were merged, point reads return an earlier version until the entity is written again.
    StaleLookupAfterMerge,
    /// A read returns the properties of a version with the `ETag` of the version before.
    ETagOfOtherVersion,
    /// A page consists of two snapshots.
    TornPage,
    /// A page shows a part of a transaction.
    HalfTransactionInPage,
    /// A page lacks an entity of its range.
    PageOmitsEntity,
    /// A continuation token skips an entity.
    TokenSkips,
    /// A continuation token repeats an entity.
    TokenRepeats,
    /// A write was acknowledged before it was durable, and a crash removes it.
    LostAcknowledgedWrite,
    /// A member of a group of transactions is acknowledged but not written.
    LostGroupMember,
    /// A mutation of a transaction is acknowledged but not written.
    LostTransactionPart,
    /// After a restart, Timestamps begin before the last one.
    StampReusedAfterRestart,
    /// A write has an earlier Timestamp than the version that it replaces.
    StampGoesBackwards,
    /// The condition of a write is checked on a snapshot.
    ConditionOnSnapshot,
    /// A server whose slot was given to another one continues to write with the Timestamps of the slot.
    ExpiredSlotWrites,
    /// A merge is applied to a snapshot, so that it reverts the writes in between.
    LostUpdate,
    /// A merge removes a property that it does not set.
    MergeLosesProperty,
    /// 412 although the condition is met.
    WrongConditionNotMet,
    /// 409 although no entity exists.
    WrongExists,
    /// 404 although the entity exists.
    WrongNotFound,
    /// The wrong mutation of a transaction is said to be refused.
    WrongIndex,
    /// An insert succeeds although the entity exists.
    InsertSucceedsTwice,
    /// A conditional deletion succeeds although the entity was deleted.
    DeleteSucceedsTwice,
    /// The server repeats an upsert that it has already executed.
    UpsertRepeated,
    /// A write of unknown outcome takes effect twice.
    UnknownTakesEffectTwice,
    /// A write of unknown outcome takes effect after the server that executed it has ended.
    UnknownAfterBarrier,
    /// A deleted entity returns.
    DeletionUndone,
    /// A refused write takes effect.
    RefusedButWritten,
    /// The mutations before the refused one take effect.
    RefusedPartlyWritten,
    /// A write takes effect only after its answer.
    AcknowledgedBeforeVisible,
    /// The answer to a write contains a different `ETag` than reads.
    WrongETagInAnswer,
}
