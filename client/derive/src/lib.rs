//! The derive macro of `rowhouse-client`. That crate exports it along with the trait `Entity`, so depend on that crate
//! instead of this one.
//!
//! Invariant: a type that cannot work does not compile, and the message points to the invalid attribute or field.
//!
//! This crate must not know how values are encoded. The generated code calls the client library to encode them.

mod attributes;
mod expand_codec;
mod expand_enum;
mod expand_struct;
mod fields;
mod template;

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, parse_macro_input};

#[doc = include_str!("../reference.md")]
#[proc_macro_derive(Entity, attributes(entity))]
pub fn derive_entity(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = match &input.data {
        Data::Struct(data) => expand_struct::expand(&input, data),
        Data::Enum(data) => expand_enum::expand(&input, data),
        Data::Union(data) => Err(syn::Error::new(data.union_token.span, "an entity type must be a struct or an enum")),
    };
    let tokens = expanded.unwrap_or_else(|error| {
        let error = error.to_compile_error();
        quote!(#error)
    });
    tokens.into()
}
