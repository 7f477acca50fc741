//! Properties whose values have different types in different entities, so that a filter matches entities that its
//! author does not expect (specification 04 §3.2).

use crate::formats::push_value;
use crate::terminal::{HumanCount, notice};
use client::{Error, PropertyBag, Table};
use model::filter::TypeDependence;
use model::{EdmType, RecordBuilder};
use wire::filter::{Grammar, parse};

/// The number of entities that are read to determine which types a property has. It bounds the cost of a write.
const SAMPLE: u64 = 100;

/// The types that are also recognized by their text. Nearly every word is valid Base64, so Binary is not one of them.
const RECOGNIZED_TYPES: [EdmType; 6] =
    [EdmType::Int32, EdmType::Int64, EdmType::Double, EdmType::Boolean, EdmType::DateTime, EdmType::Guid];

fn is_valid(edm_type: EdmType, text: &str) -> bool {
    push_value(&mut RecordBuilder::default(), "Value", edm_type, text).is_ok()
}

/// Warns if one of the properties, which are written as strings because no type was given, looks like a value of
/// another type and has this type in other entities. Reads a sample, and nothing at all for other strings.
pub(super) async fn warn(table: &Table, partition: &str, untyped: &[(&str, &str)]) {
    let is_ambiguous = |text: &str| RECOGNIZED_TYPES.into_iter().any(|edm_type| is_valid(edm_type, text));
    let ambiguous: Vec<_> = untyped.iter().copied().filter(|(_, text)| is_ambiguous(text)).collect();
    if ambiguous.is_empty() {
        return;
    }
    // Whoever may write need not be allowed to read. If the table is missing, the write fails.
    let Ok(sample) = sample(table, partition, &ambiguous).await else { return };
    for (name, text) in ambiguous {
        let Some(edm_type) = other_type(&sample, name, text) else { continue };
        let edm_type = edm_type.name().trim_start_matches("Edm.");
        notice(format_args!(
            "warning: '{name}' is written as a String, but other entities have the type {edm_type} there. Filters treat values of \
             another type as less than any {edm_type}. Write {name}:{edm_type}={text} or, to keep the String, {name}:String={text}"
        ));
    }
}

/// Reads entities of the partition, and if it has none of the properties, the first entities of the table.
async fn sample(table: &Table, partition: &str, properties: &[(&str, &str)]) -> Result<Vec<PropertyBag>, Error> {
    let names: Vec<_> = properties.iter().map(|(name, _)| *name).collect();
    let query = || table.query::<PropertyBag>().resolve(&names, Ok).take(SAMPLE);
    let mut sample = Vec::new();
    for query in [query().partition(partition), query()] {
        let page = query.pages().next().await.transpose()?;
        sample = page.map(|page| page.items).unwrap_or_default();
        if sample.iter().any(|entity| !entity.properties.is_empty()) {
            break;
        }
    }
    Ok(sample)
}

fn other_type(sample: &[PropertyBag], name: &str, text: &str) -> Option<EdmType> {
    let types = sample.iter().filter_map(|entity| {
        let mut properties = entity.properties.as_record_builder().properties().filter_map(Result::ok);
        Some(properties.find(|property| property.name_bytes() == name.as_bytes())?.edm_type())
    });
    types.into_iter().find(|edm_type| *edm_type != EdmType::String && is_valid(*edm_type, text))
}

/// Returns which entities a filter matches only because a value has another type than in the filter; `None` if there
/// are none, or if the filter, which the service has accepted, is not understood here.
pub(super) fn dependence(filter: &str) -> Option<TypeDependence> {
    parse(filter, Grammar::Extended).ok().and_then(|filter| filter.type_dependence())
}

/// Prints on standard error how many entities a filter matches only because of types.
pub(super) fn report(count: u64, dependence: &TypeDependence) {
    if count == 0 {
        return;
    }
    let properties: Vec<_> = dependence.properties.iter().map(|name| format!("'{name}'")).collect();
    notice(format_args!(
        "{} of them {} only because {} has a different type than in the filter: such a value counts as less than any value of the \
         filter's type",
        HumanCount(count),
        if count == 1 { "matches" } else { "match" },
        properties.join(" or ")
    ));
}
