//! Construction of keys.

use super::error::{EntityError, KeyName};
use model::{EntityKey, KeyText};

/// Creates a key from two strings.
pub fn key(partition: &str, row: &str) -> Result<EntityKey, EntityError> {
    let text =
        |key, text: &str| KeyText::new(text).map_err(|error| EntityError::Key { key, text: Box::from(text), error });
    Ok(EntityKey { partition: text(KeyName::Partition, partition)?, row: text(KeyName::Row, row)? })
}
