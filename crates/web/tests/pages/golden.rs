//! Every page as it is, byte for byte. `UPDATE_GOLDEN=1 cargo test -p pombo-web --test pages` writes them anew; look at
//! the difference before it is kept.

use std::path::Path;

use crate::browser::Browser;
use crate::house::House;
use crate::markup::is_sound;
use crate::matrix::shown;
use crate::scene::furnished;

/// A page, with what differs from run to run taken out, and a line for each element, so that a difference can be read.
fn settled(page: &str, things: &crate::scene::Things) -> String {
    let mut text =
        page.replace(&things.dead, "DEAD").replace(&things.sent, "SENT").replace(&things.waiting, "WAITING");
    text = text.replace(&things.operation, "OPERATION");
    for marker in ["name=\"csrf\" value=\"", "name=\"once\" value=\"", "data-part=\"", "/assets/pombo-"] {
        let mut pieces = text.split(marker);
        let first = pieces.next().unwrap().to_owned();
        let rest = pieces.map(|piece| {
            let end = piece.find(['"', '.']).unwrap();
            format!("{marker}…{}", &piece[end..])
        });
        text = first + &rest.collect::<String>();
    }
    // Ids are shown in short, too.
    for (id, name) in [(&things.dead, "DEAD"), (&things.sent, "SENT"), (&things.waiting, "WAITING")] {
        text = text.replace(&format!("{}…{}", &id[..8], &id[id.len() - 6..]), name);
    }
    for (name, id) in things.campaigns.named() {
        let short = format!("{}…{}", &id[..8], &id[id.len() - 6..]);
        text = text.replace(id, name).replace(&short, name);
    }
    text.replace("><", ">\n<")
}

#[tokio::test]
async fn every_page_is_as_it_was_looked_at() {
    let house = House::new().await;
    let things = furnished(&house, "somebody's words").await;
    let browser = Browser::of(&house, "admin").await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages/golden");
    let mut wrong = Vec::new();
    for address in shown().chain(["/login?"]) {
        let page = match address {
            "/login?" => Browser::new(&house).page("/login").await,
            address => browser.page(&things.address(address)).await,
        };
        is_sound(&page, address);
        assert!(page.len() < 100_000, "{address} has {} bytes", page.len());
        let path = address.split('?').next().unwrap_or_default();
        let name = path.trim_matches('/').replace('/', "-").to_lowercase();
        let file = folder.join(format!("{}.html", if name.is_empty() { "overview" } else { &name }));
        let page = settled(&page, &things);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&file, &page).unwrap();
        }
        let golden = std::fs::read_to_string(&file).unwrap_or_default();
        if golden != page {
            let line = golden.lines().zip(page.lines()).position(|(a, b)| a != b).unwrap_or(0);
            wrong.push(format!(
                "{}: line {}: {:?} is now {:?}",
                file.display(),
                line + 1,
                golden.lines().nth(line),
                page.lines().nth(line)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn every_page_is_there_in_portuguese() {
    let house = House::new().await;
    let things = furnished(&house, "words").await;
    let browser = Browser { lang: "pt-BR", ..Browser::of(&house, "admin").await };
    let english = Browser { lang: "en", ..Browser::of(&house, "admin").await };
    for address in shown() {
        let page = browser.page(&things.address(address)).await;
        assert!(page.contains("<html lang=\"pt-BR\">"), "{address}");
        let heading =
            |page: &str| page.split_once("<h1>").unwrap().1.split("</h1>").next().unwrap().to_owned();
        assert_ne!(heading(&page), heading(&english.page(&things.address(address)).await), "{address}");
    }
}

#[tokio::test] // REQ OB-1
async fn a_message_is_told_of_in_plain_language() {
    let house = House::new().await;
    let things = furnished(&house, "slow down").await;
    let browser = Browser::of(&house, "viewer").await;
    let page = browser.page(&things.address("/messages/DEAD")).await;
    for words in [
        "<strong>First attempt</strong> failed: the provider asked for a slower pace.",
        "Next try in 2.2 s: policy webhook, 2 s with jitter +12%.",
        "<strong>Second attempt</strong> failed:",
        "Trying again would not help, so it is now a dead letter.",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let page = Browser { lang: "pt-BR", ..browser }.page(&things.address("/messages/DEAD")).await;
    for words in [
        "<strong>Primeira tentativa</strong> falhou: o provedor pediu um ritmo mais lento.",
        "Próxima tentativa em 2,2 s: política webhook, 2 s com variação de +12%.",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
}
