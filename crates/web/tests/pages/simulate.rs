//! Policies tried on the dashboard: what is shown of them, and what is refused before anything is computed.

use std::sync::Arc;

use http::StatusCode;
use pombo_kernel::adapt::Adaptive;
use pombo_kernel::policy::{Overrides, Policy, Profile};

use crate::browser::Browser;
use crate::house::House;
use crate::markup::is_sound;
use crate::scene::puzzled;

const HERE: &str = "/learning/simulate";

fn own(name: &str, changes: &Overrides) -> Policy {
    let base = Policy::built_in("smtp", Profile::Production).unwrap().with(changes);
    Policy { name: name.parse().unwrap(), ..base }
}

/// The words of each row of the first table.
fn rows(page: &str) -> Vec<String> {
    let table = page.split_once("<tbody>").unwrap().1.split_once("</tbody>").unwrap().0;
    let text = |row: &str| {
        let cells =
            row.split("</t").map(|cell| cell.rsplit('>').next().unwrap_or_default().trim().to_owned());
        cells.filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("|")
    };
    table.split("</tr>").filter(|row| row.contains("<td")).map(text).collect()
}

#[tokio::test] // REQ LN-2
async fn a_policy_is_tried_on_a_published_scenario_and_drawn() {
    let house = House::new().await;
    let browser = Browser::of(&house, "viewer").await;
    let address = format!("{HERE}?policy=smtp&try=published&scenario=restart");
    let page = browser.page(&address).await;
    is_sound(&page, &address);
    let rows = rows(&page);
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(rows[0].starts_with("fixed|") && rows[1].starts_with("adaptive, new|"), "{rows:?}");
    for words in [
        "With adaptive waits 100% recover instead of",
        "less waste, sooner",
        "messages were played",
        "Recovered over time",
        "Load on the provider",
        "pombo simulate smtp --scenario restart --messages 4000",
        "class=\"shade\"",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert_eq!(page.matches("<desc").count(), 4, "every drawing is described");
    assert_eq!(page.matches("class=\"curve act-taught\"").count(), 4, "a key, a row, a line and a panel");
    assert_eq!(page, browser.page(&address).await, "the same address shows the same");
}

#[tokio::test] // REQ LN-2
async fn trouble_of_ones_own_is_played_as_the_command_line_would() {
    let house = House::new().await;
    let browser = Browser { lang: "pt-BR", ..Browser::of(&house, "operator").await };
    for (address, command) in [
        (
            "policy=whatsapp&try=down&from=30s&to=1h+30m&arrivals=5&permanent=10",
            "pombo simulate whatsapp --down 30s..1h30m --arrivals 5 --permanent 10 --messages 4000",
        ),
        (
            "policy=claims&try=flapping&down=90s&up=45s&lasts=1h&arrivals=5&permanent=0",
            "pombo simulate claims --flapping 90s/45s --lasts 1h --arrivals 5 --messages 4000",
        ),
        (
            "policy=resend&try=limit&takes=60&lasts=10m&arrivals=120&permanent=0",
            "pombo simulate resend --limit 60 --lasts 10m --arrivals 120 --messages 4000",
        ),
    ] {
        let page = browser.page(&format!("{HERE}?{address}")).await;
        is_sound(&page, address);
        for words in [command, "No que deu", "mensagens simuladas", "Carga no provedor"] {
            assert!(page.contains(words), "{words}: {page}");
        }
    }
}

#[tokio::test] // REQ LN-2
async fn what_cannot_be_played_is_said_beside_its_field_and_nothing_is_computed() {
    let house = House::new().await;
    let browser = Browser::of(&house, "viewer").await;
    let portuguese = Browser { lang: "pt-BR", ..Browser::of(&house, "viewer").await };
    for (query, field, reason, pt) in [
        ("policy=pigeon", "policy", "there is no policy", "não há política"),
        ("try=published&scenario=rain", "scenario", "there is no scenario", "não há cenário"),
        ("try=down&from=soon&to=5m", "from", "is not a length of time", "não é uma duração"),
        ("try=down&from=&to=5m", "from", "is missing", "está faltando"),
        ("try=down&from=0s&to=5m", "from", "must be longer than nothing", "deve durar mais que nada"),
        ("try=down&from=5m&to=1m", "to", "must not be shorter", "não pode ser menor"),
        ("try=down&from=5m&to=900d", "to", "must be at most 7d", "pode ser no máximo 7d"),
        ("try=down&permanent=101", "permanent", "from 0 to 100", "de 0 a 100"),
        ("try=down&arrivals=0", "arrivals", "from 1 to 1000000", "de 1 a 1000000"),
        ("try=flapping&lasts=7d&down=1s&up=1s", "lasts", "more than a thousand times", "mais de mil vezes"),
        ("try=limit&takes=-1", "takes", "from 1 to 1000000", "de 1 a 1000000"),
        ("try=limit&arrivals=1000000&lasts=7d", "arrivals", "more than a million", "mais de um milhão"),
        ("try=limit&arrivals=100000&lasts=1h", "arrivals", "more than a million", "mais de um milhão"),
        ("try=limit&arrivals=10000&lasts=1h", "arrivals", "than a page can play", "do que uma página"),
        ("try=history&channel=pigeon", "channel", "nothing recorded of", "não há nada registrado de"),
    ] {
        for (browser, reason) in [(&browser, reason), (&portuguese, pt)] {
            let reply = browser.get(&format!("{HERE}?{query}")).await;
            assert_eq!(reply.status, StatusCode::UNPROCESSABLE_ENTITY, "{query}: {}", reply.text);
            let beside = reply.text.split_once(&format!("id=\"{field}-wrong\"")).map(|(_, rest)| rest);
            let beside = beside.and_then(|rest| rest.split("</div>").next()).unwrap_or_default();
            assert!(beside.contains(reason), "{query}: {reason}: {beside}: {}", reply.text);
            assert!(!reply.text.contains("came-title"), "{query}: nothing is computed");
        }
    }
    let all = browser.get(&format!("{HERE}?policy=x&try=down&from=a&to=b&arrivals=c&permanent=d")).await.text;
    assert_eq!(all.matches("class=\"wrong\"").count(), 5, "everything that is wrong is said at once: {all}");
}

#[tokio::test] // REQ LN-2
async fn recorded_retries_are_shown_from_the_worst_case_to_the_best() {
    let house = House::new().await;
    let browser = Browser::of(&house, "viewer").await;
    let empty = browser.page(&format!("{HERE}?try=history")).await;
    assert!(empty.contains("0 recorded retries are too few to say anything"), "{empty}");
    puzzled(&house, "odd", 25).await;
    let address = format!("{HERE}?policy=webhook&try=history&channel=crm");
    let page = browser.page(&address).await;
    is_sound(&page, &address);
    for words in [
        "By 25 recorded retries, 25 of which passed.",
        "from the worst case to the best",
        "At worst trouble ended just before a retry found it gone",
        "class=\"mass band act-taught\"",
        "<option value=\"unknown\">",
        "pombo simulate webhook --history server --channel crm",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert_eq!(rows(&page).len(), 2, "fixed and adaptive");
    let foreign = Browser::of(&house, "foreign").await.page(&format!("{HERE}?try=history")).await;
    assert!(foreign.contains("0 recorded retries") && !foreign.contains("\"crm\""), "{foreign}");
}

#[tokio::test] // REQ LN-2, SE-2
async fn policies_that_only_others_go_by_are_not_offered() {
    let house = House::new().await;
    house.setup.send_modify(|setup| {
        let setup = Arc::make_mut(setup);
        let theirs = own("acme-secret", &Overrides::default());
        let spare = own("spare", &Overrides::default());
        let built_in = setup.dashboard.policies.iter().cloned();
        setup.dashboard.policies = built_in.chain([theirs.clone(), spare]).collect();
        Arc::make_mut(setup.channels.get_mut("theirs").unwrap()).policy = theirs;
        Arc::make_mut(setup.channels.get_mut("null").unwrap()).policy.attempts = 3;
    });
    let browser = Browser::of(&house, "viewer").await;
    let foreign = Browser::of(&house, "foreign").await;
    for path in ["/policies", HERE] {
        let page = browser.page(path).await;
        assert!(page.contains("spare") && !page.contains("acme-secret"), "{path}: {page}");
        assert!(foreign.page(path).await.contains("acme-secret"), "{path}");
    }
    let page = browser.page(&format!("{HERE}?policy=channel:null&try=published&scenario=blips")).await;
    assert!(page.contains("webhook (null)") && page.contains("What came of it"), "{page}");
    assert!(!page.contains("at a terminal"), "no name on the command line stands for it: {page}");
}

#[tokio::test] // REQ LN-2
async fn a_policy_of_a_thousand_attempts_is_played_with_fewer_messages() {
    let house = House::new().await;
    house.setup.send_modify(|setup| {
        let many = own("stubborn", &Overrides { attempts: Some(1_000), ..Overrides::default() });
        let built_in = setup.dashboard.policies.iter().cloned();
        let policies = built_in.chain([many]).collect();
        Arc::make_mut(setup).dashboard.policies = policies;
    });
    let browser = Browser::of(&house, "viewer").await;
    let page = browser.page(&format!("{HERE}?policy=stubborn&try=published&scenario=outage")).await;
    assert!(page.contains("--messages 50") && page.len() < 100_000, "{} {page}", page.len());
    let page = browser.page(&format!("{HERE}?policy=stubborn&try=history")).await;
    assert!(page.len() < 100_000);
}

#[tokio::test] // REQ LN-2
async fn adaptive_waits_are_told_wherever_a_policy_is_shown() {
    let house = House::new().await;
    house.setup.send_modify(|setup| {
        let setup = Arc::make_mut(setup);
        Arc::make_mut(setup.channels.get_mut("crm").unwrap()).policy.adaptive = Adaptive::On;
        Arc::make_mut(setup.channels.get_mut("null").unwrap()).policy.adaptive = Adaptive::Advice;
    });
    let browser = Browser::of(&house, "viewer").await;
    let (on, advice) =
        ("Waits are chosen by what retries have taught", "also says what would have been waited");
    assert!(browser.page("/channels/crm").await.contains(on));
    assert!(browser.page("/channels/null").await.contains(advice));
    let policy = browser.page("/policies/webhook").await;
    assert!(policy.contains(on) && policy.contains(advice) && policy.contains("advice only"), "{policy}");
    let channels = house.get("/v1/channels").await.json();
    let of = |name: &str| {
        let items = channels["items"].as_array().unwrap();
        items.iter().find(|it| it["name"] == name).unwrap()["policy"]["adaptive"].clone()
    };
    assert_eq!((of("crm"), of("null"), of("mail")), (true.into(), "advice".into(), false.into()));
}
