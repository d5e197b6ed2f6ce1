//! Every small configuration holds, every known-bad variant is refuted, and
//! the page says what the checker finds. After a change to the model,
//! `cargo run -p flow-protocol` brings the page up to date.

use flow_protocol::config::{Config, Retention};
use flow_protocol::explore::explore;
use flow_protocol::{docs, model, suite};

fn page_part(name: &str) -> String {
    let page = std::fs::read_to_string(docs::path()).expect("the page is there");
    docs::part(&page, name)
        .expect("the page has this part")
        .to_owned()
}

fn holds(name: &str) {
    let small = suite::small();
    let config = small.iter().find(|config| config.name == name);
    let config = config.expect("the suite has it");
    let findings = explore(*config);
    if let Some(refutation) = findings.refuted {
        panic!(
            "\"{}\" does not hold:\n{}",
            refutation.property,
            docs::trace(&refutation)
        );
    }
    let row = docs::row(config, &findings);
    assert!(
        page_part("small").lines().any(|line| line == row),
        "the page lacks this row; run `cargo run -p flow-protocol`:\n{row}"
    );
}

fn is_refuted(name: &str) {
    let all = suite::broken();
    let broken = all.iter().find(|broken| broken.config.name == name);
    let broken = broken.expect("the suite has it");
    let refutation = explore(broken.config).refuted.expect("it is refuted");
    assert_eq!(refutation.property, broken.refutes);
    let section = docs::section(broken, &refutation);
    assert!(
        page_part("refuted").contains(&section),
        "the page lacks this section; run `cargo run -p flow-protocol`:\n{section}"
    );
}

macro_rules! each {
    ($module:ident, $check:ident, $all:expr, [$($name:ident),* $(,)?]) => {
        mod $module {
            $(#[test]
            fn $name() {
                super::$check(stringify!($name));
            })*

            #[test]
            fn are_all_named_here_and_on_the_page() {
                let all: Vec<&str> = $all;
                assert_eq!(all, [$(stringify!($name)),*]);
                let part = super::page_part(super::part_of(stringify!($module)));
                let marks = ["| `", "### `"];
                let entries = part
                    .lines()
                    .filter(|line| marks.iter().any(|mark| line.starts_with(mark)));
                assert_eq!(entries.count(), all.len());
            }
        }
    };
}

fn part_of(module: &str) -> &'static str {
    match module {
        "the_protocol_holds" => "small",
        _ => "refuted",
    }
}

fn names(configs: impl IntoIterator<Item = Config>) -> Vec<&'static str> {
    configs.into_iter().map(|config| config.name).collect()
}

each!(
    the_protocol_holds,
    holds,
    super::names(flow_protocol::suite::small()),
    [
        plain,
        pruned,
        worker_dies,
        stalls_exhausted,
        replies_lost,
        requests_late,
        requests_late_and_cancel,
        store_down,
        two_of_each,
        two_sweepers,
        cancel,
        cancel_and_slow_senders,
        cancel_and_stray_senders,
        collect_fails,
        child_operated,
        two_children,
        fail_fast,
        two_pages,
        two_pages_and_cancel,
        enqueued_again,
        nested,
        nested_fail_fast,
        nested_operated,
    ]
);

each!(
    known_bad_variants_are_refuted,
    is_refuted,
    super::names(
        flow_protocol::suite::broken()
            .iter()
            .map(|broken| broken.config)
    ),
    [
        report_before_ack,
        sweep_without_the_parent_check,
        missing_child_marked_at_once,
        parent_read_before_the_outbox,
        no_manifest_mark,
        no_row_guard,
        worker_checks_the_flow_only,
        worker_skips_the_outbox,
        ended_child_marked_at_once,
        worker_checks_nothing,
        no_look_again,
        purge_without_the_lock_check,
        delete_before_record,
        prune_while_owing,
    ]
);

#[test]
fn the_exception_is_the_one_on_the_page() {
    let refutation = explore(suite::exception(Retention::PruneChildren)).refuted;
    assert_eq!(refutation.expect("there is one").property, model::RUNS_ONCE);
    assert_eq!(docs::exception(), page_part("exception"));
}

#[test]
fn an_unbounded_enqueue_may_leave_the_stray_on_the_page() {
    let refutation = explore(suite::stray()).refuted;
    assert_eq!(
        refutation.expect("there is one").property,
        model::CALLED_OFF
    );
    assert_eq!(docs::stray(), page_part("stray"));
}

#[test]
fn a_child_whose_record_is_kept_never_runs_twice() {
    let findings = explore(suite::exception(Retention::Keep));
    assert!(findings.refuted.is_none(), "{:#?}", findings.refuted);
}

#[test]
fn the_page_lists_every_large_configuration() {
    let part = page_part("large");
    for config in suite::large() {
        let start = format!("| `{}` | {} |", config.name, config.covers());
        assert!(
            part.lines().any(|line| line.starts_with(&start)),
            "run `cargo run -p flow-protocol -- large`: {start}"
        );
    }
}
