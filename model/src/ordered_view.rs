//! Ordered views: read-only tables that list the entities of a table by the value of an indexed property
//! (`docs/extensions.md`). Their names are `$By{Property}Of{Table}` and `$By{Property}DescendingOf{Table}`.
//!
//! A name can have several meanings, because a property and a table can contain `Of`, and a property can end with
//! `Descending`. The first meaning whose table has the index is the right one.
//!
//! This module must not depend on which tables and indexes exist.

use crate::index::IndexedProperty;
use crate::limits::TABLE_NAME_CHARS_MAX;
use crate::name::TableName;

const PREFIX: &str = "$By";
const OF: &str = "Of";
const DESCENDING: &str = "Descending";

/// A meaning of the name of an ordered view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderedView {
    /// The table whose entities the view lists.
    pub table: TableName,
    /// The property whose values determine the order.
    pub property: IndexedProperty,
    /// Whether the order is reversed.
    pub is_descending: bool,
}

impl OrderedView {
    /// Returns the meanings of a name, in the order of precedence: first those with the shortest name of a table, and
    /// of these, first the descending one. Returns none if the name is not the name of a view. Letter case matters,
    /// except in the name of the table.
    ///
    /// Because names of tables are short, there are only a few meanings.
    pub fn meanings(name: &str) -> Vec<Self> {
        let Some(rest) = name.strip_prefix(PREFIX) else { return Vec::new() };
        let split = |(at, _)| Some((rest.get(..at)?, TableName::new(rest.get(at + OF.len()..)?).ok()?));
        let can_be_table = |at: usize| rest.len() - at - OF.len() <= TABLE_NAME_CHARS_MAX;
        let splits = rest.rmatch_indices(OF).take_while(|(at, _)| can_be_table(*at));
        let meanings = splits.filter_map(split).flat_map(|(order, table)| {
            let orders = [(order.strip_suffix(DESCENDING), true), (Some(order), false)];
            orders.into_iter().filter_map(move |(property, is_descending)| {
                let (property, table) = (IndexedProperty::new(property?)?, table.clone());
                Some(Self { table, property, is_descending })
            })
        });
        meanings.collect()
    }
}

/// Returns the name of a view. The names need not be valid.
pub fn view_name(table: &str, property: &str, is_descending: bool) -> String {
    let descending = if is_descending { DESCENDING } else { "" };
    format!("{PREFIX}{property}{descending}{OF}{table}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the meanings as `table by property`.
    fn meanings(name: &str) -> Vec<String> {
        let text = |view: &OrderedView| {
            let sign = if view.is_descending { "-" } else { "" };
            format!("{} by {sign}{}", view.table, view.property)
        };
        OrderedView::meanings(name).iter().map(text).collect()
    }

    #[test]
    fn names() {
        for (name, expected) in [
            ("$ByTotalOfOrders", &["Orders by Total"][..]),
            ("$ByTotalDescendingOfOrders", &["Orders by -Total", "Orders by TotalDescending"]),
            ("$ByGrößeOfcars", &["cars by Größe"]),
            // Only the case of the table's name does not matter.
            ("$ByDescendingOfORDERS", &["ORDERS by Descending"]),
            ("$ByDescendingDescendingOfOrders", &["Orders by -Descending", "Orders by DescendingDescending"]),
            ("$ByDateOfBirthOfPeople", &["People by DateOfBirth", "BirthOfPeople by Date"]),
            ("$ByTotalOfListOfOrders", &["Orders by TotalOfList", "ListOfOrders by Total"]),
            ("$ByOfOf1Of1Offer", &["fer by OfOf1Of1"]),
            ("$ByTimestampOfOrders", &[]),
            ("$By1TotalOfOrders", &[]),
            ("$ByTotalOfOr", &[]),
            ("$ByTotalOftables", &[]),
            ("$bytotalofOrders", &[]),
            ("$ByOfOrders", &[]),
            ("$By", &[]),
            ("ByTotalOfOrders", &[]),
            ("orders", &[]),
            ("", &[]),
        ] {
            assert_eq!(meanings(name), expected, "{name}");
        }
        assert_eq!(view_name("Orders", "Total", false), "$ByTotalOfOrders");
        assert_eq!(view_name("Orders", "Total", true), "$ByTotalDescendingOfOrders");
    }

    #[test]
    fn a_long_name_has_few_meanings() {
        assert!(meanings(&format!("$ByX{}", "Of".repeat(10_000))).len() < 40);
    }
}
