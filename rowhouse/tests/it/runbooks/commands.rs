//! docs/commands.md.

use super::{Runbook, stop};

#[test]
fn tables_and_entities_are_managed_from_a_shell() {
    let mut book = Runbook::open("commands.md", &[]);
    book.set("ROWHOUSE_ENDPOINT", &format!("http://{}/devstoreaccount1", book.listen));
    let server = book.start_own("rowhouse serve --in-memory --extensions");
    book.run_own(0, "rowhouse table create sessions");

    book.run(0, "rowhouse table create cars");
    book.run_own(5, "rowhouse table create cars");
    book.run(0, "rowhouse table retention sessions --age 7d");
    book.run(0, "rowhouse entity put cars kestrel 0007");
    book.run_own(5, "rowhouse entity put cars kestrel 0007 --insert Doors:Int32=2");
    let found = book.run(0, "rowhouse entity query cars --filter");
    assert!(found.contains("981.5") && !found.contains("Model"), "{found}");
    assert!(book.run(0, "rowhouse entity get cars kestrel 0007").contains("Kestrel"));
    assert_eq!(book.run(0, "rowhouse entity count cars").trim(), "1");
    book.run(0, "rowhouse entity delete cars kestrel 0007");
    book.run_own(4, "rowhouse entity get cars kestrel 0007");
    book.run_own(0, "rowhouse entity put cars kestrel 0008 Doors:Int32=2");
    assert_eq!(book.run(0, "rowhouse entity delete cars --filter").trim(), "1");
    assert_eq!(book.run_own(0, "rowhouse entity count cars").trim(), "1", "--dry-run deletes nothing");
    book.run_own(2, "rowhouse entity count");
    stop(server);
    book.run_own(1, "rowhouse entity count cars");
    book.end();
}
