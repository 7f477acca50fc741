//! Encryption of property bags before they are written, and decryption after they are read.

use super::{EncryptionError, EncryptionPolicy};
use crate::entity::PropertyBag;

impl EncryptionPolicy {
    pub(crate) async fn encrypt_bag(
        &self,
        merges: bool,
        mut bag: PropertyBag,
        marked: &[&str],
    ) -> Result<PropertyBag, EncryptionError> {
        if merges {
            return Err(EncryptionError::MergeRefused);
        }
        bag.properties = self.encrypt(&bag.key, bag.properties.as_record_builder(), marked).await?.into();
        Ok(bag)
    }

    /// `selected` contains the property names that the request selected, or is empty to select all properties.
    pub(crate) async fn decrypt_bag(
        &self,
        mut bag: PropertyBag,
        marked: &[&str],
        selected: &[&str],
    ) -> Result<PropertyBag, EncryptionError> {
        let selected = (!selected.is_empty()).then_some(selected);
        let properties = std::mem::take(&mut bag.properties).into_record_builder();
        bag.properties = self.decrypt(&bag.key, properties, marked, selected).await?.into();
        Ok(bag)
    }
}
