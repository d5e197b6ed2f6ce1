//! The contract cases bite: each store here is broken in one way, and the case
//! named beside it notices.

mod flow;
mod store;
mod table;

use std::fmt::Debug;
use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use mq_core::contract::{Capability, Opened, StoreFactory, StoreOptions, cases, check};
use mq_core::{MemoryStore, Store};

use crate::flow::{BrokenFlows, FlowFlaw};
use crate::store::{Broken, Flaw};

/// A way to break a store.
trait Breaks: Copy + Debug + Send + Sync {
    type Broken: Store + Clone + 'static;

    fn break_store(self, store: MemoryStore) -> Self::Broken;
}

impl Breaks for Flaw {
    type Broken = Broken;

    fn break_store(self, store: MemoryStore) -> Broken {
        Broken::new(store, self)
    }
}

impl Breaks for FlowFlaw {
    type Broken = BrokenFlows;

    fn break_store(self, store: MemoryStore) -> BrokenFlows {
        BrokenFlows::new(store, self)
    }
}

struct Breaking<F>(F);

#[mq_core::async_trait]
impl<F: Breaks> StoreFactory for Breaking<F> {
    async fn open(&self, options: StoreOptions) -> Opened {
        let mut builder = MemoryStore::builder()
            .time(options.time)
            .max_payload(options.max_payload);
        if let Some(ceiling) = options.history_ceiling {
            builder = builder.history_ceiling(ceiling);
        }
        if let Some(draw) = options.id_generator {
            builder = builder.id_generator(draw);
        }
        let store = self.0.break_store(builder.build());
        Opened::new(store.clone(), move || ready(store.clone()))
    }

    fn capabilities(&self) -> &[Capability] {
        &[Capability::ServerTime]
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(100)
    }
}

/// Checks that a case fails on a broken store.
fn expect_caught(flaw: impl Breaks, path: &str) {
    assert!(
        cases().any(|case| case.path() == path),
        "there is no case {path}"
    );
    let outcome = catch_unwind(AssertUnwindSafe(|| check(&Breaking(flaw), path)));
    assert!(outcome.is_err(), "{path} does not notice {flaw:?}");
}

macro_rules! mutants {
    ($($flaws:ident::$flaw:ident $mutant:ident: $($case:literal),+;)+) => {
        $(
            #[test]
            fn $mutant() {
                $(expect_caught($flaws::$flaw, $case);)+
            }
        )+

        /// Each mutant by the name of its test, and the cases that notice it.
        const MUTANTS: &[(&str, &[&str])] = &[$((stringify!($mutant), &[$($case),+])),+];
    };
}

