//! Endpoints (data folders, databases and services), and the code shared by the commands that read and write them.
//!
//! This module must not know which command works on an endpoint.

mod contact;
mod endpoint;
mod engine;
#[cfg(test)]
pub(crate) mod faulty_source;
mod location;
mod open;
mod pages;
mod ranges;
mod service;
mod service_error;

pub(crate) use contact::connect;
pub(crate) use endpoint::{
    Endpoint, Page, Query, Source, WriteMode, WriteOutcome, difference, group_into_transactions,
};
pub(crate) use engine::{EngineEndpoint, copy_entity, parse_filter};
pub(crate) use location::{EndpointOption, Location};
pub(crate) use open::{TableSelection, choose_account, is_forbidden, list_accounts, open_endpoint, read_location};
pub(crate) use pages::Pages;
pub(crate) use ranges::{EntityRange, split};
pub(crate) use service::query_of;
pub(crate) use service_error::{EntityTooLarge, ServiceError};
