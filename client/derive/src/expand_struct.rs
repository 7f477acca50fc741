//! Generates the code for a struct.

use crate::attributes::Errors;
use crate::attributes::TypeAttributes;
use crate::expand_codec::{format_type, key_part, read_property};
use crate::fields::{Field, Kind, Mismatch, Model, Property};
use crate::template::{Part, Template};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use std::collections::HashSet;
use syn::spanned::Spanned;
use syn::{DataStruct, DeriveInput, Fields, Ident, Path};

/// Returns the code for a struct, or all errors in it.
pub(crate) fn expand(input: &DeriveInput, data: &DataStruct) -> syn::Result<TokenStream> {
    let mut errors = Errors::default();
    let attributes = TypeAttributes::of_struct(&input.attrs, &mut errors);
    if let Some(lifetime) = input.generics.lifetimes().next() {
        errors.add(lifetime, "an entity type must own its values, so it cannot have lifetime parameters");
    }
    let Fields::Named(fields) = &data.fields else {
        errors.add(&input.ident, "an entity type must be a struct with named fields or an enum of entity types");
        return errors.finish().map(|()| TokenStream::new());
    };
    let model = Model::read(&input.ident, &attributes, fields, &mut errors);
    errors.finish()?;
    let model = model.ok_or_else(|| syn::Error::new(input.ident.span(), "the keys are unknown"))?;
    let krate = attributes.krate();
    Ok(Expansion { input, model, krate }.code())
}

pub(crate) struct Expansion<'a> {
    pub(crate) input: &'a DeriveInput,
    pub(crate) model: Model<'a>,
    pub(crate) krate: Path,
}

