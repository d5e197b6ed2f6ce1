//! Background jobs for Rust services.
