//! Writes the code for a struct.

use crate::attributes::TypeAttributes;
use crate::errors::Errors;
use crate::fields::{Field, Kind, Mismatch, Model, Property};
use crate::template::{Format, Part, Template};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use std::collections::HashSet;
use syn::spanned::Spanned;
use syn::{DataStruct, DeriveInput, Fields, Ident, Path};

/// The code for a struct, or everything that is wrong with it.
pub(crate) fn expand(input: &DeriveInput, data: &DataStruct) -> syn::Result<TokenStream> {
    let mut errors = Errors::default();
    let attributes = TypeAttributes::of_struct(&input.attrs, &mut errors);
    if let Some(lifetime) = input.generics.lifetimes().next() {
        errors.add(lifetime, "an entity type owns its values, so it has no lifetimes");
    }
    let Fields::Named(fields) = &data.fields else {
        errors.add(&input.ident, "an entity type is a struct with named fields, or an enum of entity types");
        return errors.finish().map(|()| TokenStream::new());
    };
    let model = Model::read(&input.ident, &attributes, fields, &mut errors);
    errors.finish()?;
    let model = model.ok_or_else(|| syn::Error::new(input.ident.span(), "the keys are not known"))?;
    let krate = attributes.krate();
    Ok(Expansion { input, model, krate }.code())
}

