//! Which build of the server this is.

/// Facts about the build: names and values, as `/version` and the metric `rowhouse_build_info` show them.
///
/// The revision of the source is known only if `ROWHOUSE_REVISION` was set for the build.
pub(crate) const FACTS: [(&str, &str); 5] = [
    ("version", env!("CARGO_PKG_VERSION")),
    (
        "revision",
        match option_env!("ROWHOUSE_REVISION") {
            Some(revision) => revision,
            None => "unknown",
        },
    ),
    ("os", std::env::consts::OS),
    ("arch", std::env::consts::ARCH),
    ("profile", if cfg!(debug_assertions) { "debug" } else { "release" }),
];
