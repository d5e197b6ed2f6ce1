//! Brings the generated parts of `docs/flow-protocol.md` up to date: what the
//! tests compare, or, with the argument `large`, what takes minutes.

use std::process::ExitCode;

use flow_protocol::{docs, suite};

fn main() -> ExitCode {
    let parts = match std::env::args().nth(1).as_deref() {
        None => vec![
            ("small", docs::table(&suite::small())),
            ("refuted", docs::sections()),
            ("exception", docs::exception()),
            ("stray", docs::stray()),
        ],
        Some("large") => vec![("large", docs::table(&suite::large()))],
        Some(other) => {
            eprintln!("\"{other}\" is no part of the page: give `large`, or nothing");
            return ExitCode::FAILURE;
        }
    };
    match update(&parts) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", docs::path().display());
            ExitCode::FAILURE
        }
    }
}

fn update(parts: &[(&str, String)]) -> std::io::Result<()> {
    let mut page = std::fs::read_to_string(docs::path())?;
    for (name, text) in parts {
        page = docs::replaced(&page, name, text).ok_or_else(|| {
            std::io::Error::other(format!("the marks of the part \"{name}\" are missing"))
        })?;
    }
    std::fs::write(docs::path(), page)
}
