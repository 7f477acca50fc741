//! Records histories of the Table service, and checks whether they are strictly serializable. Tests only.
//!
//! # What is checked
//!
//! A history contains the call and the answer of every operation ([`Operation`]): reads, pages with their boundaries,
//! mutations with and without conditions, transactions, and refusals with what they claim. The checker decides for each
//! partition whether there is one order of all its operations in which
//!
//! 1. every operation has a place between its call and its answer; a write of unknown outcome has a place after its
//!    call and before the time by which it must have ended, if that is known, or no place at all;
//! 2. a read returns the version that is current at its place, a page exactly the entities of its range that match its
//!    filter, and a refusal is what the state at its place requires: the mutations before the refused one are accepted,
//!    and the refused one is refused for the stated reason;
//! 3. an acknowledged transaction is accepted as a whole, and reads show its entities with the `ETag`s of the answer;
//! 4. Timestamps increase as the engine promises ([`StampOrder`]), and an `ETag` never names two states of an entity.
//!
//! This is strict serializability of each partition. Operations on different partitions are independent, even if a
//! query reads several of them: each page is then recorded as one page of each partition.
//!
//! A write of unknown outcome may take effect long after its connection was closed, because a server may be slow. Only
//! [`Recorder::close_unknown`] excludes that, once the servers are known to be down. After that time, an effect is a
//! violation.
//!
//! # What is decided exactly
//!
//! - *Serializable* is exact: the checker has found an order.
//! - *Violated* is exact: there is no order, whatever the outcome of unknown operations. It presupposes that tokens are
//!   unique, that the history contains all writes, and that every table was empty at first.
//! - *Undecided* is reported if too many writes of unknown outcome or deletions explain the answers equally well, so
//!   that the search exceeds its bounds ([`Rules`]). It is not a success.
//!
//! Only the following conditions are necessary and not sufficient: a continuation token is checked as the boundary of
//! two pages, so a token that skips keys without entities is accepted; the `ETag` of a version that no client ever saw
//! is not checked.
//!
//! # How
//!
//! Timestamps state the order of most writes, and tokens state what each read saw, so there is little to search. The
//! module `search` describes the algorithm, whose time is proportional to the number of operations as long as few
//! explanations are possible. What Timestamps do not order has a place only between its neighbours: deletions, which
//! carry no stamp, refused and unknown operations. The algorithm tries those places, each only where an answer requires
//! it.
//!
//! # Files
//!
//! [`write_history`] writes one JSON object for each operation:
//!
//! ```json
//! {"id":1,"client":0,"call":120,"return":950,"partition":"t/p",
//!  "write":{"mutations":[{"row":"r","kind":"merge","if_match":17,"value":{"a":5}}],"answer":{"done":[18]}}}
//! {"id":2,"client":1,"call":130,"return":700,"partition":"t/p",
//!  "page":{"from":"","until":"s","entities":[["r",{"etag":17,"value":{"a":4,"b":2}}]]}}
//! {"id":3,"client":2,"call":140,"return":800,"partition":"t/p","get":{"row":"q","found":null}}
//! ```
//!
//! Each object is on one line. Times are in nanoseconds, `ETag`s are Timestamps in units of 100 ns, and the values of
//! properties are tokens. `return` is missing if an operation of unknown outcome has no end. A violation shows its
//! operations in this form, and `history/porcupine` judges files independently.

mod checker;
mod operation;
mod planted;
mod recorder;
mod store;
mod workload;

pub use checker::{Report, Rules, StampOrder, Violation, check};
pub use operation::{
    Action, Answer, Filter, Kind, Mutation, Operation, Page, Property, Refusal, Stamp, Time, Value, Version,
    write_history,
};
pub use planted::PlantedBug;
pub use recorder::{ClientLog, Recorder};
pub use store::{Simulation, simulate};
pub use workload::{Choices, Client, Mix, NoAnswer, Query, Request, run_client};
