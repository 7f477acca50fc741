//! Positions in the change feed, and the keys of its entities.

#![no_main]

use libfuzzer_sys::fuzz_target;
use model::ChangePosition;
use model::changes_table::{ChangesTable, start_of};
use model::plan::plan_bounds;
use wire::filter::{Grammar, parse_optional};
use wire::json::read_change_set;

fuzz_target!(|text: &str| {
    if let Some(position) = ChangePosition::parse(text) {
        assert_eq!(position.text(), text.as_bytes());
        // Neither changes at the ends of the range.
        assert!(position.next() >= position || position.transaction == u64::MAX);
        assert!(position.previous() <= position || position.transaction == 0);
        assert_eq!(ChangePosition::parse(&position.next().to_string()), Some(position.next()));
    }
    let _table = ChangesTable::from_name(text);
    let _minute = start_of(text);
    let _rows = read_change_set(text.as_bytes());
    // A filter restricts both keys of the feed.
    if let Ok(filter) = parse_optional(text, Grammar::Service) {
        let _bounds = plan_bounds(filter.as_ref());
    }
});
