//! What the entities of a set have in common, kept as text from one entity to the next.
//!
//! Neighbours in a table mostly have the same properties in the same order. So the name of a property, its type
//! annotation and what stands between them are encoded once, and copied where the next entity has the same.

use model::EdmType;
use model::record::Property;

/// The beginnings of the properties of the entity before, by their place in it.
#[derive(Debug, Default)]
pub struct Repeats {
    beginnings: Vec<Beginning>,
}

/// What stands in front of the value of a property.
#[derive(Debug)]
struct Beginning {
    name: Vec<u8>,
    edm_type: EdmType,
    is_annotated: bool,
    text: Vec<u8>,
}

impl Repeats {
    /// The text for a property if the entity before had the same one at the same place.
    pub(super) fn beginning(&self, place: usize, property: &Property<'_>, is_annotated: bool) -> Option<&[u8]> {
        let known = self.beginnings.get(place)?;
        let is_same = known.edm_type == property.edm_type()
            && known.is_annotated == is_annotated
            && known.name == property.name_bytes();
        is_same.then_some(&known.text)
    }

    /// Keeps the text for a property. Places are filled in order.
    pub(super) fn keep(&mut self, place: usize, property: &Property<'_>, is_annotated: bool, text: &[u8]) {
        let edm_type = property.edm_type();
        if self.beginnings.len() == place {
            self.beginnings.push(Beginning { name: Vec::new(), edm_type, is_annotated, text: Vec::new() });
        }
        if let Some(kept) = self.beginnings.get_mut(place) {
            (kept.edm_type, kept.is_annotated) = (edm_type, is_annotated);
            kept.name.clear();
            kept.name.extend_from_slice(property.name_bytes());
            kept.text.clear();
            kept.text.extend_from_slice(text);
        }
    }
}
