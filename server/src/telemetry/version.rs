//! Information about the build of the server.

/// Returns names and values that describe the build, for `/version` and the metric `rowhouse_build_info`.
///
/// The source revision is known only if the program was built from a clone, or if the revision was passed to the build.
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
