//! What a credential allows: permissions, roles, stored access policies, and the grant that follows from them.
//!
//! This folder must not know how a credential is verified.

pub mod grant;
pub mod permissions;
pub mod policy;
pub mod roles;
