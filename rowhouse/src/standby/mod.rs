//! Warm standbys: what a primary offers to them, the standby that follows its primary, and its promotion.
//!
//! `docs/standby.md` describes the operation and the protocol.

mod copying;
mod follower;
mod primary;
mod promote;
mod protocol;
mod retry;

pub(crate) use copying::prepare_folder;
pub(crate) use follower::{Follower, FollowerSettings};
pub(crate) use primary::PrimaryService;
pub(crate) use promote::{PROMOTE_EXAMPLES, PromoteArgs, run as promote};
pub(crate) use protocol::Token;
