//! Rounds by hand, on every store: time stands still unless it is told to pass.

use pombo_kernel::notice::Notice;
use pombo_store::audit::Event;
use pombo_store::shelf::{Pick, Shelf, Wanted};
use pombo_web::notice;

use super::*;
use crate::by_hand::{Hand, T0, configured, draft, end_all, every_store, model};

const CONFIG: &str = "[channels.mail]\nkind = \"null\"\n\
    [notices.ops]\nchannel = \"mail\"\nto = \"x\"\n[notices.chefia]\nchannel = \"mail\"\nto = \"y\"\nlanguage = \"pt-BR\"\n\
    [reports.daily]\nnotify = [\"ops\", \"chefia\"]\n";

struct World {
    store: Arc<dyn Store>,
    clock: Arc<Hand>,
    setup: watch::Sender<Arc<Setup>>,
}

impl World {
    fn on(store: Arc<dyn Store>, clock: Arc<Hand>) -> World {
        World { store, clock, setup: configured(CONFIG) }
    }

    fn node(&self) -> Work {
        Work { store: self.store.clone(), setup: self.setup.subscribe(), clock: self.clock.clone() }
    }

    async fn end(&self, count: usize, failed: Option<&str>) {
        self.store.accept(vec![draft("default", "mail"); count]).await.unwrap();
        end_all(&*self.store, "default", failed, self.clock.now()).await;
    }

    /// What people are to be sent, the oldest first.
    async fn letters(&self) -> Vec<Notice> {
        let pick = Pick::All { after: None };
        let wanted = Wanted { shelf: Shelf::Alert, tenant: None, pick, limit: 1_000 };
        let docs = self.store.docs(wanted).await.unwrap();
        let mut notices: Vec<_> = docs.iter().filter_map(notice::read).collect();
        notices.sort_by_key(|notice| (notice.created_at, notice.to.clone()));
        notices
    }

    async fn recorded(&self) -> usize {
        let records = self.store.audit(0, 10_000).await.unwrap();
        records.iter().filter(|(_, record)| record.event == Event::ReportSent).count()
    }
}

#[tokio::test] // REQ OB-6
async fn a_report_is_sent_once_when_it_is_due_whoever_restarts_on_every_store() {
    // It begins at five in the morning in São Paulo, on 2027-01-15.
    assert_eq!(T0, "2027-01-15T08:00:00Z".parse().unwrap());
    for (name, store, clock, _place) in every_store() {
        let world = World::on(store, clock);
        assert_eq!(world.node().round().await.unwrap(), Some(T0 + Span::from_hours(3)), "{name}");
        world.end(5, None).await;
        world.end(2, Some("invalid_recipient")).await;
        world.clock.pass(Span::from_hours(3));
        for _ in 0..3 {
            // Another life each time, and two of them at once.
            let (one, two) = (world.node(), world.node());
            let (a, b) = tokio::join!(one.round(), two.round());
            a.and(b).unwrap();
        }
        assert_eq!(world.letters().await.len(), 2, "{name}: one for each of them");
        assert_eq!(world.recorded().await, 1, "{name}");
        world.clock.pass(Span::from_hours(24));
        world.node().round().await.unwrap();
        let letters = world.letters().await;
        let subjects: Vec<_> = letters.iter().map(|it| it.letter.subject.as_str()).collect();
        assert_eq!(
            subjects,
            [
                "[Pombo] Relatório diário daily: 2027-01-14",
                "[Pombo] Daily report daily: 2027-01-14",
                "[Pombo] Relatório diário daily: 2027-01-15",
                "[Pombo] Daily report daily: 2027-01-15",
            ],
            "{name}"
        );
        let totals = |nth: usize| letters[nth].letter.data["data"]["totals"].clone();
        assert_eq!((totals(0)["sent"].as_u64(), totals(0)["failed"].as_u64()), (Some(0), Some(0)), "{name}");
        assert_eq!((totals(2)["sent"].as_u64(), totals(2)["failed"].as_u64()), (Some(5), Some(2)), "{name}");
        let figures = &letters[3].letter.data["data"];
        assert_eq!(figures["permanent_errors"]["count"], 2, "{name}: {figures}");
        assert_eq!(figures["causes"][0]["category"], "invalid_recipient", "{name}");
        assert_eq!(letters[0].about, "report.daily");
    }
}

#[tokio::test] // REQ OB-6
async fn what_was_due_while_no_node_ran_is_sent_when_one_does_and_only_the_newest() {
    let (store, clock) = model();
    let world = World::on(store, clock);
    world.node().round().await.unwrap();
    world.clock.pass(Span::from_hours(24 * 4));
    world.node().round().await.unwrap();
    let letters = world.letters().await;
    assert_eq!(letters.len(), 2);
    assert_eq!(letters[1].letter.subject, "[Pombo] Daily report daily: 2027-01-17");
}

#[tokio::test] // REQ OB-6
async fn what_is_owed_to_people_comes_before_the_note_that_it_was_sent() {
    let (store, clock) = model();
    let world = World::on(store, clock);
    world.node().round().await.unwrap();
    world.clock.pass(Span::from_hours(3));
    // Somebody owed it to people and went away before it was noted.
    let (setup, now) = (world.setup.borrow().clone(), world.clock.now());
    let report = &setup.alerts.reports["daily"];
    let period = report.schedule.latest(now);
    let figures = report::figures(&*world.store, &setup, report, &period).await.unwrap();
    let key = period.until.millis().to_string();
    let owed = report::owe(report, &period, &figures, &setup.alerts, &key, now);
    world.store.shelve(owed.into_iter().map(|(_, wish)| wish).collect()).await.unwrap();
    world.node().round().await.unwrap();
    assert_eq!((world.letters().await.len(), world.recorded().await), (2, 1), "nobody gets it twice");
}
