//! `pombo stats`: counts of all time, by channel and in all.

use serde_json::Value;

use super::out::{self, Table};
use super::{Shared, Trouble};

const COUNTS: [&str; 7] = ["accepted", "waiting", "sent", "failed", "cancelled", "discarded", "retries"];

pub(crate) async fn run(shared: &Shared) -> Result<(), Trouble> {
    let stats = shared.client()?.get("/v1/stats").await?;
    if shared.json {
        out::document(&stats);
        return Ok(());
    }
    let [accepted, waiting, sent, failed, cancelled, discarded, retries] = COUNTS;
    let headings = ["channel", accepted, waiting, sent, failed, cancelled, discarded, retries];
    let mut table = Table::new(headings).cut(0, 8);
    let channels = stats["channels"].as_object().into_iter().flatten();
    let channels = channels.map(|(name, counts)| (name.as_str(), counts));
    for (name, counts) in channels.chain([("all", &stats["total"])]) {
        let [a, b, c, d, e, f, g] = COUNTS.map(|what| count(counts, what));
        table.row([name.to_owned(), a, b, c, d, e, f, g]);
    }
    table.print();
    if let Some(reason) = stats["paused"]["reason"].as_str() {
        out::note(format!("nothing is sent: {reason}; `pombo store resume` lets it go on"));
    }
    Ok(())
}

fn count(counts: &Value, what: &str) -> String {
    counts[what].as_u64().unwrap_or_default().to_string()
}
