//! Cases of the room run.

mod ack;
mod batch;
mod claim;
mod corrupt;
mod ledger;
mod limits;
mod lock;
mod progress;
mod promotion;
mod race;
mod rate;
mod release;
mod repeat;
mod restart;
mod server_time;
mod stall;
mod wait;
pub(super) mod wake;
mod watch;

use super::Case;

pub(super) const CASES: &[&[Case]] = &[
    claim::CASES,
    promotion::CASES,
    repeat::CASES,
    limits::CASES,
    rate::CASES,
    ack::CASES,
    batch::CASES,
    ledger::CASES,
    progress::CASES,
    release::CASES,
    lock::CASES,
    stall::CASES,
    wake::CASES,
    wait::CASES,
    watch::CASES,
    race::CASES,
    server_time::CASES,
    corrupt::CASES,
    restart::CASES,
];

#[doc(hidden)]
#[macro_export]
macro_rules! __contract_run {
    () => {
        mod run {
            pub(super) const CASES: &[&[&str]] = &[
                claim::CASES,
                promotion::CASES,
                repeat::CASES,
                limits::CASES,
                rate::CASES,
                ack::CASES,
                batch::CASES,
                ledger::CASES,
                progress::CASES,
                release::CASES,
                lock::CASES,
                stall::CASES,
                wake::CASES,
                wait::CASES,
                watch::CASES,
                race::CASES,
                server_time::CASES,
                corrupt::CASES,
                restart::CASES,
            ];
            $crate::__contract_run_claim!();
            $crate::__contract_run_promotion!();
            $crate::__contract_run_repeat!();
            $crate::__contract_run_limits!();
            $crate::__contract_run_rate!();
            $crate::__contract_run_ack!();
            $crate::__contract_run_batch!();
            $crate::__contract_run_ledger!();
            $crate::__contract_run_progress!();
            $crate::__contract_run_release!();
            $crate::__contract_run_lock!();
            $crate::__contract_run_stall!();
            $crate::__contract_run_wake!();
            $crate::__contract_run_wait!();
            $crate::__contract_run_watch!();
            $crate::__contract_run_race!();
            $crate::__contract_run_server_time!();
            $crate::__contract_run_corrupt!();
            $crate::__contract_run_restart!();
        }
    };
}
