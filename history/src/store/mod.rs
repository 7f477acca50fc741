//! A model of the Table service with simulated clients. Everything depends on a seed, so that each history can be
//! produced again. Without a planted bug, all histories are strictly serializable.
//!
//! A request takes effect at one moment between its call and its answer. Connections break, after which the outcome is
//! unknown: the request takes effect later, or never. Servers crash: then everything in flight has taken effect by the
//! crash, or never will.

mod clients;
mod table;

pub use clients::{Simulation, simulate};
