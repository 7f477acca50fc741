//! A request: its head and body, what the steps of the request path determine about it, and the operation it requests.
//!
//! [`RequestContext`] describes a request from the socket to the log. [`OperationContext`] is the input of one
//! operation; the context of a part of a batch is derived from the batch's context in one place.
//!
//! Code in this folder must not depend on credentials, engines, or how a response is written.

pub(crate) mod body;
mod context;
mod faults;
mod head;
mod incoming;
mod operation;
mod operation_context;
mod proxies;
mod request_id;
mod route;
pub(crate) mod selection;
mod sequence;
mod virtual_table;

pub(crate) use context::{EntityCounts, RequestContext, is_of_front_end};
pub use faults::{FaultScript, RequestFaults, ScriptedRefusal};
pub(crate) use head::{Head, joined_accept, operation_headers};
pub(crate) use incoming::{ConnectionInfo, CredentialKind, IncomingRequest};
pub(crate) use operation::{OperationKind, PayloadKind, ThrottleUnit, operation_table};
pub(crate) use operation_context::{
    OperationContext, address_key, body_format, check_body_charset, check_key_count, required_content_type, resolved,
    table_of,
};
pub use proxies::TrustedProxies;
pub(crate) use request_id::{RequestId, random_number};
pub(crate) use route::{effective_method, route};
pub(crate) use sequence::Sequence;
pub(crate) use virtual_table::{Offered, VirtualTable};
