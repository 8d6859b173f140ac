//! The rows of `docs/figures.md` that Skylight (FAST'15) measured on its six drives, as raw behaviour of their profiles.
//!
//! [`table`] has every row: what is checked, the paper's figure, and the accepted band. The other modules run
//! the paper's tests and pass their figures to it; `cargo test -p skylight-drive --test facts -- --nocapture`
//! prints the whole table. The tests use the shipped profiles; nothing is tuned for a row.
//!
//! Invariant: every row is measured, and every row that the drives must satisfy is in the table.

mod advice;
mod cleaning;
mod fragments;
mod limits;
mod paper_tools;
mod table;
mod writes;

/// A test for each row, and the list of the rows.
macro_rules! rows {
    ($($id:literal $name:ident = $measure:path;)*) => {
        const MEASURED: &[&str] = &[$($id),*];
        $(
            #[test]
            fn $name() {
                table::judge($id, &$measure());
            }
        )*
    };
}

rows! {
    "S1a" s1a_isolated_writes_to_a_set_associative_disk_cache_take_a_revolution = writes::s1a;
    "S1b" s1b_isolated_writes_to_flash_take_less_than_a_millisecond = writes::s1b;
    "S1c" s1c_isolated_writes_to_a_fully_associative_drive_take_a_revolution = writes::s1c;
    "S1d" s1d_isolated_writes_to_a_conventional_drive_vary = writes::s1d;
    "S1e" s1e_isolated_writes_take_two_and_a_half_revolutions_and_every_240th_a_map_merge = writes::s1e;
    "S1f" s1f_a_deep_queue_packs_writes_into_few_entries = writes::s1f;
    "S1g" s1g_reads_in_written_order_show_how_blocks_were_packed = writes::s1g;
    "S1h" s1h_latency_steps_where_a_burst_needs_another_quantum = writes::s1h;
    "S2a" s2a_fragmented_reads_show_where_the_cache_lies = fragments::s2a;
    "S3a" s3a_reads_after_a_pause_show_whether_the_drive_cleaned = fragments::s3a;
    "S3b" s3b_one_cleaning_in_the_head_trace = cleaning::s3b;
    "S4a" s4a_bands_with_one_dirty_block_are_cleaned_in_the_order_of_their_writes = cleaning::s4a;
    "S5a" s5a_cleaning_takes_the_oldest_write_and_all_of_its_band = cleaning::s5a;
    "S6a" s6a_isolated_writes_fill_the_slots = limits::s6a;
    "S7a" s7a_small_writes_in_a_deep_queue_fill_the_map = limits::s7a;
    "S8a" s8a_large_writes_in_a_deep_queue_fill_the_cache = limits::s8a;
    "S8b" s8b_emulated_drives_take_most_of_their_cache_before_they_clean = limits::s8b;
    "S13" s13_random_writes_are_many_times_those_of_a_conventional_drive = advice::s13;
    "S14" s14_sequential_writes_need_the_volatile_cache = advice::s14;
    "S15" s15_reads_during_cleaning_are_as_before_it = fragments::s15;
    "S16" s16_a_volatile_cache_packs_as_a_deep_queue_does = limits::s16;
}

#[test]
fn every_row_of_the_table_is_measured() {
    assert_eq!(table::ids(), MEASURED);
}
