//! The contract cases bite: each store here is broken in one way, and the case
//! named beside it notices.

mod store;

use std::future::ready;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use mq_core::MemoryStore;
use mq_core::contract::{Capability, Opened, StoreFactory, StoreOptions, cases, check};

use crate::store::{Broken, Flaw};

struct Breaking(Flaw);

#[mq_core::async_trait]
impl StoreFactory for Breaking {
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
        let store = Broken::new(builder.build(), self.0);
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
fn expect_caught(flaw: Flaw, path: &str) {
    assert!(
        cases().any(|case| case.path() == path),
        "there is no case {path}"
    );
    let outcome = catch_unwind(AssertUnwindSafe(|| check(&Breaking(flaw), path)));
    assert!(outcome.is_err(), "{path} does not notice {flaw:?}");
}

macro_rules! mutants {
    ($($flaw:ident $mutant:ident: $($case:literal),+;)+) => {$(
        #[test]
        fn $mutant() {
            $(expect_caught(Flaw::$flaw, $case);)+
        }
    )+};
}

mutants! {
    DropsDedupe a_store_that_forgets_dedupe_keys_is_caught:
        "enqueue::dedupe::without_a_ttl_the_key_is_held_until_the_job_ends",
        "enqueue::dedupe::three_first_enqueues_on_one_key_insert_one_job";
    KeyAsId a_store_that_makes_keys_into_ids_is_caught:
        "enqueue::dedupe::a_key_does_not_change_the_id";
    ForgetsToReplace a_store_that_never_replaces_is_caught:
        "enqueue::replace::a_replacement_brings_its_own_data_and_policies";
    TurnsBatches a_store_that_turns_batches_around_is_caught:
        "enqueue::order::a_batch_arrives_in_its_order",
        "enqueue::order::ten_thousand_jobs_of_one_millisecond_stay_in_order";
    RoundsPriorities a_store_that_keeps_priorities_as_floats_is_caught:
        "enqueue::order::priorities_reach_both_ends_of_i32";
    RewritesJson a_store_that_rewrites_json_is_caught:
        "enqueue::exact::payloads_come_back_byte_for_byte";
    CutsDelays a_store_that_cuts_delays_to_milliseconds_is_caught:
        "enqueue::when::a_delay_rounds_up_to_milliseconds";
    WritesBeforeABrokenItem a_store_that_writes_half_a_refused_batch_is_caught:
        "enqueue::refused::one_broken_item_refuses_its_whole_batch";
    NoWakeOnDelay a_store_that_does_not_wake_for_delayed_jobs_is_caught:
        "run::wake::a_new_delayed_job_wakes";
    NoWakeOnRelease a_store_that_does_not_wake_for_released_jobs_is_caught:
        "run::wake::a_released_job_wakes";
    WakesEveryone a_store_that_wakes_for_any_queue_is_caught:
        "run::wait::another_queues_wake_up_is_no_reason";
    ForgetsWakesBeforeTheWait a_store_that_loses_wake_ups_before_the_wait_is_caught:
        "run::wait::a_wake_up_between_claim_and_wait_is_not_lost";
    NeverAnnounces a_store_that_announces_no_end_is_caught:
        "run::watch::each_end_of_a_run_is_announced";
    LooksOnlyAtStates a_store_that_knows_no_end_but_by_the_state_is_caught:
        "run::watch::an_end_is_not_lost_with_a_retry",
        "run::watch::a_removal_is_not_lost_with_a_new_job_of_the_id";
    HandsOutTwice a_store_that_hands_out_a_job_twice_is_caught:
        "run::claim::a_claimed_job_is_not_claimed_again",
        "run::race::of_64_claimers_no_two_get_the_same_job";
    ClaimsOtherNames a_store_that_claims_other_names_is_caught:
        "run::claim::a_claim_takes_only_the_names_it_asks_for";
    ClaimsAnewWhenRepeated a_store_that_locks_more_for_a_repeated_claim_is_caught:
        "run::repeat::a_repeated_claim_answers_the_same_jobs_and_locks_nothing_more",
        "run::race::copies_of_a_claim_that_race_answer_the_same_jobs";
    HidesTheNextRun a_store_that_does_not_say_when_to_ask_again_is_caught:
        "run::promotion::next_run_at_is_the_earliest_of_the_asked_names",
        "run::rate::next_run_at_says_when_the_rate_lets_go";
    ShortensLocks a_store_whose_locks_end_early_is_caught:
        "run::lock::a_lock_holds_until_the_millisecond_it_expires";
    ForgetsLimits a_store_that_forgets_max_active_is_caught:
        "run::limits::max_active_holds_over_all_claims_and_handles";
    DoublesRates a_store_that_starts_twice_as_many_is_caught:
        "run::rate::starts_follow_the_rule_to_the_millisecond",
        "run::rate::no_window_sees_more_starts_than_the_rate_allows";
    IgnoresTokens a_store_that_does_not_look_at_tokens_is_caught:
        "run::ack::an_ack_with_another_token_is_refused_in_every_state",
        "run::ack::an_ack_after_a_release_is_refused";
    ForgetsAckedTokens a_store_that_forgets_the_last_acked_token_is_caught:
        "run::batch::a_repeated_ack_changes_nothing";
    TakesSecondEntries a_store_that_takes_a_second_entry_is_caught:
        "run::batch::a_second_entry_for_one_job_is_refused",
        "run::batch::the_first_entry_decides_even_if_it_is_refused";
    StopsAtTheFirstRefusal a_store_that_stops_at_a_refused_ack_is_caught:
        "run::batch::acks_are_answered_in_their_places_and_independently";
    RetriesOnRelease a_store_whose_release_uses_an_attempt_is_caught:
        "run::release::a_released_job_is_as_if_it_had_not_been_claimed",
        "run::release::a_released_job_takes_its_old_place";
    HidesCancels a_store_whose_heartbeat_hides_cancels_is_caught:
        "run::lock::a_pending_cancel_is_named_and_not_extended";
    AllowsOneMoreStall a_store_that_allows_one_stall_more_is_caught:
        "run::stall::one_stall_too_many_fails_the_job",
        "run::stall::a_job_that_kills_its_process_fails_and_its_neighbours_do_not";
    SaysNothingRemains a_store_that_says_nothing_remains_is_caught:
        "run::stall::a_recovery_takes_at_most_250",
        "admin::sweep::a_sweep_takes_at_most_250";
    SkipsTies a_store_whose_cursor_skips_ties_is_caught:
        "inspect::page::pages_under_ties_lose_nothing_at_any_size";
    DropsLabels a_store_that_does_not_look_at_labels_is_caught:
        "inspect::filter::labels_must_all_match";
    MiscountsByOne a_store_whose_counts_are_off_by_one_is_caught:
        "inspect::counts::each_state_is_counted";
    TurnsTheLedger a_store_whose_ledger_is_turned_around_is_caught:
        "run::ledger::entries_come_oldest_first_and_count_every_run";
    ForgetsKeep a_store_that_forgets_retention_is_caught:
        "admin::keep::a_count_keeps_the_newest",
        "admin::sweep::an_age_is_over_at_its_millisecond";
    SweepsTwice a_store_that_sweeps_more_than_its_limit_is_caught:
        "admin::sweep::a_sweep_takes_no_more_than_its_limit_and_says_whether_more_remain";
    RetriesAnything a_store_that_shrugs_at_illegal_states_is_caught:
        "admin::retry::only_a_failed_job_can_be_retried";
    TakesAnyName a_store_that_takes_any_name_is_caught:
        "admin::name::another_name_is_refused";
    TicksWithoutLooking a_store_that_ticks_without_comparing_is_caught:
        "schedule::tick::a_tick_on_an_older_version_is_void",
        "schedule::tick::a_repeated_tick_is_void_even_if_the_slots_job_is_gone";
    MovesTheNextSlot a_store_whose_upsert_moves_the_next_slot_is_caught:
        "schedule::stored::an_unchanged_cadence_keeps_the_next_slot";
}
