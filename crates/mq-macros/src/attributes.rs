//! What stands in `#[job(…)]`.

use proc_macro2::TokenTree;
use syn::meta::ParseNestedMeta;
use syn::parse::ParseStream;
use syn::{Attribute, DeriveInput, Error, Ident, LitStr, Path, Result, Token, Type};

use crate::policies::{Backoff, Keep, set};
use crate::texts;

/// The attributes of one type, as given.
#[derive(Default)]
pub(crate) struct JobAttributes {
    pub(crate) name: Option<LitStr>,
    pub(crate) queue: Option<LitStr>,
    pub(crate) store: Option<Type>,
    pub(crate) output: Option<Type>,
    pub(crate) error: Option<Type>,
    pub(crate) attempts: Option<u32>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) timeout: Option<std::time::Duration>,
    pub(crate) priority: Option<i32>,
    pub(crate) keep: Option<Keep>,
    pub(crate) key: Option<Path>,
    pub(crate) dedupe: Option<Path>,
    pub(crate) metadata: Option<Path>,
    pub(crate) retryable: Option<Path>,
    pub(crate) krate: Option<Path>,
}

const KNOWN: &str = "name, queue, store, output, error, attempts, backoff, timeout, priority, keep, key, dedupe, metadata, retryable and crate";

impl JobAttributes {
    /// Reads what can be read; the mistakes come back beside it, so that one
    /// does not hide the others, nor bring down what uses the type.
    pub(crate) fn of(input: &DeriveInput) -> (Self, Option<Error>) {
        let mut attributes = Self::default();
        let mut mistakes = Mistakes::default();
        for attribute in input.attrs.iter().filter(|it| it.path().is_ident("job")) {
            let read = attributes.read(attribute, &mut mistakes);
            mistakes.note(read);
        }
        if attributes.name.is_none() && mistakes.0.is_none() {
            mistakes.note(Err(Error::new(
                input.ident.span(),
                "a job has a name, which handlers are registered by: add #[job(name = \"send-email\")]",
            )));
        }
        (attributes, mistakes.0)
    }

    fn read(&mut self, attribute: &Attribute, mistakes: &mut Mistakes) -> Result<()> {
        attribute.parse_nested_meta(|meta| {
            if let Err(mistake) = self.read_one(&meta) {
                mistakes.note(Err(mistake));
                skip_to_comma(meta.input)?;
            }
            Ok(())
        })
    }

    fn read_one(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let Some(attribute) = meta.path.get_ident() else {
            return Err(meta.error(format!("unknown attribute: a job has {KNOWN}")));
        };
        match attribute.to_string().as_str() {
            "name" => set(&mut self.name, attribute, texts::job_name(meta.value()?)?),
            "queue" => set(
                &mut self.queue,
                attribute,
                texts::queue_name(meta.value()?)?,
            ),
            "store" => set(&mut self.store, attribute, a_type(meta, attribute)?),
            "output" => set(&mut self.output, attribute, a_type(meta, attribute)?),
            "error" => set(&mut self.error, attribute, a_type(meta, attribute)?),
            "attempts" => set(
                &mut self.attempts,
                attribute,
                texts::attempts(meta.value()?)?,
            ),
            "backoff" => set(&mut self.backoff, attribute, Backoff::parse(meta.value()?)?),
            "timeout" => set(&mut self.timeout, attribute, texts::timeout(meta.value()?)?),
            "priority" => set(
                &mut self.priority,
                attribute,
                texts::priority(meta.value()?)?,
            ),
            "keep" => set(&mut self.keep, attribute, Keep::parse(meta)?),
            "key" => set(&mut self.key, attribute, a_function(meta, attribute)?),
            "dedupe" => set(&mut self.dedupe, attribute, a_function(meta, attribute)?),
            "metadata" => set(&mut self.metadata, attribute, a_function(meta, attribute)?),
            "retryable" => set(&mut self.retryable, attribute, a_function(meta, attribute)?),
            "crate" => set(&mut self.krate, attribute, a_crate(meta)?),
            _ => Err(meta.error(format!(
                "unknown attribute `{attribute}`: a job has {KNOWN}"
            ))),
        }
    }
}

fn a_type(meta: &ParseNestedMeta<'_>, attribute: &Ident) -> Result<Type> {
    meta.value()?.parse().map_err(|error| {
        Error::new(
            error.span(),
            format!("`{attribute}` takes a type, such as {attribute} = MyType"),
        )
    })
}

fn a_function(meta: &ParseNestedMeta<'_>, attribute: &Ident) -> Result<Path> {
    meta.value()?.parse().map_err(|error| {
        Error::new(
            error.span(),
            format!("`{attribute}` takes the path of a function, such as {attribute} = Self::{attribute}_of"),
        )
    })
}

fn a_crate(meta: &ParseNestedMeta<'_>) -> Result<Path> {
    meta.value()?.call(Path::parse_mod_style).map_err(|error| {
        Error::new(
            error.span(),
            "`crate` takes the path of mq or mq-core, such as crate = my_framework::mq",
        )
    })
}

/// Mistakes, gathered into one error.
#[derive(Default)]
struct Mistakes(Option<Error>);

impl Mistakes {
    fn note(&mut self, outcome: Result<()>) {
        match (&mut self.0, outcome) {
            (_, Ok(())) => {}
            (Some(all), Err(one)) => all.combine(one),
            (none, Err(one)) => *none = Some(one),
        }
    }
}

fn skip_to_comma(input: ParseStream<'_>) -> Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}
