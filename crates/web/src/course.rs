//! A channel as campaigns use it, from which it follows when they send and what they wait for.

use std::collections::BTreeMap;

use pombo_kernel::campaign::forecast::Outlook;
use pombo_kernel::campaign::line::{Line, LineRules};
use pombo_kernel::campaign::recipient::Standing;
use pombo_kernel::campaign::waiting::Waiting;
use pombo_kernel::campaign::{Campaign, State};
use pombo_kernel::message;
use pombo_kernel::name::{ChannelName, Tenant};
use pombo_kernel::setup::{ChannelSetup, Destination, Setup};
use pombo_kernel::time::Time;
use pombo_store::roster::{self, Roster};
use pombo_store::shelf::{Pick, Shelf, Wanted};
use pombo_store::{Place, Store, StoreError};

/// Campaigns that use a line at the same time, as far as they are looked at.
const SHARERS: usize = 64;
/// Messages of a campaign that wait for another try, as far as they are looked at.
const TRIED: usize = 256;

/// A channel's rules, how it stands, and who uses it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    pub(crate) rules: LineRules,
    tenant: Tenant,
    line: Line,
    /// Campaigns that run or will, by id, where they have to share something.
    sharers: Vec<(String, Campaign)>,
    /// What keeps all of its messages from going.
    stop: Option<Waiting>,
}

impl Course {
    /// Of a campaign's channel; without rules if there is no such channel any more.
    pub(crate) async fn of(
        store: &dyn Store,
        setup: &Setup,
        campaign: &Campaign,
        now: Time,
    ) -> Result<Course, StoreError> {
        let Some(channel) = setup.channels.get(&campaign.channel) else { return Ok(Course::default()) };
        let (rules, tenant) = (channel.line.clone(), channel.tenant.clone());
        let stop = stop(store, channel, now).await?;
        let mut course = Course { rules, tenant, stop, ..Course::default() };
        if course.rules.is_free() {
            return Ok(course);
        }
        let name = campaign.channel.to_string();
        let doc = store.doc(Shelf::Line, Tenant::default(), name.clone()).await?;
        course.line = doc.and_then(|doc| serde_json::from_str(&doc.leaf.body).ok()).unwrap_or_default();
        if course.rules.gap.is_some() || course.rules.daily_cap.is_some() {
            let (tenant, pick) = (Some(course.tenant.clone()), Pick::Topic { topic: name, after: None });
            let docs = store.docs(Wanted { shelf: Shelf::Campaign, tenant, pick, limit: SHARERS }).await?;
            let sharers = docs.into_iter().filter_map(|doc| Some((roster::read(&doc)?, doc.id)));
            course.sharers = sharers.map(|(campaign, id)| (id, campaign)).collect();
        }
        Ok(course)
    }

    /// What the future of one of its campaigns depends on.
    pub(crate) async fn outlook(
        &self,
        store: &dyn Store,
        id: &str,
        campaign: &Campaign,
    ) -> Result<Outlook<'_>, StoreError> {
        let others = self.sharers.iter().filter(|(other, _)| other != id).map(|(_, it)| it).collect();
        let retries = self.retries(store, id, campaign).await?;
        let Course { rules, line, stop, .. } = self;
        Ok(Outlook { rules, line, others, retries, stop: stop.clone() })
    }

    /// When the messages of a campaign are due that wait for another try.
    async fn retries(
        &self,
        store: &dyn Store,
        id: &str,
        campaign: &Campaign,
    ) -> Result<Vec<Time>, StoreError> {
        let roll = &campaign.roll;
        let tried = roll.queued.saturating_sub(roll.ahead + u64::from(campaign.flight.is_some()));
        let Some(list) = id.parse().ok().filter(|_| tried > 0) else { return Ok(Vec::new()) };
        let queued = Roster {
            tenant: self.tenant.clone(),
            campaign: list,
            standing: Some(Standing::Queued),
            after: 0,
            limit: TRIED,
        };
        let queued = store.recipients(queued).await?;
        let lines = store.lines(queued.iter().filter_map(|it| it.message).collect()).await?;
        let waiting = lines.iter().filter(|line| line.progress.steps > 0);
        Ok(waiting
            .filter_map(|line| match line.state {
                message::State::Pending { due } => Some(due),
                _ => None,
            })
            .collect())
    }
}

/// What keeps all messages of a channel from going: whatever nobody knows the end of, or else what lasts longest.
async fn stop(store: &dyn Store, channel: &ChannelSetup, now: Time) -> Result<Option<Waiting>, StoreError> {
    if let Some(pause) = store.paused().await? {
        return Ok(Some(Waiting::all_paused(&pause.why)));
    }
    let in_front = |place: &Place| {
        place.channel == channel.name
            && match (&place.destination, &channel.destination) {
                (None, _) => true,
                (Some(one), Destination::Fixed(only)) => one == only,
                _ => false,
            }
    };
    let blocks = store.blocks().await?;
    let stops = blocks.iter().filter(|(place, _)| in_front(place));
    let stops = stops.filter_map(|(_, block)| Waiting::behind(block, &channel.line.time_zone, now));
    Ok(stops.max_by_key(|stop| stop.until.unwrap_or(Time::MAX)))
}

/// The campaign as it would run from that time on; none where there is nobody whom it could write to.
pub(crate) fn begun(campaign: &Campaign, from: Time) -> Option<(Campaign, Time)> {
    let mut begun = campaign.clone();
    let mut from = from;
    // One that was paused before its time waits for that again, and begins then.
    while !matches!(begun.state, State::Running { .. }) {
        if let State::Scheduled { start_at } = begun.state {
            from = start_at.max(from);
        }
        begun.start(from).ok()?;
    }
    Some((begun, from))
}

/// The channels of several campaigns, each looked at once.
#[derive(Debug, Default)]
pub(crate) struct Courses(BTreeMap<ChannelName, Course>);

impl Courses {
    pub(crate) async fn of(
        &mut self,
        store: &dyn Store,
        setup: &Setup,
        campaign: &Campaign,
        now: Time,
    ) -> Result<&Course, StoreError> {
        if !self.0.contains_key(&campaign.channel) {
            let course = Course::of(store, setup, campaign, now).await?;
            self.0.insert(campaign.channel.clone(), course);
        }
        Ok(&self.0[&campaign.channel])
    }
}
