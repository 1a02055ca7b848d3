//! What is done to a campaign by pressing a button.

use http::Method;
use pombo_kernel::time::Time;
use pombo_kernel::window::{Date, Minute, Zone};
use serde_json::{Value, json};

use crate::dash::campaigns::address;
use crate::dash::form::Form;
use crate::dash::visit::{Reply, Visit};
use crate::problem::Problem;

/// Has the API do it, and goes back to the campaign's page, which says so.
async fn done(visit: &Visit, path: &'static str, body: &Value, en: &str, pt: &str) -> Result<Reply, Problem> {
    visit.act(Method::POST, path, visit.name(), body).await?;
    Ok(Reply::done(address(visit.name()), visit.lang().say(en, pt)))
}

pub(crate) async fn start(visit: Visit, _: Form) -> Result<Reply, Problem> {
    let (en, pt) = ("The campaign was started.", "A campanha foi iniciada.");
    done(&visit, "/v1/campaigns/{id}/start", &json!({}), en, pt).await
}

/// At a time by the dashboard's clock.
pub(crate) async fn schedule(visit: Visit, form: Form) -> Result<Reply, Problem> {
    let at = moment(form.get("at"), &visit.look().zone);
    let at = at.ok_or_else(|| {
        Problem::field("at", "is not a day and a time", "write for example 2026-12-01T09:00")
    })?;
    let (en, pt) =
        ("The campaign begins by itself at its time.", "A campanha começa sozinha na hora marcada.");
    done(&visit, "/v1/campaigns/{id}/schedule", &json!({ "at": at }), en, pt).await
}

/// `2026-12-01T09:00`, as a browser writes it, there.
fn moment(text: &str, zone: &Zone) -> Option<Time> {
    let (date, minute) = text.trim().split_once(['T', ' '])?;
    let (date, minute): (Date, Minute) = (date.parse().ok()?, minute.get(..5)?.parse().ok()?);
    Some(zone.moment(date, minute))
}

pub(crate) async fn pause(visit: Visit, form: Form) -> Result<Reply, Problem> {
    let body = form.given("note").map_or_else(|| json!({}), |note| json!({ "note": note }));
    let (en, pt) = (
        "The campaign was paused. A message that is on its way arrives.",
        "A campanha foi pausada. Uma mensagem que está a caminho chega.",
    );
    done(&visit, "/v1/campaigns/{id}/pause", &body, en, pt).await
}

pub(crate) async fn resume(visit: Visit, _: Form) -> Result<Reply, Problem> {
    let (en, pt) = ("The campaign was resumed.", "A campanha foi retomada.");
    done(&visit, "/v1/campaigns/{id}/resume", &json!({}), en, pt).await
}

pub(crate) async fn cancel(visit: Visit, _: Form) -> Result<Reply, Problem> {
    let (en, pt) = ("The campaign was cancelled.", "A campanha foi cancelada.");
    done(&visit, "/v1/campaigns/{id}/cancel", &json!({}), en, pt).await
}

/// Goes on with those who are pending, and with those who failed if that was asked for.
pub(crate) async fn retry(visit: Visit, form: Form) -> Result<Reply, Problem> {
    let body = json!({"failed": form.get("failed") == "true"});
    let (en, pt) =
        ("They are written to again, at the campaign's pace.", "Eles recebem de novo, no ritmo da campanha.");
    done(&visit, "/v1/campaigns/{id}/retry", &body, en, pt).await
}

/// Takes a draft away.
pub(crate) async fn remove(visit: Visit, _: Form) -> Result<Reply, Problem> {
    visit.act(Method::DELETE, "/v1/campaigns/{id}", visit.name(), &json!({})).await?;
    Ok(Reply::done("/campaigns", visit.lang().say("The draft was removed.", "O rascunho foi removido.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_that_of_the_dashboards_clock() {
        let zone: Zone = "America/Sao_Paulo".parse().unwrap();
        let at = |text: &str| moment(text, &zone).map(|at| at.to_string());
        assert_eq!(at("2026-12-01T09:00").as_deref(), Some("2026-12-01T12:00:00.000Z"));
        assert_eq!(at("2026-12-01 09:00:30").as_deref(), Some("2026-12-01T12:00:00.000Z"));
        for bad in ["", "2026-12-01", "tomorrow T09:00", "2026-12-01T9", "2026-13-01T09:00"] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }
}
