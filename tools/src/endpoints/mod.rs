//! Endpoints (data folders, databases and services), and the code shared by the commands that read and write them.
//!
//! This module must not know which command works on an endpoint.

mod compare;
mod endpoint;
mod engine;
mod location;
mod open;
mod ranges;
mod selection;
mod service;

pub(crate) use compare::difference;
pub(crate) use endpoint::{Endpoint, Page, Query, Source, WriteMode, WriteOutcome, group_into_transactions};
pub(crate) use engine::{EngineEndpoint, copy_entity, parse_filter};
pub(crate) use location::{EndpointOption, Location};
pub(crate) use open::{choose_account, list_accounts, open_endpoint, read_location};
pub(crate) use ranges::{EntityRange, split};
pub(crate) use selection::{TableSelection, is_forbidden};
pub(crate) use service::query_of;