struct Expansion<'a> {
    input: &'a DeriveInput,
    model: Model<'a>,
    krate: Path,
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
        let to_bag = self.to_bag();
        let from_bag = self.from_bag();
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

    /// The field of this name. The model checked that it exists.
    fn field(&self, name: &str) -> &Field<'_> {
        let found = self.model.fields.iter().find(|field| field.name() == name);
        found.expect("the fields of templates exist")
    }

    /// The struct with one field for each property.
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

    /// The fields of that struct.
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
            value: quote!(#krate::entity::derive_support::timestamp()),
            doc: "The instant of the last write.".to_owned(),
        };
        let system = [
            key("partition_key", format_ident!("Partition"), "The text of the partition key."),
            key("row_key", format_ident!("Row"), "The text of the row key."),
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
                    #krate::entity::derive_support::read_timestamp::<#ty>(bag)
                })),
                "The instant of the last write.".to_owned(),
            ),
            Kind::Skip(_) | Kind::Rest | Kind::ETag => return None,
        };
        Some(Entry { name: ident.clone(), vis: field.visibility.clone(), ty, value, doc })
    }

    /// The constants and the associated type.
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

    /// The fields of the keys, each once, in the order of the keys.
    fn key_fields(&self) -> Vec<&Field<'_>> {
        let mut seen = HashSet::new();
        let names = self.model.partition.fields().chain(self.model.row.fields()).map(|(name, _)| name);
        names.filter(|name| seen.insert(*name)).map(|name| self.field(name)).collect()
    }

    /// The associated function that makes a key of its fields.
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
        let doc = format!("The key of the `{ident}` with these key fields. Fails if the texts cannot be keys.");
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
                let format = format_type(krate, *format);
                quote_spanned!(ty.span()=> __writer.part::<#ty, #format>(#name, &#ident)?;)
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

    fn to_bag(&self) -> TokenStream {
        let krate = &self.krate;
        let support = quote!(#krate::entity::derive_support);
        let mut writes = Vec::new();
        for field in &self.model.fields {
            let (ident, ty) = (field.ident, field.ty);
            writes.push(match &field.kind {
                Kind::Key { stored: None } | Kind::Skip(_) => continue,
                Kind::Key { stored: Some(name) } => {
                    quote_spanned!(ty.span()=> #support::write::<#ty>(&mut __bag, #name, &self.#ident)?;)
                }
                Kind::Property(Property { name, is_json, .. }) => {
                    let write = Ident::new(if *is_json { "write_json" } else { "write" }, Span::call_site());
                    quote_spanned!(ty.span()=> #support::#write::<#ty>(&mut __bag, #name, &self.#ident)?;)
                }
                Kind::Rest => continue,
                Kind::ETag => quote_spanned!(ty.span()=> __bag.etag = ::core::clone::Clone::clone(&self.#ident);),
                Kind::Timestamp => {
                    quote_spanned!(ty.span()=> __bag.timestamp = #support::write_timestamp::<#ty>(&self.#ident)?;)
                }
            });
        }
        // After all others, so that a property of the rest that is named as another one is found.
        for field in self.model.fields.iter().filter(|field| matches!(field.kind, Kind::Rest)) {
            let (ident, ty) = (field.ident, field.ty);
            let names = self.model.fields.iter().filter_map(Field::property);
            writes.push(quote_spanned!(ty.span()=> #support::write_rest(&mut __bag, &self.#ident, &[#(#names),*])?;));
        }
        quote! {
            fn to_bag(&self) -> ::core::result::Result<#krate::entity::PropertyBag, #krate::entity::EntityError> {
                #[allow(unused_mut)]
                let mut __bag = #krate::entity::PropertyBag::of(#krate::entity::Entity::key(self)?);
                #(#writes)*
                ::core::result::Result::Ok(__bag)
            }
        }
    }

    fn from_bag(&self) -> TokenStream {
        let krate = &self.krate;
        let mut read = HashSet::new();
        let partition = self.read_key(&self.model.partition, "Partition", "partition", &mut read);
        let row = self.read_key(&self.model.row, "Row", "row", &mut read);
        let properties = self.find_properties();
        let values = self.model.fields.iter().map(|field| self.value(field));
        quote! {
            fn from_bag(
                __bag: #krate::entity::PropertyBag,
            ) -> ::core::result::Result<Self, #krate::entity::EntityError> {
                #partition
                #row
                #properties
                ::core::result::Result::Ok(Self { #(#values,)* })
            }
        }
    }

    /// Takes a key apart. A field that was read from the other key must have the same text here.
    fn read_key(&self, template: &Template, key: &str, member: &str, read: &mut HashSet<String>) -> TokenStream {
        let krate = &self.krate;
        let key = Ident::new(key, Span::call_site());
        let member = Ident::new(member, Span::call_site());
        let mut code = Vec::new();
        let mut run: Vec<(&str, Format)> = Vec::new();
        let mut runs = Vec::new();
        for part in &template.parts {
            match part {
                Part::Field(name, format) => run.push((name, *format)),
                Part::Literal(literal) => runs.push((std::mem::take(&mut run), Some(literal))),
            }
        }
        runs.push((run, None));
        for (run, literal) in runs {
            let texts: Vec<_> = run.iter().map(|(name, _)| format_ident!("__text_{}", name)).collect();
            let widths = run.iter().map(|(name, format)| {
                let (ty, format) = (self.field(name).ty, format_type(krate, *format));
                quote_spanned!(ty.span()=> <#format as #krate::entity::KeyFormat<#ty>>::WIDTH)
            });
            let literal = match literal {
                Some(literal) => quote!(::core::option::Option::Some(#literal)),
                None => quote!(::core::option::Option::None),
            };
            code.push(quote!(let [#(#texts),*] = __reader.run([#(#widths),*], #literal)?;));
            for ((name, format), text) in run.iter().zip(&texts) {
                let (ty, format) = (self.field(name).ty, format_type(krate, *format));
                let value = format_ident!("__key_{}", name);
                code.push(if read.insert((*name).to_owned()) {
                    quote_spanned!(ty.span()=> let #value = __reader.part::<#ty, #format>(#name, #text)?;)
                } else {
                    quote_spanned!(ty.span()=> __reader.check::<#ty, #format>(#name, #text, &#value)?;)
                });
            }
        }
        quote! {
            let mut __reader = #krate::entity::derive_support::KeyReader::new(
                #krate::entity::KeyName::#key,
                __bag.key.#member.as_str(),
            );
            #(#code)*
        }
    }

    /// Finds all properties in one pass.
    fn find_properties(&self) -> TokenStream {
        let krate = &self.krate;
        let mut declarations = Vec::new();
        let mut arms = Vec::new();
        for field in &self.model.fields {
            match &field.kind {
                Kind::Property(property) => {
                    let variable = format_ident!("__value_{}", field.name());
                    let name = &property.name;
                    declarations.push(quote!(let mut #variable = ::core::option::Option::None;));
                    arms.push(quote!(#name => #variable = ::core::option::Option::Some(__value),));
                }
                // The value is that of the key.
                Kind::Key { stored: Some(name) } => arms.push(quote!(#name => {})),
                _ => {}
            }
        }
        let has_rest = self.model.fields.iter().any(|field| matches!(field.kind, Kind::Rest));
        if !has_rest && declarations.is_empty() {
            return TokenStream::new();
        }
        let rest = if has_rest {
            declarations.push(quote!(let mut __rest = #krate::entity::Properties::default();));
            quote!(__name => #krate::entity::derive_support::keep(&mut __rest, __name, __value)?,)
        } else {
            quote!(_ => {})
        };
        quote! {
            #(#declarations)*
            for (__name, __value) in __bag.properties.iter() {
                match __name {
                    #(#arms)*
                    #rest
                }
            }
        }
    }

    /// The value of a field of the decoded entity.
    fn value(&self, field: &Field<'_>) -> TokenStream {
        let krate = &self.krate;
        let support = quote!(#krate::entity::derive_support);
        let (ident, ty) = (field.ident, field.ty);
        match &field.kind {
            Kind::Key { .. } => {
                let value = format_ident!("__key_{}", field.name());
                quote!(#ident: #value)
            }
            Kind::Property(Property { name, is_json, mismatch, .. }) => {
                let variable = format_ident!("__value_{}", field.name());
                let value = decode(krate, ty, mismatch, *is_json, &quote!(#name), &quote!(#variable));
                quote!(#ident: #value)
            }
            Kind::Skip(path) => {
                let default = default_function(ty, path.as_ref());
                quote_spanned!(ty.span()=> #ident: (#default)())
            }
            Kind::Rest => quote!(#ident: __rest),
            Kind::ETag => quote_spanned!(ty.span()=> #ident: ::core::clone::Clone::clone(&__bag.etag)),
            Kind::Timestamp => {
                quote_spanned!(ty.span()=> #ident: #support::read_timestamp::<#ty>(&__bag)?)
            }
        }
    }
}

/// A field of the generated struct of properties.
struct Entry {
    name: Ident,
    vis: syn::Visibility,
    ty: TokenStream,
    value: TokenStream,
    doc: String,
}

fn format_type(krate: &Path, format: Format) -> TokenStream {
    match format {
        Format::Plain => quote!(#krate::entity::Plain),
        Format::Padded(digits) => quote!(#krate::entity::Padded<#digits>),
        Format::Inverted => quote!(#krate::entity::Inverted),
    }
}

fn default_function(ty: &syn::Type, path: Option<&Path>) -> TokenStream {
    match path {
        Some(path) => quote!(#path),
        None => quote_spanned!(ty.span()=> <#ty as ::core::default::Default>::default),
    }
}

/// Decodes a property: an expression with `?`.
fn decode(
    krate: &Path,
    ty: &syn::Type,
    mismatch: &Mismatch,
    is_json: bool,
    name: &TokenStream,
    value: &TokenStream,
) -> TokenStream {
    let result = decode_result(krate, ty, mismatch, is_json, name, value);
    quote!(#result?)
}

fn decode_result(
    krate: &Path,
    ty: &syn::Type,
    mismatch: &Mismatch,
    is_json: bool,
    name: &TokenStream,
    value: &TokenStream,
) -> TokenStream {
    let suffix = if is_json { "_json" } else { "" };
    let (function, default) = match mismatch {
        Mismatch::Error => ("read", None),
        Mismatch::Default(path) => ("read_or", Some(default_function(ty, path.as_ref()))),
        Mismatch::Lenient(path) => ("read_lenient", Some(default_function(ty, path.as_ref()))),
    };
    let function = format_ident!("{function}{suffix}");
    let default = default.into_iter();
    quote_spanned!(ty.span()=> #krate::entity::derive_support::#function::<#ty>(#name, #value #(, #default)*))
}

/// The function that reads a property of a bag, for projections.
fn read_property(krate: &Path, ty: &syn::Type, mismatch: &Mismatch, is_json: bool) -> TokenStream {
    let read = decode_result(krate, ty, mismatch, is_json, &quote!(__name), &quote!(__bag.properties.get(__name)));
    quote!(|__bag, __name| #read)
}
