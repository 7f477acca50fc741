//! Warm standbys of a server whose data is in a folder: a standby holds the same log as its primary, record by record,
//! and the same keys and values, and can take over.
//!
//! `primary` answers standbys, `follower` and `copying` are the standby, and `promotion` makes it the primary. What
//! servers decide about each other is in `decisions`. `docs/standby.md` describes the operation and the protocol.
//!
//! Invariants, in addition to the invariants of `shipping` in the engine:
//!
//! 1. A standby's log is a prefix of what its primary has on disk.
//! 2. An epoch ends with a promotion. A log that continued after it is not extended, and its folder is not followed.
//! 3. If writes wait for confirmations, only one standby's confirmations count. Its promotion therefore loses nothing
//!    that was acknowledged.
//!
//! The crate must not know the command line, nor how the engine stores anything.

mod copying;
mod decisions;
mod follower;
mod frames;
mod primary;
mod promotion;
mod protocol;
#[cfg(test)]
mod tests {
    mod standbys;
    mod takeovers;
}
mod waiting;

pub use copying::prepare_folder;
pub use follower::{Follower, FollowerSettings};
pub use primary::PrimaryService;
pub use promotion::{FormerPrimary, Promotion, promote_folder};
pub use protocol::Token;
