//! The well-known development account (07 §12).

pub use wire::signing::DEVELOPMENT_ACCOUNT;

/// The key of the development account. It is public and protects nothing.
pub const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// The default endpoint of the development account.
pub const DEVELOPMENT_ENDPOINT: &str = "http://127.0.0.1:10002/devstoreaccount1";
