//! Filters: printed filters parse to the same tree, a plan misses no match, extensions change no filter of the service,
//! and long expressions use no stack.

#![no_main]

use libfuzzer_sys::fuzz_target;
use model::limits::{FILTER_TEXT_BYTES_MAX, PLAN_RANGES_MAX};
use model::plan::plan;
use model::{DateTime, EdmValue, EntityKey, EntityView, Filter, KeyText, Record, RecordBuilder};
use wire::filter::{Grammar, parse, print};

fuzz_target!(|text: &str| {
    let service = parse(text, Grammar::Service);
    let Ok(filter) = parse(text, Grammar::Extended) else {
        assert!(service.is_err(), "{text}");
        return;
    };
    if let Ok(service) = service {
        assert_eq!(print(&filter), print(&service));
    }
    let entities = [entity("", "", 0), entity("p", "r", 5), entity("q", "\u{10000}", -1)];
    for (key, record) in &entities {
        check_plan(&filter, key, record);
    }
    let printed = print(&filter);
    if printed.len() > FILTER_TEXT_BYTES_MAX {
        return;
    }
    match parse(&printed, Grammar::Extended) {
        // Compare printed forms, because a tree that contains NaN does not equal itself.
        Ok(again) => assert_eq!(print(&again), printed),
        // Printing adds parentheses, so a printed filter can exceed the nesting limit.
        Err(error) => assert!(error.message.contains("depth") || is_deep(&printed), "{printed}: {error}"),
    }
});

fn is_deep(printed: &str) -> bool {
    printed.matches("not ").count() + printed.matches('(').count() > model::limits::FILTER_DEPTH_MAX
}

fn check_plan(filter: &Filter, key: &EntityKey, record: &Record) {
    let view = EntityView::from_parts(key, record).expect("a new record is intact");
    let plan = plan(Some(filter));
    assert!(plan.ranges.len() <= PLAN_RANGES_MAX);
    let planned = plan.ranges.iter().any(|range| range.contains(&key.encode()));
    let matches = filter.matches(&view).expect("a new record is intact");
    assert!(planned || !matches, "{key:?} matches, but {plan:?} does not reach it");
}

/// An entity with a property of every type; the seeds use the names of these properties.
fn entity(partition: &str, row: &str, number: i32) -> (EntityKey, Record) {
    let key = |text| KeyText::new(text).expect("the key is valid");
    let mut builder = RecordBuilder::default();
    builder.push("S", EdmValue::String("text"));
    builder.push("B", EdmValue::Boolean(number > 0));
    builder.push("I", EdmValue::Int32(number));
    builder.push("L", EdmValue::Int64(i64::from(number) << 40));
    builder.push("D", EdmValue::Double(f64::from(number) / 2.0));
    builder.push("X", EdmValue::Binary(&[0, 255]));
    builder.push("T", EdmValue::DateTime(DateTime::MIN));
    (EntityKey { partition: key(partition), row: key(row) }, builder.finish(DateTime::MIN))
}
