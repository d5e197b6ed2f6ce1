//! Cases of the room admin.

mod cancel;
mod keep;
mod name;
mod promote;
mod queue;
mod remove;
mod retry;
mod sweep;
mod worker;

use super::Case;

pub(super) const CASES: &[&[Case]] = &[
    retry::CASES,
    cancel::CASES,
    promote::CASES,
    remove::CASES,
    queue::CASES,
    keep::CASES,
    sweep::CASES,
    worker::CASES,
    name::CASES,
];

#[doc(hidden)]
#[macro_export]
macro_rules! __contract_admin {
    () => {
        mod admin {
            pub(super) const CASES: &[&[&str]] = &[
                retry::CASES,
                cancel::CASES,
                promote::CASES,
                remove::CASES,
                queue::CASES,
                keep::CASES,
                sweep::CASES,
                worker::CASES,
                name::CASES,
            ];
            $crate::__contract_admin_retry!();
            $crate::__contract_admin_cancel!();
            $crate::__contract_admin_promote!();
            $crate::__contract_admin_remove!();
            $crate::__contract_admin_queue!();
            $crate::__contract_admin_keep!();
            $crate::__contract_admin_sweep!();
            $crate::__contract_admin_worker!();
            $crate::__contract_admin_name!();
        }
    };
}
