//! Entity types and untyped entities.
//!
//! An entity type is a struct or an enum with [`#[derive(Entity)]`](derive@Entity). It is encoded to a [`PropertyBag`],
//! which programs also use for untyped entities. [`PropertyValue`] lists the Rust types that can be property values,
//! and [`KeyValue`] lists the types that can be key parts.
//!
//! Invariants:
//!
//! 1. The EDM type of a property follows from the Rust type, never from the value.
//! 2. An entity that was read is written back under the same key. Reading a key that the type would write differently
//!    is an error.
//!
//! This module must not depend on requests or responses.

mod bag;
mod error;
mod instants;
mod key;
mod properties;
mod template;
mod value;

#[doc(hidden)]
pub mod derive_support;

pub use bag::{ETag, PropertyBag};
pub use error::{EntityError, KeyName, ValueError};
pub use key::{
    Inverted, KeyFormat, KeyNumber, KeyOperand, KeyValue, OrderedKeyFormat, Padded, Plain, TextOrderedKeyValue,
};
pub use properties::Properties;
pub use rowhouse_client_derive::Entity;
pub use value::{EncodedValue, PropertyField, PropertyValue, SetValue};

/// The type of a property.
///
/// ```
/// use rowhouse_client::{EdmType, PropertyValue};
///
/// assert_eq!(i64::EDM_TYPE, EdmType::Int64);
/// assert_eq!(EdmType::Int64.name(), "Edm.Int64");
/// ```
#[doc(inline)]
/// A property value of any type.
///
/// ```
/// use rowhouse_client::{EdmValue, PropertyBag};
///
/// let order = PropertyBag::new("2031", "0001")?.with("Total", 120_i64)?;
/// match order.properties.get("Total") {
///     Some(EdmValue::Int64(total)) => assert_eq!(total, 120),
///     other => println!("a different type, or no such property: {other:?}"),
/// }
/// # Ok::<(), rowhouse_client::EntityError>(())
/// ```
#[doc(inline)]
/// The partition key and the row key of an entity.
///
/// ```
/// use rowhouse_client::EntityKey;
///
/// let key = EntityKey::new("2031", "0001")?;
/// assert_eq!((key.partition.as_str(), key.row.as_str()), ("2031", "0001"));
/// # Ok::<(), rowhouse_client::entity::KeyError>(())
/// ```
#[doc(inline)]
/// A value of the type `Edm.Guid`.
///
/// ```
/// use rowhouse_client::Guid;
///
/// let id = Guid::parse("5a3d9c1e-70b2-4f6e-8d41-2f9b6c0e7a15").ok_or("not a Guid")?;
/// assert_eq!(id.as_bytes().len(), 16);
/// # Ok::<(), &str>(())
/// ```
#[doc(inline)]
/// The value of a key: at most 512 UTF-16 code units, consisting of the characters allowed in keys.
///
/// ```
/// use rowhouse_client::entity::KeyText;
///
/// assert_eq!(KeyText::new("2031")?.as_str(), "2031");
/// # Ok::<(), rowhouse_client::entity::KeyError>(())
/// ```
#[doc(inline)]
/// The reason why a string is not a valid key.
///
/// ```
/// use rowhouse_client::entity::{KeyError, KeyText};
///
/// assert!(matches!(KeyText::new(&"x".repeat(513)), Err(KeyError::TooLong)));
/// ```
#[doc(inline)]
pub use model::key::KeyError;
/// An instant of the service, in ticks of 100 ns, from the year 1601 to the year 9999.
///
/// ```
/// use rowhouse_client::DateTime;
/// use std::time::{Duration, SystemTime};
///
/// let noon = DateTime::parse("2031-04-01T12:00:00Z").map_err(|_| "not an instant")?;
/// assert_eq!(noon.to_string(), "2031-04-01T12:00:00Z");
/// let later = DateTime::from_system_time(noon.to_system_time() + Duration::from_secs(60));
/// assert!(noon < later);
/// # Ok::<(), &str>(())
/// ```
#[doc(inline)]
pub use model::{DateTime, EdmType, EdmValue, EntityKey, Guid, KeyText};

pub(crate) use properties::check_name as check_property_name;
pub(crate) use template::read_key;

/// An entity type, as implemented by [the derive macro of the same name](derive@Entity) and accepted by every operation
/// on entities.
///
/// ```
/// use rowhouse_client::entity::Entity;
///
/// #[derive(Debug, PartialEq, Entity)]
/// #[entity(rename_all = "PascalCase")]
/// struct Customer {
///     #[entity(partition_key)]
///     city: String,
///     #[entity(row_key, padded = 4)]
///     number: u32,
///     name: String,
///     visits: Option<i64>,
/// }
///
/// let customer = Customer { city: "Berlin".to_owned(), number: 42, name: "Ada".to_owned(), visits: None };
/// assert_eq!(customer.key()?.row.as_str(), "0042");
///
/// let bag = customer.to_bag()?;
/// assert_eq!(bag.get::<String>("Name")?, "Ada");
/// assert_eq!(Customer::from_bag(bag)?, customer);
/// # Ok::<(), rowhouse_client::entity::EntityError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an entity type",
    note = "add `#[derive(Entity)]` to `{Self}`, or use `PropertyBag` for untyped entities"
)]
pub trait Entity: Sized + 'static {
    /// The properties for the filters and projections of queries: a struct with one field for each property.
    type Properties: 'static;

    /// The properties, for building filters and projections.
    const PROPERTIES: Self::Properties;

    /// The names of the custom properties that the type reads, for `$select`. `None` means all properties.
    const SELECT: Option<&'static [&'static str]>;

    /// The names of the properties that are marked for encryption.
    const ENCRYPTED: &'static [&'static str] = &[];

    /// Returns the key of this entity. Fails if a key part cannot be written, or if the resulting key is invalid.
    fn key(&self) -> Result<EntityKey, EntityError>;

    /// Encodes the entity. Fails like [`key`](Self::key), or if a value has no encoded form.
    fn to_bag(&self) -> Result<PropertyBag, EntityError>;

    /// Decodes an entity. Fails if the key does not have the format of the type. By default, also fails if a property
    /// is missing or has a different type.
    fn from_bag(bag: PropertyBag) -> Result<Self, EntityError>;
}