mutants! {
    Flaw::DropsDedupe a_store_that_forgets_dedupe_keys_is_caught:
        "enqueue::dedupe::without_a_ttl_the_key_is_held_until_the_job_ends",
        "enqueue::dedupe::three_first_enqueues_on_one_key_insert_one_job";
    Flaw::KeyAsId a_store_that_makes_keys_into_ids_is_caught:
        "enqueue::dedupe::a_key_does_not_change_the_id";
    Flaw::ForgetsToReplace a_store_that_never_replaces_is_caught:
        "enqueue::replace::a_replacement_brings_its_own_data_and_policies";
    Flaw::TurnsBatches a_store_that_turns_batches_around_is_caught:
        "enqueue::order::a_batch_arrives_in_its_order",
        "enqueue::order::ten_thousand_jobs_of_one_millisecond_stay_in_order";
    Flaw::RoundsPriorities a_store_that_keeps_priorities_as_floats_is_caught:
        "enqueue::order::priorities_reach_both_ends_of_i32";
    Flaw::RewritesJson a_store_that_rewrites_json_is_caught:
        "enqueue::exact::payloads_come_back_byte_for_byte";
    Flaw::CutsDelays a_store_that_cuts_delays_to_milliseconds_is_caught:
        "enqueue::when::a_delay_rounds_up_to_milliseconds";
    Flaw::WritesBeforeABrokenItem a_store_that_writes_half_a_refused_batch_is_caught:
        "enqueue::refused::one_broken_item_refuses_its_whole_batch";
    Flaw::NoWakeOnDelay a_store_that_does_not_wake_for_delayed_jobs_is_caught:
        "run::wake::a_new_delayed_job_wakes";
    Flaw::NoWakeOnRelease a_store_that_does_not_wake_for_released_jobs_is_caught:
        "run::wake::a_released_job_wakes";
    Flaw::WakesEveryone a_store_that_wakes_for_any_queue_is_caught:
        "run::wait::another_queues_wake_up_is_no_reason";
    Flaw::ForgetsWakesBeforeTheWait a_store_that_loses_wake_ups_before_the_wait_is_caught:
        "run::wait::a_wake_up_between_claim_and_wait_is_not_lost";
    Flaw::NeverAnnounces a_store_that_announces_no_end_is_caught:
        "run::watch::each_end_of_a_run_is_announced";
    Flaw::LooksOnlyAtStates a_store_that_knows_no_end_but_by_the_state_is_caught:
        "run::watch::an_end_is_not_lost_with_a_retry",
        "run::watch::a_removal_is_not_lost_with_a_new_job_of_the_id";
    Flaw::HandsOutTwice a_store_that_hands_out_a_job_twice_is_caught:
        "run::claim::a_claimed_job_is_not_claimed_again",
        "run::race::of_64_claimers_no_two_get_the_same_job";
    Flaw::ClaimsOtherNames a_store_that_claims_other_names_is_caught:
        "run::claim::a_claim_takes_only_the_names_it_asks_for";
    Flaw::ClaimsAnewWhenRepeated a_store_that_locks_more_for_a_repeated_claim_is_caught:
        "run::repeat::a_repeated_claim_answers_the_same_jobs_and_locks_nothing_more",
        "run::race::copies_of_a_claim_that_race_answer_the_same_jobs";
    Flaw::HidesTheNextRun a_store_that_does_not_say_when_to_ask_again_is_caught:
        "run::promotion::next_run_at_is_the_earliest_of_the_asked_names",
        "run::rate::next_run_at_says_when_the_rate_lets_go";
    Flaw::ShortensLocks a_store_whose_locks_end_early_is_caught:
        "run::lock::a_lock_holds_until_the_millisecond_it_expires";
    Flaw::ForgetsLimits a_store_that_forgets_max_active_is_caught:
        "run::limits::max_active_holds_over_all_claims_and_handles";
    Flaw::DoublesRates a_store_that_starts_twice_as_many_is_caught:
        "run::rate::starts_follow_the_rule_to_the_millisecond",
        "run::rate::no_window_sees_more_starts_than_the_rate_allows";
    Flaw::IgnoresTokens a_store_that_does_not_look_at_tokens_is_caught:
        "run::ack::an_ack_with_another_token_is_refused_in_every_state",
        "run::ack::an_ack_after_a_release_is_refused";
    Flaw::ForgetsAckedTokens a_store_that_forgets_the_last_acked_token_is_caught:
        "run::batch::a_repeated_ack_changes_nothing";
    Flaw::TakesSecondEntries a_store_that_takes_a_second_entry_is_caught:
        "run::batch::a_second_entry_for_one_job_is_refused",
        "run::batch::the_first_entry_decides_even_if_it_is_refused";
    Flaw::StopsAtTheFirstRefusal a_store_that_stops_at_a_refused_ack_is_caught:
        "run::batch::acks_are_answered_in_their_places_and_independently";
    Flaw::RetriesOnRelease a_store_whose_release_uses_an_attempt_is_caught:
        "run::release::a_released_job_is_as_if_it_had_not_been_claimed",
        "run::release::a_released_job_takes_its_old_place";
    Flaw::HidesCancels a_store_whose_heartbeat_hides_cancels_is_caught:
        "run::lock::a_pending_cancel_is_named_and_not_extended";
    Flaw::AllowsOneMoreStall a_store_that_allows_one_stall_more_is_caught:
        "run::stall::one_stall_too_many_fails_the_job",
        "run::stall::a_job_that_kills_its_process_fails_and_its_neighbours_do_not";
    Flaw::SaysNothingRemains a_store_that_says_nothing_remains_is_caught:
        "run::stall::a_recovery_takes_at_most_250",
        "admin::sweep::a_sweep_takes_at_most_250";
    Flaw::SkipsTies a_store_whose_cursor_skips_ties_is_caught:
        "inspect::page::pages_under_ties_lose_nothing_at_any_size";
    Flaw::DropsLabels a_store_that_does_not_look_at_labels_is_caught:
        "inspect::filter::labels_must_all_match";
    Flaw::MiscountsByOne a_store_whose_counts_are_off_by_one_is_caught:
        "inspect::counts::each_state_is_counted";
    Flaw::TurnsTheLedger a_store_whose_ledger_is_turned_around_is_caught:
        "run::ledger::entries_come_oldest_first_and_count_every_run";
    Flaw::ForgetsKeep a_store_that_forgets_retention_is_caught:
        "admin::keep::a_count_keeps_the_newest",
        "admin::sweep::an_age_is_over_at_its_millisecond";
    Flaw::SweepsTwice a_store_that_sweeps_more_than_its_limit_is_caught:
        "admin::sweep::a_sweep_takes_no_more_than_its_limit_and_says_whether_more_remain";
    Flaw::RetriesAnything a_store_that_shrugs_at_illegal_states_is_caught:
        "admin::retry::only_a_failed_job_can_be_retried";
    Flaw::TakesAnyName a_store_that_takes_any_name_is_caught:
        "admin::name::another_name_is_refused";
    Flaw::TicksWithoutLooking a_store_that_ticks_without_comparing_is_caught:
        "schedule::tick::a_tick_on_an_older_version_is_void",
        "schedule::tick::a_repeated_tick_is_void_even_if_the_slots_job_is_gone";
    Flaw::MovesTheNextSlot a_store_whose_upsert_moves_the_next_slot_is_caught:
        "schedule::stored::an_unchanged_cadence_keeps_the_next_slot";
    Flaw::KeepsAcrossNames a_store_whose_keep_acts_across_names_is_caught:
        "admin::keep::a_policy_acts_only_within_its_name";
    Flaw::DeletesNewerKeys a_store_that_deletes_a_newer_jobs_key_is_caught:
        "enqueue::dedupe::removing_an_old_job_leaves_a_newer_jobs_entry";
    Flaw::PromotesToTheBack a_store_whose_promotion_loses_the_place_is_caught:
        "run::promotion::a_promoted_job_keeps_its_place";
    FlowFlaw::ReplacesManifests a_store_that_replaces_a_manifest_is_caught:
        "flow::again::a_parent_keeps_the_manifest_it_has",
        "flow::again::a_second_fan_out_without_children_keeps_the_manifest_too";
    FlowFlaw::EndsBeforeTheFanOut a_store_that_drops_a_fan_out_for_a_cancel_is_caught:
        "flow::again::a_cancel_that_raced_the_fan_out_wins",
        "flow::again::a_cancel_that_raced_a_fan_out_without_children_wins";
    FlowFlaw::UsesAttempts a_store_whose_fan_out_uses_an_attempt_is_caught:
        "flow::fan_out::a_fan_out_is_recorded_and_uses_no_attempt";
    FlowFlaw::NoWakeOnSettle a_store_that_does_not_wake_for_a_settled_parent_is_caught:
        "flow::report::the_last_report_wakes_the_parents_queue";
    FlowFlaw::IgnoresManifests a_store_that_does_not_look_at_manifests_is_caught:
        "flow::report::a_report_of_another_manifest_is_dropped",
        "flow::again::a_parent_enqueued_again_knows_nothing_of_its_former_children";
    FlowFlaw::SettlesTwice a_store_that_settles_twice_is_caught:
        "flow::report::a_repeated_last_report_is_dropped",
        "flow::race::of_two_failures_one_settles";
    FlowFlaw::AppliesLateReports a_store_that_applies_late_reports_is_caught:
        "flow::close::a_report_after_the_close_is_late",
        "flow::race::a_report_that_races_the_close_is_counted_once";
    FlowFlaw::SettlesOneByOne a_store_that_settles_before_the_page_is_through_is_caught:
        "flow::settle::all_rows_of_a_page_apply_before_the_flow_closes",
        "flow::settle::fail_fast_wins_over_the_last_report";
    FlowFlaw::GoesOnInATie a_store_whose_fail_fast_loses_the_tie_is_caught:
        "flow::settle::fail_fast_wins_over_the_last_report";
    FlowFlaw::DecidesByKey a_store_that_takes_failures_by_key_is_caught:
        "flow::settle::the_first_failure_in_batch_order_decides";
    FlowFlaw::FlagsEveryReport a_store_that_lets_every_report_decide_is_caught:
        "flow::report::exactly_the_last_report_of_a_batch_settles";
    FlowFlaw::RecordsOnePage a_store_that_records_only_one_page_is_caught:
        "flow::report::a_batch_of_several_pages_settles_at_its_last_report";
    FlowFlaw::MiscountsOnClose a_store_whose_close_counts_one_too_few_is_caught:
        "flow::close::a_cancel_calls_off_what_is_pending",
        "flow::close::a_cancel_keeps_what_was_reported";
    FlowFlaw::PendingWhenClosed a_store_that_calls_closed_children_pending_is_caught:
        "flow::close::no_child_of_a_closed_flow_is_pending",
        "flow::close::a_retried_parent_stays_closed";
    FlowFlaw::NeverRearms a_store_that_gives_out_the_same_rows_again_is_caught:
        "flow::sweep::a_row_that_was_given_out_rests_for_another_age",
        "flow::sweep::a_sweep_in_pages_of_any_size_finds_every_row_once";
    FlowFlaw::Starves a_store_that_serves_one_flow_to_its_end_is_caught:
        "flow::sweep::a_giant_flow_does_not_starve_a_small_one";
    FlowFlaw::ForgetsPolicies a_store_that_keeps_half_of_a_childs_spec_is_caught:
        "flow::sweep::a_row_comes_with_all_it_takes_to_enqueue_the_child";
    FlowFlaw::CascadesLate a_store_whose_first_cancel_is_late_is_caught:
        "flow::cascade::an_owed_cancel_is_due_at_once";
    FlowFlaw::OwesSinceNow a_store_that_forgets_how_long_a_cancel_is_owed_is_caught:
        "flow::cascade::a_row_says_what_to_cancel_and_since_when";
    FlowFlaw::PaysTwice a_store_that_counts_a_repeated_mark_is_caught:
        "flow::cascade::marks_are_counted_once",
        "flow::cascade::marks_of_a_whole_batch_are_counted_once";
    FlowFlaw::PrunesDebtors a_store_that_prunes_a_parent_that_owes_is_caught:
        "flow::retain::a_parent_that_owes_survives_its_own_keep",
        "flow::retain::a_parent_that_owes_survives_its_age";
    FlowFlaw::KeepsRowsOfTheRemoved a_store_that_shows_a_removed_parents_children_is_caught:
        "flow::retain::a_removed_parent_takes_its_children_along";
    FlowFlaw::SortsByLetter a_store_that_sorts_child_keys_by_letter_is_caught:
        "flow::results::children_come_in_byte_order_of_their_keys";
    FlowFlaw::DropsTheLastChild a_store_whose_cursor_skips_a_child_is_caught:
        "flow::results::pages_of_any_size_find_every_child_once";
    FlowFlaw::LosesCancelledReports a_store_that_loses_reports_of_cancels_is_caught:
        "flow::outbox::a_child_cancelled_while_it_waits_reports_it",
        "flow::outbox::a_child_cancelled_at_its_release_reports_it",
        "flow::outbox::a_child_cancelled_at_its_recovery_reports_it",
        "flow::close::a_cancelled_parent_reports_to_its_own";
    FlowFlaw::NewestFirst a_store_that_reads_its_outbox_backwards_is_caught:
        "flow::delivery::reports_come_oldest_first";
    FlowFlaw::CursorsNeedTheirEntry a_store_whose_outbox_cursor_needs_its_entry_is_caught:
        "flow::delivery::a_page_goes_on_past_a_deleted_entry";
    FlowFlaw::DeletesAnySpelling a_store_that_reads_ids_leniently_is_caught:
        "flow::delivery::a_delete_of_another_spelling_does_nothing";
    FlowFlaw::FindsAnyManifestsReports a_store_that_finds_another_manifests_reports_is_caught:
        "flow::delivery::undelivered_reports_are_those_of_one_manifest_of_one_flow_of_one_store";
}
