//! Programs that must not build, each with the messages of the compiler beside it.
//!
//! The messages of the macro are our own; others are those of the compiler that CI uses. After an update of the compiler,
//! `TRYBUILD=overwrite cargo test -p rowhouse-client --test derive refused` writes them anew; read the difference.

#[test]
fn wrong_programs_do_not_build_and_the_messages_say_why() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/derive/refused/*.rs");
}
