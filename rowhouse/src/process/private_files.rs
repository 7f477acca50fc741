//! What the process creates is private.

use rustix::fs::Mode;
use rustix::process::umask;

/// Takes every permission of the group and of others from all files and folders that are created from now on, also by
/// libraries. What the caller of the program took away stays away.
pub(crate) fn begin() {
    let private = Mode::RWXG | Mode::RWXO;
    let before = umask(private);
    umask(before | private);
}
