use crate::expand_struct::Expansion;
use crate::fields::{Field, Kind, Mismatch, Property};
use crate::template::{Format, Part, Template};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use std::collections::HashSet;
use syn::spanned::Spanned;
use syn::{Ident, Path};

impl Expansion<'_> {
    pub(crate) fn encoder(&self) -> TokenStream {
        let krate = &self.krate;
        let support = quote!(#krate::entity::derive_support);
        let mut writes = Vec::new();
        for field in &self.model.fields {
            let (ident, ty) = (field.ident, field.ty);
            writes.push(match &field.kind {
                Kind::Key { stored: None } | Kind::Skip(_) => continue,
                Kind::Key { stored: Some(name) } => {
                    let codec = codec(krate, ty, false);
                    quote_spanned!(ty.span()=> #codec::write(&self.#ident, &mut __bag, #name)?;)
                }
                Kind::Property(Property { name, is_json, .. }) => {
                    let codec = codec(krate, ty, *is_json);
                    quote_spanned!(ty.span()=> #codec::write(&self.#ident, &mut __bag, #name)?;)
                }
                Kind::Rest => continue,
                Kind::ETag => quote_spanned!(ty.span()=> __bag.etag = <#ty as #support::ETagField>::write(&self.#ident);),
                Kind::Timestamp => {
                    quote_spanned!(ty.span()=> __bag.timestamp = <#ty as #support::TimestampField>::write(&self.#ident)?;)
                }
            });
        }
        // Writing the rest last detects properties in it that have the name of another property.
        for field in self.model.fields.iter().filter(|field| matches!(field.kind, Kind::Rest)) {
            let (ident, ty) = (field.ident, field.ty);
            let names = self.model.fields.iter().filter_map(Field::property);
            writes.push(quote_spanned!(ty.span()=> <#ty as #support::RestField>::write(&self.#ident, &mut __bag, &[#(#names),*])?;));
        }
        quote! {
            fn to_bag(&self) -> ::core::result::Result<#krate::entity::PropertyBag, #krate::entity::EntityError> {
                #[allow(unused_mut)]
                let mut __bag = #krate::entity::PropertyBag::from_key(#krate::entity::Entity::key(self)?);
                #(#writes)*
                ::core::result::Result::Ok(__bag)
            }
        }
    }

    pub(crate) fn decoder(&self) -> TokenStream {
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

    /// A field that was already read from the other key must have the same value in this key.
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
                let part = key_part(krate, self.field(name).ty, *format);
                quote!(#part::WIDTH)
            });
            let literal = literal.map_or_else(
                || quote!(::core::option::Option::None),
                |literal| quote!(::core::option::Option::Some(#literal)),
            );
            code.push(quote!(let [#(#texts),*] = __reader.run([#(#widths),*], #literal)?;));
            for ((name, format), text) in run.iter().zip(&texts) {
                let part = key_part(krate, self.field(name).ty, *format);
                let value = format_ident!("__key_{}", name);
                code.push(if read.insert((*name).to_owned()) {
                    quote!(let #value = #part::read(&__reader, #name, #text)?;)
                } else {
                    quote!(#part::check(&#value, &__reader, #name, #text)?;)
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

    /// The generated code finds the values of all fields in a single pass over the properties.
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
                // The field is read from the key instead.
                Kind::Key { stored: Some(name) } => arms.push(quote!(#name => {})),
                _ => {}
            }
        }
        let has_rest = self.model.fields.iter().any(|field| matches!(field.kind, Kind::Rest));
        if !has_rest && declarations.is_empty() {
            return TokenStream::new();
        }
        let rest = if has_rest {
            declarations
                .push(quote!(let mut __rest: #krate::entity::Properties = ::core::default::Default::default();));
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
                let value = decode_result(krate, ty, mismatch, *is_json, &quote!(#name), &quote!(#variable));
                quote!(#ident: #value?)
            }
            Kind::Skip(path) => {
                let default = default_value(ty, path.as_ref());
                quote!(#ident: #default)
            }
            Kind::Rest => quote_spanned!(ty.span()=> #ident: <#ty as #support::RestField>::read(__rest)),
            Kind::ETag => quote_spanned!(ty.span()=> #ident: <#ty as #support::ETagField>::read(&__bag.etag)),
            Kind::Timestamp => {
                quote_spanned!(ty.span()=> #ident: <#ty as #support::TimestampField>::read(&__bag)?)
            }
        }
    }
}

pub(crate) fn format_type(krate: &Path, format: Format) -> TokenStream {
    match format {
        Format::Plain => quote!(#krate::entity::Plain),
        Format::Padded(digits) => quote!(#krate::entity::Padded<#digits>),
        Format::Inverted => quote!(#krate::entity::Inverted),
    }
}

/// The compiler reports an unsuitable type where the field names it. It merges the errors of all uses because they name
/// the same trait at the same place.
pub(crate) fn key_part(krate: &Path, ty: &syn::Type, format: Format) -> TokenStream {
    let format = format_type(krate, format);
    quote_spanned!(ty.span()=> <#ty as #krate::entity::derive_support::KeyPart<#format>>)
}

/// Like [`key_part`], for the type of a property.
fn codec(krate: &Path, ty: &syn::Type, is_json: bool) -> TokenStream {
    let codec = Ident::new(if is_json { "JsonField" } else { "ValueField" }, Span::call_site());
    quote_spanned!(ty.span()=> <#ty as #krate::entity::derive_support::#codec>)
}

fn default_value(ty: &syn::Type, path: Option<&Path>) -> TokenStream {
    path.map_or_else(
        || quote_spanned!(ty.span()=> <#ty as ::core::default::Default>::default()),
        |path| quote_spanned!(path.span()=> #path()),
    )
}

fn decode_result(
    krate: &Path,
    ty: &syn::Type,
    mismatch: &Mismatch,
    is_json: bool,
    name: &TokenStream,
    value: &TokenStream,
) -> TokenStream {
    let codec = codec(krate, ty, is_json);
    let (function, path) = match mismatch {
        Mismatch::Error => return quote_spanned!(ty.span()=> #codec::read(#name, #value)),
        Mismatch::Default(path) => ("read_or", path),
        Mismatch::Lenient(path) => ("read_lenient", path),
    };
    let function = Ident::new(function, Span::call_site());
    let default = default_value(ty, path.as_ref());
    // The closures keep an unsuitable type out of the arguments of the function, where it would be reported again.
    quote!(#krate::entity::derive_support::#function(#value, || #default, |__value| #codec::read(#name, __value)))
}

pub(crate) fn read_property(krate: &Path, ty: &syn::Type, mismatch: &Mismatch, is_json: bool) -> TokenStream {
    let read = decode_result(krate, ty, mismatch, is_json, &quote!(__name), &quote!(__bag.properties.get(__name)));
    quote!(|__bag, __name| #read)
}
