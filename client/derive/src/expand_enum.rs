//! Generates the code for an enum of entity types.

use crate::attributes::Errors;
use crate::attributes::{TypeAttributes, VariantAttributes};
use crate::fields::plain_name;
use model::name::{PARTITION_KEY, ROW_KEY, TIMESTAMP, check_property_name};
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use std::collections::HashSet;
use syn::spanned::Spanned;
use syn::{DataEnum, DeriveInput, Fields, Ident, LitStr, Path, Type};

struct Variant<'a> {
    ident: &'a Ident,
    ty: &'a Type,
    /// `None` for the variant that is marked `other`.
    kind: Option<String>,
}

/// Returns the code for an enum, or all errors in it.
pub(crate) fn expand(input: &DeriveInput, data: &DataEnum) -> syn::Result<TokenStream> {
    let mut errors = Errors::default();
    let attributes = TypeAttributes::of_enum(&input.attrs, &mut errors);
    if let Some(parameter) = input.generics.params.first() {
        errors.add(parameter, "an enum of entity types cannot have generic parameters");
    }
    let tag = attributes.tag.as_ref().map(|tag| &tag.value);
    match tag {
        Some(tag) => check_tag(tag, &mut errors),
        None => errors.add(
            &input.ident,
            "an enum of entity types requires a property for the kind: `#[entity(tag = \"EntityType\")]`",
        ),
    }
    let variants: Vec<_> = data.variants.iter().filter_map(|variant| read(variant, &mut errors)).collect();
    check_variants(&input.ident, &variants, &mut errors);
    errors.finish()?;
    let tag = tag.map(LitStr::value).unwrap_or_default();
    Ok(code(input, &variants, &tag, &attributes.krate()))
}

fn check_tag(tag: &LitStr, errors: &mut Errors) {
    let name = tag.value();
    if check_property_name(&name).is_err() || [PARTITION_KEY, ROW_KEY, TIMESTAMP].contains(&name.as_str()) {
        errors.add(tag, format!("`{name}` is not the name of a custom property"));
    }
}

fn read<'a>(variant: &'a syn::Variant, errors: &mut Errors) -> Option<Variant<'a>> {
    let attributes = VariantAttributes::read(&variant.attrs, errors);
    if let (Some(kind), Some(_)) = (&attributes.kind, &attributes.other) {
        errors.add(&kind.path, "`kind` and `other` are mutually exclusive");
    }
    let ty = match &variant.fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => fields.unnamed.first().map(|field| &field.ty),
        _ => None,
    };
    let Some(ty) = ty else {
        errors.add(&variant.ident, format!("a variant must contain one entity type: `{0}({0})`", variant.ident));
        return None;
    };
    let kind = match (&attributes.other, &attributes.kind) {
        (Some(_), _) => None,
        (None, Some(kind)) => Some(kind.value.value()),
        (None, None) => Some(plain_name(&variant.ident)),
    };
    Some(Variant { ident: &variant.ident, ty, kind })
}

