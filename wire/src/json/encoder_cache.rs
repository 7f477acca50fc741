//! What the entities of a set have in common, kept as text from one entity to the next.
//!
//! Neighbours in a table mostly have the same properties in the same order. So the name of a property, its type
//! annotation and what stands between them are encoded once, and copied where the next entity has the same.

use super::block::Block;
use model::record::{Properties, Property, PropertyHead};

/// The beginnings of the properties of the entity before, by their place in it.
#[derive(Debug, Default)]
pub struct EncoderCache {
    beginnings: Vec<Beginning>,
}

/// What stands in front of the value of a property, its quote included if it has one.
#[derive(Debug)]
pub(super) struct Beginning {
    head: PropertyHead,
    pub(super) is_quoted: bool,
    pub(super) text: Block,
}

impl EncoderCache {
    /// The next property, if the entity before had one of the same name and type at this place, and how that one began.
    pub(super) fn next<'a>(&self, place: usize, properties: &mut Properties<'a>) -> Option<(&Beginning, Property<'a>)> {
        let known = self.beginnings.get(place)?;
        Some((known, properties.next_of(&known.head)?))
    }

    /// Keeps the text for a property. Places are filled in order.
    pub(super) fn keep(&mut self, place: usize, property: &Property<'_>, is_quoted: bool, text: &[u8]) {
        if let Some(kept) = self.beginnings.get_mut(place) {
            kept.head.replace(property);
            kept.is_quoted = is_quoted;
            kept.text.replace(text);
        } else {
            let (head, mut kept) = (PropertyHead::of(property), Block::default());
            kept.replace(text);
            self.beginnings.push(Beginning { head, is_quoted, text: kept });
        }
    }
}
