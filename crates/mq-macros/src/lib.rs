//! `#[derive(Job)]` for mq. Use it through `mq` or `mq-core`, which re-export it.

mod attributes;
mod expand;
mod policies;
mod texts;

use proc_macro::TokenStream;

/// Implements `Job` for a payload type.
///
/// The attributes only fill in the trait, so what they say can be read there,
/// and an implementation by hand can say the same.
///
/// ```
/// use mq_core::{Dedupe, Job};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(name = "send-email", queue = "email", attempts = 5, timeout = "30s", dedupe = Self::once)]
/// #[job(backoff = exponential("1s", max = "5m"), keep(completed = "1d", failed = "30d"))]
/// struct SendEmail {
///     to: String,
/// }
///
/// impl SendEmail {
///     fn once(&self) -> Dedupe {
///         Dedupe::key(&*self.to)
///     }
/// }
///
/// assert_eq!(SendEmail::NAME, "send-email");
/// assert_eq!(SendEmail::defaults().attempts, 5);
/// ```
///
/// | attribute | default | meaning |
/// | --- | --- | --- |
/// | `name = "send-email"` | required | what handlers are registered by: at most 256 bytes, no `/` |
/// | `queue = "email"` | `"default"` | the queue it waits in |
/// | `store = Durable` | `DefaultStore` | the type that names its store |
/// | `output = MessageId` | `()` | what its handler returns |
/// | `error = SendError` | `Failure` | what its handler returns when it does not succeed |
/// | `attempts = 5` | 1 | how many runs may fail before the job does |
/// | `backoff = "5s"` or `fixed("5s")`, `exponential("1s", factor = 2.0, max = "5m", jitter = 0.1)` | none | how long to wait between attempts; `factor` is 2 unless given |
/// | `timeout = "30s"` | none | how long one run may take |
/// | `priority = 10` | 0 | higher runs first |
/// | `keep = "1d"`, `keep = 100`, or `keep(completed(count = 100, age = "1d"), failed = "30d", cancelled = 10)` | for ever | how long, or how many of its kind, finished jobs are kept |
/// | `key = path` | none | a function from `&Self` to `String` or `Option<String>`: the job's id becomes `<name>/<key>` |
/// | `dedupe = path` | none | a function from `&Self` to `Dedupe` or `Option<Dedupe>` |
/// | `metadata = path` | none | a function from `&Self` to `Metadata`, or what turns into it, such as `[(String, String); N]` |
/// | `retryable = path` | always | a function from `&Error` to `bool`: whether another attempt may succeed |
/// | `crate = path` | found | where `mq` or `mq-core` is, if it is re-exported by another crate |
///
/// Durations are texts of numbers with units, such as `"250ms"`, `"30s"`,
/// `"5m"`, `"1h 30m"`, `"1d"`. What a store would refuse does not compile.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::derive(&input).into()
}