fn check_variants(ident: &Ident, variants: &[Variant<'_>], errors: &mut Errors) {
    let mut seen = HashSet::new();
    for variant in variants {
        if !seen.insert(&variant.kind) {
            errors.add(
                variant.ident,
                match &variant.kind {
                    Some(kind) => format!("two variants have the kind \"{kind}\""),
                    None => "two variants are marked `other`".to_owned(),
                },
            );
        }
    }
    if variants.is_empty() {
        errors.add(ident, "an enum of entity types must have at least one variant");
    }
}

fn code(input: &DeriveInput, variants: &[Variant<'_>], tag: &str, krate: &Path) -> TokenStream {
    let (ident, vis) = (&input.ident, &input.vis);
    let properties_ident = format_ident!("{}Properties", ident);
    let title = format!("The properties of `{ident}`, for filters and projections.");
    let methods = methods(variants, tag, krate);
    let types: Vec<_> = variants.iter().map(|variant| variant.ty).collect();
    let text_key = quote!(#krate::filter::KeyProperty<#ident, ::std::string::String, #krate::entity::Plain>);
    quote! {
        const _: () = {
            #[doc = #title]
            #[derive(::core::clone::Clone, ::core::marker::Copy)]
            #vis struct #properties_ident {
                /// The partition key as a string.
                #vis partition_key: #text_key,
                /// The row key as a string.
                #vis row_key: #text_key,
                /// The time of the last write.
                #vis timestamp: #krate::filter::Property<#ident, #krate::entity::DateTime>,
                /// The kind of the entity, which identifies the variant.
                #vis kind: #krate::filter::Property<#ident, ::std::string::String>,
            }

            const __ENCRYPTED: usize = 0 #(+ <#types as #krate::entity::Entity>::ENCRYPTED.len())*;

            #[automatically_derived]
            impl #krate::entity::Entity for #ident {
                type Properties = #properties_ident;

                const PROPERTIES: Self::Properties = #properties_ident {
                    partition_key: #krate::filter::KeyProperty::new(#krate::entity::KeyName::Partition),
                    row_key: #krate::filter::KeyProperty::new(#krate::entity::KeyName::Row),
                    timestamp: #krate::filter::timestamp(),
                    kind: #krate::filter::Property::named(#tag, |__bag, __name| __bag.get(__name)),
                };

                const SELECT: ::core::option::Option<&'static [&'static str]> = ::core::option::Option::None;

                const ENCRYPTED: &'static [&'static str] = &#krate::entity::derive_support::concat::<__ENCRYPTED>(
                    &[#(<#types as #krate::entity::Entity>::ENCRYPTED),*],
                );

                #methods
            }
        };
    }
}

fn methods(variants: &[Variant<'_>], tag: &str, krate: &Path) -> TokenStream {
    let support = quote!(#krate::entity::derive_support);
    let result = |ty: TokenStream| quote!(::core::result::Result<#ty, #krate::entity::EntityError>);
    let (key_type, bag_type, self_type) =
        (result(quote!(#krate::entity::EntityKey)), result(quote!(#krate::entity::PropertyBag)), result(quote!(Self)));
    let key = variants.iter().map(|Variant { ident, ty, .. }| {
        quote_spanned!(ty.span()=> Self::#ident(__entity) => <#ty as #krate::entity::Entity>::key(__entity))
    });
    let to_bag = variants.iter().map(|Variant { ident, ty, kind }| {
        let bag = quote_spanned!(ty.span()=> <#ty as #krate::entity::Entity>::to_bag(__entity));
        let bag = kind.as_ref().map_or_else(|| bag.clone(), |kind| quote!(#support::with_kind(#bag?, #tag, #kind)));
        quote!(Self::#ident(__entity) => #bag)
    });
    let from_bag = variants.iter().filter_map(|Variant { ident, ty, kind }| {
        kind.as_ref().map(|kind| {
            quote_spanned!(ty.span()=> ::core::option::Option::Some(#kind) => {
                __bag.properties.remove(#tag);
                <#ty as #krate::entity::Entity>::from_bag(__bag).map(Self::#ident)
            })
        })
    });
    let other = variants.iter().find(|variant| variant.kind.is_none()).map_or_else(
        || quote!(_ => ::core::result::Result::Err(#support::unknown_kind(#tag, __kind))),
        |Variant { ident, ty, .. }| {
            quote_spanned!(ty.span()=> _ => <#ty as #krate::entity::Entity>::from_bag(__bag).map(Self::#ident))
        },
    );
    quote! {
        fn key(&self) -> #key_type {
            match self { #(#key,)* }
        }

        fn to_bag(&self) -> #bag_type {
            match self { #(#to_bag,)* }
        }

        #[allow(unused_mut)]
        fn from_bag(mut __bag: #krate::entity::PropertyBag) -> #self_type {
            let __kind = #support::kind(&__bag, #tag);
            match __kind.as_deref() {
                #(#from_bag)*
                #other
            }
        }
    }
}
