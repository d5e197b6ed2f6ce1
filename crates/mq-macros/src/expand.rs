//! From attributes to the implementation.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Path, Result, Type};

use crate::attributes::JobAttributes;
use crate::policies::{duration_expression, option};

/// The implementation, beside what is wrong with the attributes: with an
/// implementation in place the compiler complains of nothing else.
pub(crate) fn derive(input: &DeriveInput) -> TokenStream {
    let (attributes, mistakes) = JobAttributes::of(input);
    let mistakes = mistakes.map(Error::into_compile_error);
    let implementation = shape(input)
        .and_then(|()| implementation(&input.ident, &attributes))
        .unwrap_or_else(Error::into_compile_error);
    quote!(#mistakes #implementation)
}

/// Refuses types that cannot be jobs.
fn shape(input: &DeriveInput) -> Result<()> {
    if let Data::Union(union) = &input.data {
        return Err(Error::new(
            union.union_token.span,
            "a union cannot be a job: it has no JSON form; use a struct or an enum",
        ));
    }
    let Some(parameter) = input.generics.params.first() else {
        return Ok(());
    };
    let why = match parameter {
        syn::GenericParam::Lifetime(_) => {
            "a job cannot borrow, since it outlives the call that enqueues it: own the data"
        }
        _ => {
            "a job cannot be generic, since one name stands for one payload type: derive Job for a struct around each concrete type"
        }
    };
    Err(Error::new_spanned(parameter, why))
}

fn implementation(job: &Ident, attributes: &JobAttributes) -> Result<TokenStream> {
    let krate = &crate_path(attributes.krate.as_ref())?;
    let name = attributes
        .name
        .as_ref()
        .map_or_else(|| job.to_string(), syn::LitStr::value);
    let queue = attributes
        .queue
        .as_ref()
        .map(|queue| quote!(const QUEUE: &'static str = #queue;));
    let store = type_or(attributes.store.as_ref(), quote!(#krate::DefaultStore));
    let output = type_or(attributes.output.as_ref(), quote!(()));
    let error = type_or(attributes.error.as_ref(), quote!(#krate::Failure));
    let defaults = defaults(attributes, krate);
    let key = attributes.key.as_ref().map(|path| {
        let body = converted(path, quote!(::core::option::Option<::std::string::String>));
        quote!(fn idempotency_key(&self) -> ::core::option::Option<::std::string::String> { #body })
    });
    let dedupe = attributes.dedupe.as_ref().map(|path| {
        let body = converted(path, quote!(::core::option::Option<#krate::Dedupe>));
        quote!(fn dedupe(&self) -> ::core::option::Option<#krate::Dedupe> { #body })
    });
    let metadata = attributes.metadata.as_ref().map(|path| {
        let body = converted(path, quote!(#krate::Metadata));
        quote!(fn metadata(&self) -> #krate::Metadata { #body })
    });
    let retryable = attributes.retryable.as_ref().map(|path| {
        let call = quote_spanned!(path.span()=> #path(error));
        quote!(fn retryable(error: &Self::Error) -> bool { #call })
    });
    Ok(quote! {
        #[automatically_derived]
        impl #krate::Job for #job {
            const NAME: &'static str = #name;
            #queue
            type Store = #store;
            type Output = #output;
            type Error = #error;
            #defaults
            #key
            #dedupe
            #metadata
            #retryable
        }
    })
}

/// `fn defaults`, unless there is nothing to say.
fn defaults(attributes: &JobAttributes, krate: &TokenStream) -> Option<TokenStream> {
    let fields: Vec<_> = [
        attributes
            .priority
            .map(|priority| quote!(priority: #priority)),
        attributes
            .attempts
            .map(|attempts| quote!(attempts: #attempts)),
        attributes.backoff.as_ref().map(|backoff| {
            let backoff = option(Some(backoff.expression(krate)));
            quote!(backoff: #backoff)
        }),
        attributes.timeout.map(|timeout| {
            let timeout = option(Some(duration_expression(timeout)));
            quote!(timeout: #timeout)
        }),
        attributes.keep.as_ref().map(|keep| {
            let keep = option(Some(keep.expression(krate)));
            quote!(keep: #keep)
        }),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!fields.is_empty()).then(|| {
        quote! {
            #[allow(clippy::needless_update)]
            fn defaults() -> #krate::JobDefaults {
                #krate::JobDefaults {
                    #(#fields,)*
                    ..::core::default::Default::default()
                }
            }
        }
    })
}

fn type_or(given: Option<&Type>, default: TokenStream) -> TokenStream {
    given.map_or(default, |given| quote!(#given))
}

/// A call of the function at `path`, turned into `wanted`.
fn converted(path: &Path, wanted: TokenStream) -> TokenStream {
    quote_spanned!(path.span()=> ::core::convert::Into::<#wanted>::into(#path(self)))
}

/// Where the types are that the implementation refers to.
fn crate_path(given: Option<&Path>) -> Result<TokenStream> {
    if let Some(path) = given {
        return Ok(quote!(#path));
    }
    // Without Cargo there is no manifest to look into; the facade is the usual one.
    if std::env::var_os("CARGO_MANIFEST_DIR").is_none() {
        return Ok(quote!(::mq));
    }
    for package in ["mq-core", "mq"] {
        let found = match crate_name(package) {
            Ok(FoundCrate::Name(name)) => name,
            // The package itself, its tests and examples included.
            Ok(FoundCrate::Itself) => package.replace('-', "_"),
            Err(_) => continue,
        };
        let found = Ident::new(&found, Span::call_site());
        return Ok(quote!(::#found));
    }
    Err(Error::new(
        Span::call_site(),
        "neither mq nor mq-core is a dependency of this package: add one, or say where it is with #[job(crate = path)]",
    ))
}
