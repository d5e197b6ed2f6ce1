//! The cases that decide whether a store keeps the contract.
//!
//! Each case is a sentence of the contract, run against a store of its own on
//! a manual clock. Whoever writes a store implements [`StoreFactory`] for it
//! and lets [`conformance!`](crate::conformance) make one test of each case:
//!
//! ```
//! use mq_core::MemoryStore;
//! use mq_core::contract::{Capability, Opened, StoreFactory, StoreOptions};
//!
//! struct Memory;
//!
//! #[mq_core::async_trait]
//! impl StoreFactory for Memory {
//!     async fn open(&self, options: StoreOptions) -> Opened {
//!         let mut builder = MemoryStore::builder()
//!             .time(options.time)
//!             .max_payload(options.max_payload);
//!         if let Some(ceiling) = options.history_ceiling {
//!             builder = builder.history_ceiling(ceiling);
//!         }
//!         if let Some(draw) = options.id_generator {
//!             builder = builder.id_generator(draw);
//!         }
//!         let store = builder.build();
//!         Opened::new(store.clone(), move || std::future::ready(store.clone()))
//!     }
//!
//!     fn capabilities(&self) -> &[Capability] {
//!         &[Capability::ServerTime]
//!     }
//! }
//!
//! mq_core::conformance!(memory, Memory);
//! # fn main() {}
//! ```
//!
//! The tests bear the names of the cases: `memory::run::claim::a_repeated_claim_…`.
//! Where one fails with `left` and `right`, left is what the store did and right
//! what the contract says. A store that serves all of them serves the worker
//! and the client too.

#![allow(
    clippy::cloned_ref_to_slice_refs,
    reason = "what a case expects reads best as a plain list"
)]

/// Lists a file's cases: the constant that [`cases`] reads, and the macro by
/// which [`conformance!`](crate::conformance) makes tests of them. A case
/// that needs a store other than the usual one names a function that changes
/// the [`StoreOptions`].
macro_rules! cases {
    ($macro:ident, $room:ident::$subject:ident: $($case:ident $(with $options:ident)? $(needs $need:ident)?),+ $(,)?) => {
        pub(super) const CASES: &[$crate::contract::Case] = &[$(
            $crate::contract::Case {
                room: stringify!($room),
                subject: stringify!($subject),
                name: stringify!($case),
                needs: &[$($crate::contract::Capability::$need)?],
                options: cases!(@options $($options)?),
                run: |fixture| Box::pin($case(fixture)),
            }
        ),+];

        #[doc(hidden)]
        #[macro_export]
        macro_rules! $macro {
            () => {
                pub(super) mod $subject {
                    pub(in super::super) const CASES: &[&str] = &[$(
                        concat!(stringify!($room), "::", stringify!($subject), "::", stringify!($case))
                    ),+];
                    $(
                        #[test]
                        fn $case() {
                            $crate::contract::check(
                                &super::super::contract_store_factory(),
                                concat!(stringify!($room), "::", stringify!($subject), "::", stringify!($case)),
                            );
                        }
                    )+
                }
            };
        }
    };
    (@options) => { std::convert::identity };
    (@options $options:ident) => { $options };
}

mod admin;
mod capability;
mod enqueue;
mod expect;
mod fixture;
mod flow;
mod inspect;
mod make;
mod run;
mod schedule;
mod steps;

pub use capability::Capability;
use fixture::Fixture;
pub use fixture::{Opened, StoreFactory, StoreOptions};

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;

/// How long one case may take before it is called hung.
pub const LONGEST_CASE: Duration = Duration::from_secs(120);

/// A sentence of the contract, to be shown on a store.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Case {
    /// Which of the six rooms it belongs to.
    pub room: &'static str,
    /// What in that room it is about.
    pub subject: &'static str,
    /// What it shows.
    pub name: &'static str,
    /// What it does to the store besides calling it.
    pub needs: &'static [Capability],
    options: fn(StoreOptions) -> StoreOptions,
    run: fn(Fixture) -> BoxFuture<'static, ()>,
}

impl Case {
    /// Its room, subject and name: `run::claim::a_repeated_claim_…`.
    pub fn path(&self) -> String {
        format!("{}::{}::{}", self.room, self.subject, self.name)
    }

    /// What it shows, as a sentence.
    pub fn sentence(&self) -> String {
        self.name.replace('_', " ")
    }

    /// What it needs that the factory's stores do not allow, if anything.
    pub fn missing(&self, factory: &dyn StoreFactory) -> Option<Capability> {
        let offered = factory.capabilities();
        self.needs
            .iter()
            .copied()
            .find(|need| !offered.contains(need))
    }

    /// Runs the case on a store that it opens.
    ///
    /// # Panics
    /// If the store does not do what the case says; the message shows what was
    /// expected and what came.
    pub async fn run(&self, factory: &dyn StoreFactory) {
        let fixture = Fixture::open(factory, self.options, self.needs).await;
        (self.run)(fixture).await;
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())
    }
}

/// All cases, room by room.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    [
        enqueue::CASES,
        run::CASES,
        inspect::CASES,
        admin::CASES,
        schedule::CASES,
        flow::CASES,
    ]
    .into_iter()
    .flatten()
    .copied()
    .flatten()
}

/// Runs the case of this path on a runtime of its own. A case that does not
/// apply to the factory's stores says so, and runs nothing.
///
/// # Panics
/// If there is no such case, if it fails, or if it takes longer than two
/// minutes.
pub fn check(factory: &dyn StoreFactory, path: &str) {
    let case = cases()
        .find(|case| case.path() == path)
        .unwrap_or_else(|| panic!("there is no contract case {path}"));
    if let Some(need) = case.missing(factory) {
        println!("{path} does not apply: the factory does not name the capability {need}");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime to run the case on");
    runtime.block_on(async {
        if tokio::time::timeout(LONGEST_CASE, case.run(factory))
            .await
            .is_err()
        {
            panic!("{path} was still running after {LONGEST_CASE:?}");
        }
    });
}

/// Makes one test of each contract case, in a module of this name with a module
/// per room, run against the stores of a
/// [`StoreFactory`](crate::contract::StoreFactory); and a test that none is
/// missing. The expression that makes the factory is evaluated once a test.
#[macro_export]
macro_rules! conformance {
    ($name:ident, $factory:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "the factory may be named by its path")]
            use super::*;

            fn contract_store_factory() -> impl $crate::contract::StoreFactory {
                $factory
            }

            $crate::__contract_enqueue!();
            $crate::__contract_run!();
            $crate::__contract_inspect!();
            $crate::__contract_admin!();
            $crate::__contract_schedule!();
            $crate::__contract_flow!();

            #[test]
            fn every_contract_case_is_a_test() {
                let tests: Vec<&str> = [
                    enqueue::CASES,
                    run::CASES,
                    inspect::CASES,
                    admin::CASES,
                    schedule::CASES,
                    flow::CASES,
                ]
                .into_iter()
                .flatten()
                .copied()
                .flatten()
                .copied()
                .collect();
                let cases: Vec<String> =
                    $crate::contract::cases().map(|case| case.path()).collect();
                assert_eq!(tests, cases);
            }
        }
    };
}
