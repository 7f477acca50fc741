//! The modules of the server that read bearer tokens and keys. They are compiled here, unchanged, because the server
//! does not offer them to others.

#[path = "../../server/src/authorization/oauth/algorithm.rs"]
pub(crate) mod algorithm;
#[path = "../../server/src/authorization/oauth/audience.rs"]
pub(crate) mod audience;
#[path = "../../server/src/authorization/oauth/claims.rs"]
pub(crate) mod claims;
#[path = "../../server/src/authorization/oauth/jws.rs"]
pub(crate) mod jws;
#[path = "../../server/src/authorization/oauth/key_set.rs"]
pub(crate) mod key_set;
#[path = "../../server/src/authorization/oauth/token_error.rs"]
pub(crate) mod token_error;