impl Expansion<'_> {
    fn code(&self) -> TokenStream {
        let Self { input, krate, .. } = self;
        let ident = &input.ident;
        let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
        let properties_ident = format_ident!("{}Properties", ident);
        let properties = self.properties(&properties_ident);
        let key_of = self.key_of();
        let constants = self.constants(&properties_ident);
        let key = self.key();
        let to_bag = self.encoder();
        let from_bag = self.decoder();
        quote! {
            const _: () = {
                #properties

                #key_of

                #[automatically_derived]
                impl #impl_generics #krate::entity::Entity for #ident #ty_generics #where_clause {
                    #constants
                    #key
                    #to_bag
                    #from_bag
                }
            };
        }
    }

    /// The model has checked that the field exists.
    pub(crate) fn field(&self, name: &str) -> &Field<'_> {
        let found = self.model.fields.iter().find(|field| field.name() == name);
        found.expect("the fields of templates exist")
    }

    fn properties(&self, properties_ident: &Ident) -> TokenStream {
        let input = self.input;
        let vis = &input.vis;
        let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
        let generics = &input.generics;
        let title = format!("The properties of `{}`, for filters and projections.", input.ident);
        let fields =
            self.entries().into_iter().map(|Entry { name, vis, ty, doc, .. }| quote!(#[doc = #doc] #vis #name: #ty));
        quote! {
            #[doc = #title]
            #vis struct #properties_ident #generics #where_clause {
                #(#fields,)*
            }

            #[automatically_derived]
            impl #impl_generics ::core::clone::Clone for #properties_ident #ty_generics #where_clause {
                fn clone(&self) -> Self {
                    *self
                }
            }

            #[automatically_derived]
            impl #impl_generics ::core::marker::Copy for #properties_ident #ty_generics #where_clause {}
        }
    }

    fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.model.fields.iter().filter_map(|field| self.entry(field)).collect();
        let krate = &self.krate;
        let entity = self.entity_type();
        let key = |name: &str, key: Ident, doc: &str| Entry {
            name: Ident::new(name, Span::call_site()),
            vis: self.input.vis.clone(),
            ty: quote!(#krate::filter::KeyProperty<#entity, ::std::string::String, #krate::entity::Plain>),
            value: quote!(#krate::filter::KeyProperty::new(#krate::entity::KeyName::#key)),
            doc: doc.to_owned(),
        };
        let timestamp = Entry {
            name: Ident::new("timestamp", Span::call_site()),
            vis: self.input.vis.clone(),
            ty: quote!(#krate::filter::Property<#entity, #krate::entity::DateTime>),
            value: quote!(#krate::filter::timestamp()),
            doc: "The time of the last write.".to_owned(),
        };
        let system = [
            key("partition_key", format_ident!("Partition"), "The partition key as a string."),
            key("row_key", format_ident!("Row"), "The row key as a string."),
            timestamp,
        ];
        for entry in system {
            if !entries.iter().any(|other| other.name == entry.name) {
                entries.push(entry);
            }
        }
        entries
    }

    fn entity_type(&self) -> TokenStream {
        let ident = &self.input.ident;
        let (_, ty_generics, _) = self.input.generics.split_for_impl();
        quote!(#ident #ty_generics)
    }

    fn entry(&self, field: &Field<'_>) -> Option<Entry> {
        let krate = &self.krate;
        let entity = self.entity_type();
        let (ident, ty) = (field.ident, field.ty);
        let name = field.name();
        let (ty, value, doc) = match &field.kind {
            Kind::Key { stored } => {
                let single = [(&self.model.partition, "Partition"), (&self.model.row, "Row")]
                    .into_iter()
                    .find_map(|(template, key)| template.single().filter(|(f, _)| *f == name).map(|(_, f)| (key, f)));
                match (single, stored) {
                    (Some((key, format)), _) => {
                        let format = format_type(krate, format);
                        let key_ident = Ident::new(key, Span::call_site());
                        (
                            quote!(#krate::filter::KeyProperty<#entity, #ty, #format>),
                            quote!(#krate::filter::KeyProperty::new(#krate::entity::KeyName::#key_ident)),
                            format!("`{key}Key`"),
                        )
                    }
                    (None, Some(property)) => {
                        let read = read_property(krate, ty, &Mismatch::Error, false);
                        (
                            quote!(#krate::filter::Property<#entity, #ty>),
                            quote!(#krate::filter::Property::named(#property, #read)),
                            format!("`{property}`"),
                        )
                    }
                    (None, None) => return None,
                }
            }
            Kind::Property(Property { name, is_json, is_encrypted, mismatch }) => {
                let read = read_property(krate, ty, mismatch, *is_json);
                let kind = if *is_json || *is_encrypted { "OpaqueProperty" } else { "Property" };
                let kind = Ident::new(kind, Span::call_site());
                (
                    quote!(#krate::filter::#kind<#entity, #ty>),
                    quote!(#krate::filter::#kind::named(#name, #read)),
                    format!("`{name}`"),
                )
            }
            Kind::Timestamp => (
                quote!(#krate::filter::Property<#entity, #ty>),
                quote!(#krate::filter::Property::named("Timestamp", |bag, _| {
                    <#ty as #krate::entity::derive_support::TimestampField>::read(bag)
                })),
                "The time of the last write.".to_owned(),
            ),
            Kind::Skip(_) | Kind::Rest | Kind::ETag => return None,
        };
        Some(Entry { name: ident.clone(), vis: field.visibility.clone(), ty, value, doc })
    }

    fn constants(&self, properties_ident: &Ident) -> TokenStream {
        let (_, ty_generics, _) = self.input.generics.split_for_impl();
        let values = self.entries().into_iter().map(|Entry { name, value, .. }| quote!(#name: #value));
        let has_rest = self.model.fields.iter().any(|field| matches!(field.kind, Kind::Rest));
        let names = |is_wanted: fn(&Property) -> bool| {
            let names = self.model.fields.iter().filter_map(move |field| match &field.kind {
                Kind::Property(property) if is_wanted(property) => Some(property.name.clone()),
                _ => None,
            });
            quote!(&[#(#names),*])
        };
        let select = names(|_| true);
        let select =
            if has_rest { quote!(::core::option::Option::None) } else { quote!(::core::option::Option::Some(#select)) };
        let encrypted = names(|property| property.is_encrypted);
        quote! {
            type Properties = #properties_ident #ty_generics;

            const PROPERTIES: Self::Properties = #properties_ident { #(#values,)* };

            const SELECT: ::core::option::Option<&'static [&'static str]> = #select;

            const ENCRYPTED: &'static [&'static str] = #encrypted;
        }
    }

    /// Returns each field of the keys once, in the order of the keys.
    fn key_fields(&self) -> Vec<&Field<'_>> {
        let mut seen = HashSet::new();
        let names = self.model.partition.fields().chain(self.model.row.fields()).map(|(name, _)| name);
        names.filter(|name| seen.insert(*name)).map(|name| self.field(name)).collect()
    }

    fn key_of(&self) -> TokenStream {
        let Self { input, krate, model } = self;
        let ident = &input.ident;
        let vis = &input.vis;
        let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
        let parameters = self
            .key_fields()
            .into_iter()
            .map(|Field { ident, ty, .. }| quote_spanned!(ty.span()=> #ident: impl #krate::entity::KeyOperand<#ty>));
        let partition = self.write_key(&model.partition, "Partition");
        let row = self.write_key(&model.row, "Row");
        let doc = format!("Returns the key of a `{ident}` with these fields. Fails if a result is not a valid key.");
        quote! {
            #[automatically_derived]
            impl #impl_generics #ident #ty_generics #where_clause {
                #[doc = #doc]
                #[allow(dead_code)]
                #vis fn key_of(
                    #(#parameters,)*
                ) -> ::core::result::Result<#krate::entity::EntityKey, #krate::entity::EntityError> {
                    let __partition = #partition;
                    let __row = #row;
                    #krate::entity::derive_support::key(&__partition, &__row)
                }
            }
        }
    }

    fn write_key(&self, template: &Template, key: &str) -> TokenStream {
        let krate = &self.krate;
        let key = Ident::new(key, Span::call_site());
        let parts = template.parts.iter().map(|part| match part {
            Part::Literal(literal) => quote!(__writer.literal(#literal)?;),
            Part::Field(name, format) => {
                let Field { ident, ty, .. } = self.field(name);
                let part = key_part(krate, ty, *format);
                quote!(#part::write(&mut __writer, #name, &#ident)?;)
            }
        });
        quote! {{
            #[allow(unused_mut)]
            let mut __writer = #krate::entity::derive_support::KeyWriter::new(#krate::entity::KeyName::#key);
            #(#parts)*
            __writer.finish()
        }}
    }

    fn key(&self) -> TokenStream {
        let krate = &self.krate;
        let fields = self.key_fields().into_iter().map(|field| field.ident);
        quote! {
            fn key(&self) -> ::core::result::Result<#krate::entity::EntityKey, #krate::entity::EntityError> {
                Self::key_of(#(&self.#fields),*)
            }
        }
    }
}

struct Entry {
    name: Ident,
    vis: syn::Visibility,
    ty: TokenStream,
    value: TokenStream,
    doc: String,
}
