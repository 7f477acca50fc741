//! Entities: their values, their record, and what mutations and transactions do to them.
//!
//! This folder must not know filters or credentials.

pub mod computed_record;
pub mod edm;
pub mod entity;
pub mod etag;
pub mod mutation;
pub mod record;
pub mod repeated;
pub mod retention;
pub mod transaction;
