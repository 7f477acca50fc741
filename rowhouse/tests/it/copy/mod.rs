//! `rowhouse copy` as its users run it: between data folders and running servers, interrupted and disturbed.
//!
//! What was copied is judged by reading both sides over HTTP, not by what the command says about itself.

mod disturbed;
mod interrupted;
mod refusals;
mod ways;
