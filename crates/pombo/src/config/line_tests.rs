//! Lines, hours and suppressions in the file.

use pombo_kernel::campaign::line::LineRules;
use pombo_kernel::setup::Suppressions;

use super::tests::{check, good};
use super::*;

fn line(text: &str) -> LineRules {
    good(text).setup().channels["zap"].line.clone()
}

const ZAP: &str = "[channels.zap]\nkind = 'evolution'\n";

#[test] // REQ BK-6
fn a_line_is_free_unless_the_file_says_otherwise() {
    assert!(line(ZAP).is_free());
    let rules = line(&format!("{ZAP}line_gap_seconds = 2.5\ndaily_cap = 800\n"));
    assert_eq!((rules.gap, rules.daily_cap), (Some(Span::from_millis(2_500)), Some(800)));
    assert_eq!(rules.time_zone.to_string(), "America/Sao_Paulo");
}

#[test] // REQ BK-6
fn hours_are_named_or_stand_there_and_have_the_files_time_zone_unless_they_name_one() {
    let windows = "time_zone = 'America/Manaus'\n[windows.office]\nhours = '08:00-18:00'\ndays = ['mon']\n";
    let named = line(&format!("{windows}{ZAP}window = 'office'\n"));
    let there = line(&format!("{windows}{ZAP}window = {{ hours = '08:00-18:00', days = ['mon'] }}\n"));
    assert_eq!(named, there);
    assert_eq!(named.time_zone.to_string(), "America/Manaus");
    assert_eq!(named.window.as_ref().unwrap().time_zone.to_string(), "America/Manaus");
    let other = line(&format!("{windows}time_zone = 'UTC'\n{ZAP}window = 'office'\n"));
    assert_eq!(other.window.unwrap().time_zone.to_string(), "UTC");
}

#[test] // REQ BK-6
fn every_problem_of_lines_and_hours_is_told_at_once() {
    let text = "time_zone = 'Brasilia'\n\
        [windows.office]\nhours = '20:00-08:00'\ndays = ['Mon']\nfrom = 1\n\
        [windows.never]\nhours = '08:00-09:00'\ndays = []\n\
        [windows.empty]\n\
        [channels.a]\nkind = 'evolution'\nline_gap_seconds = 0\ndaily_cap = 0\nwindow = 'offices'\nsuppressions = 'some'\nweight = 0\n\
        [channels.b]\nkind = 'evolution'\nwindow = 3\nsuppress = 'no'\nline_gap_seconds = 1e9\nweight = 101\n\
        [channels.c]\nkind = 'evolution'\nwindow = 'office'\n\
        [channels.d]\nkind = 'evolution'\nwindow = { hours = '08:00-09:00', time_zone = 'Marte' }\n";
    let paths = [
        "channels.a.daily_cap",
        "channels.a.line_gap_seconds",
        "channels.a.suppressions",
        "channels.a.weight",
        "channels.a.window",
        "channels.b.line_gap_seconds",
        "channels.b.suppress",
        "channels.b.weight",
        "channels.b.window",
        "channels.d.window.time_zone",
        "time_zone",
        "windows.empty.hours",
        "windows.never.days",
        "windows.office.days",
        "windows.office.from",
        "windows.office.hours",
    ];
    check(text, &paths, &["Most sends of campaigns on one day"]);
    check(
        &format!("{ZAP}window = 'office'\n"),
        &["channels.zap.window"],
        &["`office`", "add [windows.office]"],
    );
    let near = format!("[windows.office]\nhours = '08:00-09:00'\n{ZAP}window = 'ofice'\n");
    check(&near, &["channels.zap.window"], &["did you mean `office`?"]);
}

#[test] // REQ BK-5
fn a_channel_has_one_turn_where_others_have_one_unless_the_file_says_otherwise() {
    let weight = |more: &str| good(&format!("{ZAP}{more}")).setup().channels["zap"].care.weight.get();
    assert_eq!((weight(""), weight("weight = 3\n"), weight("weight = 100\n")), (1, 3, 100));
    let path = "channels.zap.weight";
    check(&format!("{ZAP}weight = 101\n"), &[path], &["101 is out of bounds", "hint: 1 to 100"]);
}

#[test] // REQ BK-8
fn campaigns_always_mind_the_suppression_list_and_other_messages_where_the_channel_says_so() {
    let channel = |more: &str| good(&format!("{ZAP}{more}")).setup().channels["zap"].clone();
    assert_eq!((channel("").suppressions, channel("").care.forgives), (Suppressions::Bulk, false));
    let all = channel("suppressions = 'all'\nsuppress = false\n");
    assert_eq!((all.suppressions, all.care.forgives), (Suppressions::All, true));
}

#[test]
fn the_environment_outranks_the_file() {
    let zone = [("POMBO_TIME_ZONE", "UTC"), ("POMBO_CHANNELS__ZAP__LINE_GAP_SECONDS", "7")];
    let config = Config::parse(ZAP, Source::default(), &zone.into_iter().collect()).unwrap();
    let rules = &config.setup().channels["zap"].line;
    assert_eq!((rules.gap, rules.time_zone.to_string().as_str()), (Some(Span::from_secs(7)), "UTC"));
}
