//! The dashboard in a real browser: Debian's Chromium, led by the walks beside this file (`node walks.cjs NAME`).
//!
//! Pictures of every page are left in `target/screenshots`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "what a walk saw is told with its failure")]

mod history;
mod house;
#[path = "../place/mod.rs"]
mod place;

use house::House;

async fn walk(name: &str) {
    House::new().await.walk(name).await;
}

#[tokio::test]
async fn people_come_in_by_a_key_and_by_a_link_that_works_once() {
    let house = House::new().await;
    house.walk("by_key").await;
    house.walk("by_link").await;
}

#[tokio::test]
async fn the_language_is_the_browsers_until_somebody_chooses_another() {
    walk("languages").await;
}

#[tokio::test]
async fn a_keyboard_is_enough_and_the_focus_can_be_seen_all_the_way() {
    walk("by_keyboard").await;
}

#[tokio::test]
async fn what_failed_is_read_corrected_and_seen_to_go_and_so_are_a_group_and_a_campaign() {
    let house = House::new().await;
    for walk in ["corrects_live", "reprocesses_live", "campaign_live"] {
        house.walk(walk).await;
    }
}

#[tokio::test]
async fn the_same_is_done_without_a_script() {
    let house = House::new().await;
    for walk in ["corrects_plain", "reprocesses_plain", "campaign_plain"] {
        house.walk(walk).await;
    }
}

#[tokio::test]
async fn a_page_under_load_changes_once_a_second_and_does_not_grow() {
    walk("under_load").await;
}

#[tokio::test]
async fn a_tab_that_nobody_sees_has_no_stream() {
    walk("hidden_tab").await;
}

#[tokio::test]
async fn every_page_is_accessible_light_and_from_here_in_both_themes_and_on_a_phone() {
    walk("every_page").await;
}
