//! Cases of the room inspect.

mod corrupt;
mod counts;
mod cursor;
mod filter;
mod get;
mod order;
mod page;

use super::Case;

pub(super) const CASES: &[&[Case]] = &[
    get::CASES,
    filter::CASES,
    order::CASES,
    page::CASES,
    cursor::CASES,
    counts::CASES,
    corrupt::CASES,
];

#[doc(hidden)]
#[macro_export]
macro_rules! __contract_inspect {
    () => {
        mod inspect {
            pub(super) const CASES: &[&[&str]] = &[
                get::CASES,
                filter::CASES,
                order::CASES,
                page::CASES,
                cursor::CASES,
                counts::CASES,
                corrupt::CASES,
            ];
            $crate::__contract_inspect_get!();
            $crate::__contract_inspect_filter!();
            $crate::__contract_inspect_order!();
            $crate::__contract_inspect_page!();
            $crate::__contract_inspect_cursor!();
            $crate::__contract_inspect_counts!();
            $crate::__contract_inspect_corrupt!();
        }
    };
}
