//! The suite that every engine passes.
mod support;
use store::*;
use support::*;

#[tokio::test]
async fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(START_TICKS);
    let e = Embedded::open(dir.path(), &EmbeddedOptions::default(), clock.clone()).unwrap();
    e.create_table(&table("Abc")).await.unwrap();
    commit_one(&e, &table("abc"), insert("p", "r", 4)).await.unwrap();
    assert_eq!(names(&all(&e, &table("abc")).await), ["p/r"]);
    drop(e);
    let e = Embedded::open(dir.path(), &EmbeddedOptions::default(), clock).unwrap();
    assert_eq!(names(&all(&e, &table("abc")).await), ["p/r"]);
    e.close().await.unwrap();
}
