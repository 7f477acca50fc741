//! Which build of the server this is.

/// Facts about the build: names and values, as `/version` and the metric `rowhouse_build_info` show them.
///
/// The program knows the revision of its source only if it was built from a clone, or was told.
pub(crate) fn facts(revision: Option<&'static str>) -> Vec<(&'static str, &'static str)> {
    let mut facts = vec![("version", env!("CARGO_PKG_VERSION"))];
    facts.extend(revision.map(|revision| ("revision", revision)));
    facts.extend([
        ("os", std::env::consts::OS),
        ("arch", std::env::consts::ARCH),
        ("profile", if cfg!(debug_assertions) { "debug" } else { "release" }),
    ]);
    facts
}
