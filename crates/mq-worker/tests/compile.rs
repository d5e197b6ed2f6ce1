//! What must not compile, and what the compiler then says.

#[test]
fn a_handler_on_another_stores_worker_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
