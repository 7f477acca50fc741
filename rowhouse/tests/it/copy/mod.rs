//! Tests of `rowhouse copy` as users run it: between data folders and running servers, interrupted and disturbed.
//!
//! The tests judge a copy by reading both sides over HTTP, not by the output of the command.

mod disturbed;
mod followed;
mod interrupted;
mod refusals;
mod ways;
