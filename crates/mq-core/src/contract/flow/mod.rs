//! Cases of the room flow.

mod again;
mod cascade;
mod close;
mod delivery;
mod fan_out;
mod outbox;
mod pending;
mod race;
mod refused;
mod report;
mod results;
mod retain;
mod settle;
pub(super) mod steps;
mod storm;
mod sweep;

use super::Case;

pub(super) const CASES: &[&[Case]] = &[
    fan_out::CASES,
    again::CASES,
    report::CASES,
    settle::CASES,
    close::CASES,
    sweep::CASES,
    cascade::CASES,
    pending::CASES,
    results::CASES,
    outbox::CASES,
    delivery::CASES,
    retain::CASES,
    refused::CASES,
    race::CASES,
    storm::CASES,
];

#[doc(hidden)]
#[macro_export]
macro_rules! __contract_flow {
    () => {
        mod flow {
            pub(super) const CASES: &[&[&str]] = &[
                fan_out::CASES,
                again::CASES,
                report::CASES,
                settle::CASES,
                close::CASES,
                sweep::CASES,
                cascade::CASES,
                pending::CASES,
                results::CASES,
                outbox::CASES,
                delivery::CASES,
                retain::CASES,
                refused::CASES,
                race::CASES,
                storm::CASES,
            ];
            $crate::__contract_flow_fan_out!();
            $crate::__contract_flow_again!();
            $crate::__contract_flow_report!();
            $crate::__contract_flow_settle!();
            $crate::__contract_flow_close!();
            $crate::__contract_flow_sweep!();
            $crate::__contract_flow_cascade!();
            $crate::__contract_flow_pending!();
            $crate::__contract_flow_results!();
            $crate::__contract_flow_outbox!();
            $crate::__contract_flow_delivery!();
            $crate::__contract_flow_retain!();
            $crate::__contract_flow_refused!();
            $crate::__contract_flow_race!();
            $crate::__contract_flow_storm!();
        }
    };
}
