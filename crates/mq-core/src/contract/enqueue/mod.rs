//! Cases of the room enqueue.

mod dedupe;
mod exact;
mod ids;
mod order;
mod refused;
mod replace;
mod when;

use super::Case;

pub(super) const CASES: &[&[Case]] = &[
    ids::CASES,
    when::CASES,
    order::CASES,
    dedupe::CASES,
    replace::CASES,
    exact::CASES,
    refused::CASES,
];

#[doc(hidden)]
#[macro_export]
macro_rules! __contract_enqueue {
    () => {
        mod enqueue {
            pub(super) const CASES: &[&[&str]] = &[
                ids::CASES,
                when::CASES,
                order::CASES,
                dedupe::CASES,
                replace::CASES,
                exact::CASES,
                refused::CASES,
            ];
            $crate::__contract_enqueue_ids!();
            $crate::__contract_enqueue_when!();
            $crate::__contract_enqueue_order!();
            $crate::__contract_enqueue_dedupe!();
            $crate::__contract_enqueue_replace!();
            $crate::__contract_enqueue_exact!();
            $crate::__contract_enqueue_refused!();
        }
    };
}
