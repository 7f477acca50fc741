//! What a table calls: property bags are encrypted before they are written, and decrypted after they were read.

use super::{EncryptionError, EncryptionPolicy};
use crate::entity::PropertyBag;

impl EncryptionPolicy {
    /// The entity to write. `merges` says whether it is merged into another one, `marked` are the names that its type marks.
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

    /// The entity as it was before encryption. `marked` are the names that its type marks, `selected` those that the request
    /// asked for; none stand for all.
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
