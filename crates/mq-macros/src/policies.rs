//! The policies that attributes spell out: backoff and retention.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::parse::ParseStream;
use syn::{Error, Ident, Lit, LitStr, Result, Token, parenthesized, token};

use crate::texts;

/// Sets what may be given once.
pub(crate) fn set<T>(slot: &mut Option<T>, attribute: &Ident, value: T) -> Result<()> {
    if slot.is_some() {
        return Err(Error::new(
            attribute.span(),
            format!("`{attribute}` is given twice: remove one of them"),
        ));
    }
    *slot = Some(value);
    Ok(())
}

/// Takes what is left after a mistake, so that the parser of the parentheses
/// around it does not report that on top.
fn all_read<T>(input: ParseStream<'_>, outcome: Result<T>) -> Result<T> {
    if outcome.is_err() {
        input.parse::<TokenStream>()?;
    }
    outcome
}

/// A duration as a constant expression.
pub(crate) fn duration_expression(duration: Duration) -> TokenStream {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    quote!(::core::time::Duration::new(#seconds, #nanos))
}

/// How long to wait between attempts.
pub(crate) enum Backoff {
    Fixed(Duration),
    Exponential(Duration, Growth),
}

/// How an exponential backoff grows.
#[derive(Default)]
pub(crate) struct Growth {
    factor: Option<f64>,
    max: Option<Duration>,
    jitter: Option<f64>,
}

const BACKOFFS: &str = "`backoff` takes \"5s\", fixed(\"5s\") or exponential(\"1s\", factor = 2.0, max = \"5m\", jitter = 0.1)";

impl Backoff {
    /// What follows `backoff =`.
    pub(crate) fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(LitStr) {
            return texts::duration(input, "backoff").map(Self::Fixed);
        }
        let kind: Ident = input
            .parse()
            .map_err(|error| Error::new(error.span(), BACKOFFS))?;
        let exponential = kind == "exponential";
        if !(exponential || kind == "fixed") || !input.peek(token::Paren) {
            return Err(Error::new(kind.span(), BACKOFFS));
        }
        let content;
        parenthesized!(content in input);
        let backoff = if exponential {
            Self::exponential(&content)
        } else {
            Self::fixed(&content)
        };
        all_read(&content, backoff)
    }

    fn fixed(input: ParseStream<'_>) -> Result<Self> {
        let delay = texts::duration(input, "backoff")?;
        if !input.is_empty() {
            return Err(input.error("a fixed backoff is a delay and nothing else: fixed(\"5s\")"));
        }
        Ok(Self::Fixed(delay))
    }

    fn exponential(input: ParseStream<'_>) -> Result<Self> {
        let delay = texts::duration(input, "backoff")?;
        Growth::parse(input).map(|growth| Self::Exponential(delay, growth))
    }

    pub(crate) fn expression(&self, krate: &TokenStream) -> TokenStream {
        match self {
            Self::Fixed(delay) => {
                let delay = duration_expression(*delay);
                quote!(#krate::Backoff::fixed(#delay))
            }
            Self::Exponential(delay, growth) => {
                let delay = duration_expression(*delay);
                let factor = growth.factor.map(|by| quote!(.factor(#by)));
                let max = growth
                    .max
                    .map(duration_expression)
                    .map(|max| quote!(.max(#max)));
                let jitter = growth.jitter.map(|share| quote!(.jitter(#share)));
                quote!(#krate::Backoff::exponential(#delay) #factor #max #jitter)
            }
        }
    }
}

impl Growth {
    /// What follows the delay of an exponential backoff.
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut growth = Self::default();
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            let setting: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            match setting.to_string().as_str() {
                "factor" => set(&mut growth.factor, &setting, factor(input)?)?,
                "max" => set(&mut growth.max, &setting, texts::duration(input, "max")?)?,
                "jitter" => set(&mut growth.jitter, &setting, jitter(input)?)?,
                _ => {
                    return Err(Error::new(
                        setting.span(),
                        format!(
                            "unknown setting `{setting}`: an exponential backoff has factor, max and jitter"
                        ),
                    ));
                }
            }
        }
        Ok(growth)
    }
}

fn factor(input: ParseStream<'_>) -> Result<f64> {
    let (factor, span) = texts::number(input, "factor")?;
    if factor.is_finite() && factor >= 1.0 {
        return Ok(factor);
    }
    Err(Error::new(
        span,
        "`factor` is out of range: a finite number of at least 1",
    ))
}

fn jitter(input: ParseStream<'_>) -> Result<f64> {
    let (jitter, span) = texts::number(input, "jitter")?;
    if (0.0..=1.0).contains(&jitter) {
        return Ok(jitter);
    }
    Err(Error::new(span, "`jitter` is out of range: from 0 to 1"))
}

/// How long finished jobs are kept, by the state they ended in.
#[derive(Default)]
pub(crate) struct Keep {
    completed: Option<Retention>,
    failed: Option<Retention>,
    cancelled: Option<Retention>,
}

/// How long, or how many, for one state.
#[derive(Clone, Copy, Default)]
pub(crate) struct Retention {
    count: Option<u32>,
    age: Option<Duration>,
}

const RETENTIONS: &str = "takes an age in quotes, such as \"1d\", or a count, such as 100";

impl Keep {
    /// What follows `keep`: one retention for all states, or one for each.
    pub(crate) fn parse(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        if meta.input.peek(Token![=]) {
            let all = Retention::value(meta.value()?, "keep")?;
            return Ok(Self {
                completed: Some(all),
                failed: Some(all),
                cancelled: Some(all),
            });
        }
        if !meta.input.peek(token::Paren) {
            return Err(meta.error("`keep` takes \"1d\", 100 or (completed = \"1d\", failed = \"30d\", cancelled = 10)"));
        }
        let mut keep = Self::default();
        meta.parse_nested_meta(|meta| all_read(meta.input, keep.read_state(&meta)))?;
        Ok(keep)
    }

    fn read_state(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let state = meta.path.require_ident()?;
        let slot = match state.to_string().as_str() {
            "completed" => &mut self.completed,
            "failed" => &mut self.failed,
            "cancelled" => &mut self.cancelled,
            _ => {
                return Err(meta.error(format!(
                    "unknown state `{state}`: jobs end completed, failed or cancelled"
                )));
            }
        };
        set(slot, state, Retention::parse(meta, state)?)
    }

    pub(crate) fn expression(&self, krate: &TokenStream) -> TokenStream {
        let retention = |retention: Option<Retention>| match retention {
            None => quote!(::core::option::Option::None),
            Some(Retention { count, age }) => {
                let count = option(count.map(|count| quote!(#count)));
                let age = option(age.map(duration_expression));
                quote!(::core::option::Option::Some(#krate::Retention { count: #count, age: #age }))
            }
        };
        let completed = retention(self.completed);
        let failed = retention(self.failed);
        let cancelled = retention(self.cancelled);
        quote!(#krate::Keep { completed: #completed, failed: #failed, cancelled: #cancelled })
    }
}

impl Retention {
    /// What follows the name of a state.
    fn parse(meta: &ParseNestedMeta<'_>, state: &Ident) -> Result<Self> {
        if !meta.input.peek(token::Paren) {
            let value = meta
                .value()
                .map_err(|error| Error::new(error.span(), format!("`{state}` {RETENTIONS}")))?;
            return Self::value(value, &state.to_string());
        }
        let mut retention = Self::default();
        meta.parse_nested_meta(|meta| all_read(meta.input, retention.read_setting(&meta)))?;
        Ok(retention)
    }

    fn read_setting(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let setting = meta.path.require_ident()?;
        match setting.to_string().as_str() {
            "count" => set(&mut self.count, setting, texts::count(meta.value()?)?),
            "age" => set(
                &mut self.age,
                setting,
                texts::duration(meta.value()?, "age")?,
            ),
            _ => Err(meta.error(format!(
                "unknown setting `{setting}`: retention is by count, age or both"
            ))),
        }
    }

    /// An age or a count.
    fn value(input: ParseStream<'_>, attribute: &str) -> Result<Self> {
        let refused =
            |error: Error| Error::new(error.span(), format!("`{attribute}` {RETENTIONS}"));
        match input.parse::<Lit>().map_err(refused)? {
            Lit::Str(text) => Ok(Self {
                age: Some(texts::duration_of(&text, attribute)?),
                count: None,
            }),
            Lit::Int(number) => Ok(Self {
                count: Some(texts::base10(&number, attribute)?),
                age: None,
            }),
            other => Err(refused(Error::new_spanned(other, ""))),
        }
    }
}

/// An optional value as an expression.
pub(crate) fn option(value: Option<TokenStream>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}
