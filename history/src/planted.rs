//! Names of bugs that a checker must find. The model store has each of them behind a switch; an engine can have the
//! same bugs behind a switch of its tests.

use std::fmt;
use std::str::FromStr;

macro_rules! planted_bugs {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A bug that breaks strict serializability.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum PlantedBug {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl PlantedBug {
            /// All bugs.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name, as in the environment of a test.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

planted_bugs! {
    /// A read returns an earlier version than was current when it was called.
    StaleRead = "stale-read",
    /// A write is visible before it is durable, and a crash removes it.
    VisibleBeforeSynced = "visible-before-synced",
    /// After files were merged, point reads return an earlier version until the entity is written again.
    StaleLookupAfterMerge = "stale-lookup-after-merge",
    /// A read returns the properties of a version with the `ETag` of the version before.
    ETagOfOtherVersion = "etag-of-other-version",
    /// A page consists of two snapshots.
    TornPage = "torn-page",
    /// A page shows a part of a transaction.
    HalfTransactionInPage = "half-transaction-in-page",
    /// A page lacks an entity of its range.
    PageOmitsEntity = "page-omits-entity",
    /// A continuation token skips an entity.
    TokenSkips = "token-skips",
    /// A continuation token repeats an entity.
    TokenRepeats = "token-repeats",
    /// A write was acknowledged before it was durable, and a crash removes it.
    LostAcknowledgedWrite = "lost-acknowledged-write",
    /// A member of a group of transactions is acknowledged but not written.
    LostGroupMember = "lost-group-member",
    /// A mutation of a transaction is acknowledged but not written.
    LostTransactionPart = "lost-transaction-part",
    /// After a restart, Timestamps begin before the last one.
    StampReusedAfterRestart = "stamp-reused-after-restart",
    /// A write has an earlier Timestamp than the version that it replaces.
    StampGoesBackwards = "stamp-goes-backwards",
    /// The condition of a write is checked on a snapshot.
    ConditionOnSnapshot = "condition-on-snapshot",
    /// A server whose slot was given to another one continues to write with the Timestamps of the slot.
    ExpiredSlotWrites = "expired-slot-writes",
    /// A merge is applied to a snapshot, so that it reverts the writes in between.
    LostUpdate = "lost-update",
    /// A merge removes a property that it does not set.
    MergeLosesProperty = "merge-loses-property",
    /// 412 although the condition is met.
    WrongConditionNotMet = "wrong-condition-not-met",
    /// 409 although no entity exists.
    WrongExists = "wrong-exists",
    /// 404 although the entity exists.
    WrongNotFound = "wrong-not-found",
    /// The wrong mutation of a transaction is said to be refused.
    WrongIndex = "wrong-index",
    /// An insert succeeds although the entity exists.
    InsertSucceedsTwice = "insert-succeeds-twice",
    /// A conditional deletion succeeds although the entity was deleted.
    DeleteSucceedsTwice = "delete-succeeds-twice",
    /// The server repeats an upsert that it has already executed.
    UpsertRepeated = "upsert-repeated",
    /// A write of unknown outcome takes effect twice.
    UnknownTakesEffectTwice = "unknown-takes-effect-twice",
    /// A write of unknown outcome takes effect after the server that executed it has ended.
    UnknownAfterBarrier = "unknown-after-barrier",
    /// A deleted entity returns.
    DeletionUndone = "deletion-undone",
    /// A refused write takes effect.
    RefusedButWritten = "refused-but-written",
    /// The mutations before the refused one take effect.
    RefusedPartlyWritten = "refused-partly-written",
    /// A write takes effect only after its answer.
    AcknowledgedBeforeVisible = "acknowledged-before-visible",
    /// The answer to a write contains a different `ETag` than reads.
    WrongETagInAnswer = "wrong-etag-in-answer",
}

impl fmt::Display for PlantedBug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PlantedBug {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|bug| bug.name() == name);
        found.copied().ok_or_else(|| format!("there is no planted bug named {name}"))
    }
}
