//! What must not compile, and what the compiler then says.

#[test]
fn foreign_children_missing_stores_and_stores_of_another_name_do_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
