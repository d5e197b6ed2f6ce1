//! What must not compile, and what the compiler then says.

#![cfg(feature = "derive")]

#[test]
fn mistakes_are_refused_with_their_remedy() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
