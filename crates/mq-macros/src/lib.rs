//! `#[derive(Job)]`.

use proc_macro::TokenStream;

/// Implements `Job`.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(_input: TokenStream) -> TokenStream {
    TokenStream::new()
}
