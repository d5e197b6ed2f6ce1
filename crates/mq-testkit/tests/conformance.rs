//! The suite as a program: what it reports of a good store and of a broken one.

use mq_core::MemoryStore;
use mq_core::layer::StoreLayer;
use mq_core::{Ack, Acked, StoreError, async_trait};
use mq_testkit::conformance::{Capability, Opened, StoreFactory, StoreOptions, Suite, Verdict};

fn memory(options: StoreOptions) -> MemoryStore {
    let mut builder = MemoryStore::builder()
        .time(options.time)
        .max_payload(options.max_payload);
    if let Some(ceiling) = options.history_ceiling {
        builder = builder.history_ceiling(ceiling);
    }
    if let Some(draw) = options.id_generator {
        builder = builder.id_generator(draw);
    }
    builder.build()
}

struct Memory;

#[async_trait]
impl StoreFactory for Memory {
    async fn open(&self, options: StoreOptions) -> Opened {
        let store = memory(options);
        Opened::new(store.clone(), move || std::future::ready(store.clone()))
    }

    fn capabilities(&self) -> &[Capability] {
        &[Capability::ServerTime]
    }
}

/// Loses every ack, and says that it was applied.
#[derive(Clone)]
struct Forgetful(MemoryStore);

#[async_trait]
impl StoreLayer for Forgetful {
    type Inner = MemoryStore;

    fn inner(&self) -> &MemoryStore {
        &self.0
    }

    async fn ack_many(&self, acks: Vec<Ack>) -> Result<Vec<Result<Acked, StoreError>>, StoreError> {
        Ok(acks.iter().map(|_| Ok(Acked { applied: true })).collect())
    }
}

struct Broken;

#[async_trait]
impl StoreFactory for Broken {
    async fn open(&self, options: StoreOptions) -> Opened {
        let store = Forgetful(memory(options));
        Opened::new(store.clone(), move || std::future::ready(store.clone()))
    }

    fn capabilities(&self) -> &[Capability] {
        &[]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_keeps_the_contract_passes_every_case_that_applies() {
    let report = Suite::new(Memory).run().await;
    assert!(report.is_kept(), "{report}");
    assert_eq!(report.cases.len(), mq_core::contract::cases().count());
    for case in report.not_applicable() {
        let Verdict::NotApplicable(need) = case.verdict else {
            panic!("{case:?}");
        };
        assert_ne!(need, Capability::ServerTime, "the factory names it");
    }
    let closing = report.to_string();
    assert!(closing.contains(&format!("{} passed, 0 failed, ", report.passed())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_store_fails_the_cases_it_breaks_and_no_others() {
    let report = Suite::new(Broken).only("run::ack::").at_once(1).run().await;
    assert!(!report.is_kept());
    let failed = report.failed().next().expect("a case that failed");
    let Verdict::Failed(why) = &failed.verdict else {
        panic!("{failed:?}");
    };
    assert!(
        report
            .to_string()
            .contains(&format!("FAILED {:?}: {why}", failed.case))
    );
    let enqueue = Suite::new(Broken).only("enqueue::refused::").run().await;
    assert!(enqueue.is_kept(), "{enqueue}");
}

#[tokio::test]
async fn a_choice_that_names_no_case_keeps_nothing() {
    let report = Suite::new(Memory).only("no such case").run().await;
    assert!(!report.is_kept());
    assert!(report.to_string().starts_with("0 passed, 0 failed"));
}
