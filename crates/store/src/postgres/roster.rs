//! Whom campaigns write to, and the documents by which they and their lines keep their pace.
//!
//! Whoever sends for a campaign has locked its document and read it anew: nodes agree on what stands there, not on what
//! they remember. What is remembered only saves trying.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use pombo_kernel::campaign::recipient::{Listed, Standing};
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{Json, Message, QueueName};
use pombo_kernel::name::{CampaignName, Tenant};
use pombo_kernel::time::{Span, Time};

use super::link::{Row, Step, Value};
use super::walls::Guard;
use super::{Postgres, rows, shelf, sql};
use crate::StoreError;
use crate::courses::{Courses, Placed};
use crate::roster::{Enlisted, Recipient, Roster};
use crate::rows::{digest, whole};
use crate::shelf::{Doc, Shelf};
use crate::vault::{Spot, Vault};

/// A document bears the time at which its group began, and is there for others when that is committed: at most so much
/// later, since the server ends what takes longer.
const LATE: Span = Span::from_mins(1);

/// Where a document is.
type Place = (Shelf, Tenant, String);

/// What is known of the documents of campaigns and lines.
#[derive(Debug, Default)]
pub(super) struct Docs {
    /// As they are. Nobody else changes those that there are before the commit.
    held: BTreeMap<Place, Option<Doc>>,
    /// Those of them that are to be written.
    changed: BTreeSet<Place>,
    /// Where recipients stand whose messages ended, and why, by message.
    marks: BTreeMap<i64, (i16, Option<String>)>,
    /// The versions that the board has.
    known: HashMap<Place, u32>,
    /// What a group turned out to need that had to begin anew: it has all of it first, in one order.
    wanted: BTreeSet<Place>,
}

impl Docs {
    /// Forgets what the group would have written.
    pub(super) fn forget_group(&mut self) {
        self.held.clear();
        self.changed.clear();
        self.marks.clear();
    }

    /// Whether the group has none of them yet.
    pub(super) fn has_none(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether something is changed that others would like to know.
    pub(super) fn has_news(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The statements that write what the group has made of them.
    pub(super) fn take(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.changed.is_empty() {
            steps.push(self.take_changed());
        }
        if !self.marks.is_empty() {
            let (messages, marks): (Vec<i64>, Vec<_>) = std::mem::take(&mut self.marks).into_iter().unzip();
            let (standings, reasons): (Vec<i16>, Vec<Option<String>>) = marks.into_iter().unzip();
            steps.push((sql!("recipient_mark"), vec![messages.into(), standings.into(), reasons.into()]));
        }
        steps
    }

    fn take_changed(&mut self) -> Step {
        let (mut shelves, mut tenants, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let (mut versions, mut orders, mut topics) = (Vec::new(), Vec::new(), Vec::new());
        let (mut dues, mut times, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
        for place in std::mem::take(&mut self.changed) {
            let Some(Some(doc)) = self.held.get(&place) else { continue };
            shelves.push(place.0 as i16);
            tenants.push(doc.tenant.as_str().to_owned());
            ids.push(rows::escaped(&doc.id));
            versions.push(shelf::numbered(doc.version));
            orders.push(doc.leaf.order);
            topics.push(doc.leaf.topic.as_deref().map(rows::escaped));
            dues.push(doc.leaf.due.map(Time::millis));
            times.push(doc.updated_at.millis());
            bodies.push(rows::escaped(&doc.leaf.body));
        }
        let values = vec![
            shelves.into(),
            tenants.into(),
            ids.into(),
            versions.into(),
            orders.into(),
            topics.into(),
            dues.into(),
            times.into(),
            bodies.into(),
        ];
        (sql!("doc_write"), values)
    }
}

impl Postgres {
    /// What a document says now, which nobody else changes before the commit.
    pub(super) fn keep_doc(&mut self, place: Place, doc: Option<Doc>, now: Time) {
        self.learn_doc(&place, doc.as_ref(), now);
        self.docs.held.insert(place, doc);
    }

    /// The board has what a document says.
    fn learn_doc(&mut self, place: &Place, doc: Option<&Doc>, now: Time) {
        let version = doc.map(|doc| doc.version);
        if self.docs.known.get(place).copied() == version {
            return;
        }
        match version {
            Some(version) => self.docs.known.insert(place.clone(), version),
            None => self.docs.known.remove(place),
        };
        let (shelf, tenant, id) = place;
        self.board.shelved(*shelf, tenant, id, doc, now);
    }

    /// Tries to have a document for this group alone, and as it is; false if somebody else has it just now. There need
    /// not be any.
    fn try_doc(&mut self, shelf: Shelf, tenant: &Tenant, id: &str, now: Time) -> Result<bool, StoreError> {
        let place = (shelf, tenant.clone(), id.to_owned());
        if matches!(self.docs.held.get(&place), Some(Some(_))) {
            return Ok(true);
        }
        let of_it = |sql| (sql, shelf::place(shelf, tenant, id));
        let asked = vec![of_it(sql!("doc_only")), of_it(sql!("doc_try")), of_it(sql!("doc_get"))];
        let found = self.ask(asked)?;
        let [alone, locked, there] = found.as_slice() else { return Err(super::reader::unanswered()) };
        let alone: bool = rows::get(alone.first().ok_or_else(super::reader::unanswered)?, 0)?;
        if !alone || (locked.is_empty() && !there.is_empty()) {
            return Ok(false);
        }
        let doc = locked.first().map(|row| shelf::read(&self.vault, shelf, row)).transpose()?;
        self.keep_doc(place, doc, now);
        Ok(true)
    }

    /// Whether we may send for the queue's campaign: nobody else does before the commit, and the board has it and its
    /// line as they are.
    pub(super) fn try_course(&mut self, name: &QueueName, now: Time) -> Result<bool, StoreError> {
        let campaign = name.campaign.as_ref().map_or("", CampaignName::as_str);
        Ok(self.try_doc(Shelf::Campaign, &name.tenant, campaign, now)?
            && (self.board.rules(&name.channel).is_none()
                || self.try_doc(Shelf::Line, &Tenant::default(), name.channel.as_str(), now)?))
    }

    /// Has the documents of these queues' campaigns and lines, in one order for everybody.
    pub(super) fn lock_courses<'a>(
        &mut self,
        queues: impl Iterator<Item = &'a QueueName>,
        now: Time,
    ) -> Result<(), StoreError> {
        let mut places = BTreeSet::new();
        for queue in queues {
            let Some(campaign) = &queue.campaign else { continue };
            places.insert((Shelf::Campaign, queue.tenant.clone(), campaign.to_string()));
            places.insert((Shelf::Line, Tenant::default(), queue.channel.to_string()));
        }
        self.lock_docs(places, now)
    }

    /// Whoever waits for a document has none that comes after it, so that no two groups wait for each other. Where the
    /// group has such a one, the document is taken if nobody else has it, or the group begins anew and in order.
    fn lock_docs(&mut self, mut places: BTreeSet<Place>, now: Time) -> Result<(), StoreError> {
        places.retain(|place| !self.docs.held.contains_key(place));
        let Some(first) = places.first() else { return Ok(()) };
        match self.docs.held.last_key_value() {
            Some((last, _)) if last > first => return self.try_docs(places, now),
            Some(_) => {}
            None => {
                places.append(&mut self.docs.wanted);
                let guard = std::mem::replace(&mut self.guard_first, Guard::None);
                self.guard_blocks(guard, now)?;
            }
        }
        for row in &self.ask_one(sql!("doc_lock"), arrays(&places))? {
            let (place, doc) = placed(&self.vault, row)?;
            places.remove(&place);
            self.keep_doc(place, Some(doc), now);
        }
        places.into_iter().for_each(|place| self.keep_doc(place, None, now));
        Ok(())
    }

    fn try_docs(&mut self, places: BTreeSet<Place>, now: Time) -> Result<(), StoreError> {
        for place in &places {
            let of_it = |sql| (sql, shelf::place(place.0, &place.1, &place.2));
            let found = self.ask(vec![of_it(sql!("doc_try")), of_it(sql!("doc_get"))])?;
            let [locked, there] = found.as_slice() else { return Err(super::reader::unanswered()) };
            if locked.is_empty() && !there.is_empty() {
                self.docs.wanted = self.docs.held.keys().cloned().chain(places).collect();
                return Err(StoreError::Again("somebody else has a document that comes before ours".into()));
            }
            let doc = locked.first().map(|row| shelf::read(&self.vault, place.0, row)).transpose()?;
            self.keep_doc(place.clone(), doc, now);
        }
        Ok(())
    }

    /// Reads the campaigns and lines that have changed since the last look, if any has by that time, and that the board
    /// has otherwise.
    pub(super) fn learn_changes(&mut self, newest: Option<Time>, now: Time) -> Result<(), StoreError> {
        let since = self.looked.map_or(Time::from_millis(i64::MIN), |looked| looked - LATE);
        if newest.is_none_or(|newest| newest < since) {
            return Ok(());
        }
        let found = self.link.query(sql!("doc_changed"), vec![since.millis().into()])?;
        let mut changed = BTreeSet::new();
        for row in &found {
            let place = (course_shelf(row, 0)?, rows::name(row, 1)?, rows::text(row, 2)?);
            let version = rows::number::<i32, u32>(row, 3)?;
            if self.docs.known.get(&place) != Some(&version) && !self.docs.held.contains_key(&place) {
                changed.insert(place);
            }
        }
        if changed.is_empty() {
            return Ok(());
        }
        for row in &self.link.query(sql!("doc_some"), arrays(&changed))? {
            let (place, doc) = placed(&self.vault, row)?;
            self.learn_doc(&place, Some(&doc), now);
        }
        Ok(())
    }

    /// All of the board is read anew.
    pub(super) fn forget_docs(&mut self) {
        self.docs = Docs { wanted: std::mem::take(&mut self.docs.wanted), ..Docs::default() };
    }

    pub(super) fn strike_some(
        &mut self,
        tenant: &Tenant,
        campaign: &CampaignName,
        max: usize,
    ) -> Result<usize, StoreError> {
        if self.locked_doc(Shelf::Campaign, tenant, campaign.as_str())?.is_some() {
            return Ok(0);
        }
        let mut values = list(tenant, campaign);
        values.push(i64::try_from(max).unwrap_or(i64::MAX).into());
        Ok(self.ask_one(sql!("recipient_strike"), values)?.len())
    }
}

impl Courses for Postgres {
    fn locked_doc(&mut self, shelf: Shelf, tenant: &Tenant, id: &str) -> Result<Option<Doc>, StoreError> {
        let place = (shelf, tenant.clone(), id.to_owned());
        if !self.docs.held.contains_key(&place) {
            // At what time only matters to gates, and whoever asks next has a later one.
            self.lock_docs(BTreeSet::from([place.clone()]), Time::default())?;
        }
        Ok(self.docs.held.get(&place).cloned().flatten())
    }

    fn put_doc(&mut self, shelf: Shelf, doc: &Doc) -> Result<(), StoreError> {
        let place = (shelf, doc.tenant.clone(), doc.id.clone());
        self.docs.known.insert(place.clone(), doc.version);
        self.docs.held.insert(place.clone(), Some(doc.clone()));
        self.docs.changed.insert(place);
        Ok(())
    }

    fn insert_recipients(
        &mut self,
        tenant: &Tenant,
        campaign: &CampaignName,
        from: u64,
        lines: &[Listed],
    ) -> Result<Vec<Enlisted>, StoreError> {
        let vault = self.vault.clone();
        let person = |it: &Listed| vault.person(tenant, &it.key()).into_owned();
        let digests: Vec<Vec<u8>> = lines.iter().map(|it| digest(&[&person(it)])).collect();
        let mut asked = list(tenant, campaign);
        asked.push(digests.clone().into());
        let steps = vec![(sql!("roster_make"), list(tenant, campaign)), (sql!("recipient_known"), asked)];
        let found = self.ask(steps)?.pop().unwrap_or_default();
        // Nobody else adds to the list: its campaign is locked.
        let mut there = found.iter().map(|row| rows::get(row, 0)).collect::<Result<HashSet<Vec<u8>>, _>>()?;
        let mut became = Vec::with_capacity(lines.len());
        let (mut numbers, mut places, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        let (mut persons, mut hashes, mut payloads) = (Vec::new(), Vec::new(), Vec::new());
        let (mut standings, mut reasons) = (Vec::new(), Vec::new());
        for (listed, digest) in lines.iter().zip(digests) {
            if !there.insert(digest.clone()) {
                became.push(Enlisted::Duplicate);
                continue;
            }
            let number = from + numbers.len() as u64;
            numbers.push(whole(number));
            places.push(whole(listed.line));
            hashes.push(digest);
            persons.push(rows::escaped(&person(listed)));
            let (address, payload, standing, reason, what) = match &listed.of {
                Ok(person) => {
                    let spot = Spot::Payload(tenant, campaign, number);
                    let payload = person.payload.as_ref();
                    let payload = payload.map(|json| rows::sealed_text(&vault, &spot, json.text()));
                    (&person.to, payload, Standing::Pending, None, Enlisted::Added)
                }
                Err(no) => {
                    (&no.to, None, Standing::Invalid, Some(rows::escaped(&no.reason)), Enlisted::Invalid)
                }
            };
            let spot = Spot::Address(tenant, campaign, number);
            addresses.push(rows::escaped(&vault.seal_address(&spot, address, &listed.key())));
            payloads.push(payload);
            standings.push(i16::from(standing.code()));
            reasons.push(reason);
            became.push(what);
        }
        if !numbers.is_empty() {
            let mut values = list(tenant, campaign);
            values.extend([
                numbers.into(),
                places.into(),
                addresses.into(),
                persons.into(),
                hashes.into(),
                payloads.into(),
                standings.into(),
                reasons.into(),
            ]);
            self.ask_one(sql!("recipient_insert"), values)?;
        }
        Ok(became)
    }

    fn pending_among(
        &mut self,
        tenant: &Tenant,
        campaign: &CampaignName,
        numbers: &[u64],
    ) -> Result<Vec<u64>, StoreError> {
        let mut values = list(tenant, campaign);
        let numbers: Vec<i64> = numbers.iter().map(|number| whole(*number)).collect();
        values.extend([numbers.into(), i16::from(Standing::Pending.code()).into()]);
        let found = self.ask_one(sql!("recipient_pending"), values)?;
        found.iter().map(|row| rows::number::<i64, u64>(row, 0)).collect()
    }

    fn place_recipients(
        &mut self,
        tenant: &Tenant,
        campaign: &CampaignName,
        placed: &[Placed],
    ) -> Result<(), StoreError> {
        if placed.is_empty() {
            return Ok(());
        }
        let of = |part: fn(&Placed) -> Option<i64>| -> Vec<Option<i64>> { placed.iter().map(part).collect() };
        let mut values = list(tenant, campaign);
        values.extend([
            placed.iter().map(|it| whole(it.number)).collect::<Vec<_>>().into(),
            placed.iter().map(|it| i16::from(it.standing.code())).collect::<Vec<_>>().into(),
            placed.iter().map(|it| it.reason.as_deref().map(rows::escaped)).collect::<Vec<_>>().into(),
            of(|it| it.message.map(|id| id.key().0)).into(),
            of(|it| it.message.map(MessageId::nonce)).into(),
        ]);
        self.ask_one(sql!("recipient_place"), values).map(drop)
    }

    fn mark_recipient(
        &mut self,
        message: &Message,
        standing: Standing,
        reason: Option<&str>,
    ) -> Result<(), StoreError> {
        let mark = (i16::from(standing.code()), reason.map(rows::escaped));
        self.docs.marks.insert(message.id.key().0, mark);
        Ok(())
    }
}

/// What names a list.
fn list(tenant: &Tenant, campaign: &CampaignName) -> Vec<Value> {
    vec![tenant.as_str().into(), campaign.as_str().into()]
}

/// Places as one array for each of their parts.
fn arrays(places: &BTreeSet<Place>) -> Vec<Value> {
    let shelves: Vec<i16> = places.iter().map(|(shelf, ..)| *shelf as i16).collect();
    let tenants: Vec<&str> = places.iter().map(|(_, tenant, _)| tenant.as_str()).collect();
    let ids: Vec<String> = places.iter().map(|(.., id)| rows::escaped(id)).collect();
    vec![shelves.into(), tenants.into(), ids.into()]
}

fn course_shelf(row: &Row, column: usize) -> Result<Shelf, StoreError> {
    let number: i16 = rows::get(row, column)?;
    let known = [Shelf::Campaign, Shelf::Line].into_iter().find(|shelf| *shelf as i16 == number);
    known.ok_or_else(|| rows::broken(row, column, "no shelf of campaigns or lines"))
}

/// A document and where it is, from a row that ends with the shelf.
fn placed(vault: &Vault, row: &Row) -> Result<(Place, Doc), StoreError> {
    let shelf = course_shelf(row, 8)?;
    let doc = shelf::read(vault, shelf, row)?;
    Ok(((shelf, doc.tenant.clone(), doc.id.clone()), doc))
}

/// Asks for a page of a list.
pub(super) fn page(roster: &Roster) -> Step {
    let mut values = list(&roster.tenant, &roster.campaign);
    values.extend([whole(roster.after).into(), i64::try_from(roster.limit).unwrap_or(i64::MAX).into()]);
    match roster.standing {
        None => (sql!("recipient_page"), values),
        Some(standing) => {
            values.push(i16::from(standing.code()).into());
            (sql!("recipient_page_by_standing"), values)
        }
    }
}

/// A row: number, line, address, payload, standing, reason, message, nonce.
pub(super) fn recipient(vault: &Vault, roster: &Roster, row: &Row) -> Result<Recipient, StoreError> {
    let number = rows::number::<i64, u64>(row, 0)?;
    let address = Spot::Address(&roster.tenant, &roster.campaign, number);
    let payload = Spot::Payload(&roster.tenant, &roster.campaign, number);
    let payload = rows::opened_text(vault, &payload, row, 3)?;
    let payload = payload.map(|text| Json::from_text(text).map_err(|error| rows::broken(row, 3, error)));
    let standing = Standing::from_code(rows::number::<i16, u8>(row, 4)?);
    let message: Option<i64> = rows::get(row, 6)?;
    Ok(Recipient {
        number,
        line: rows::number::<i64, u64>(row, 1)?,
        to: vault.open_address(&address, rows::text(row, 2)?)?,
        payload: payload.transpose()?,
        standing: standing.ok_or_else(|| rows::broken(row, 4, "no standing"))?,
        reason: rows::some_text(row, 5)?,
        message: message.map(|_| rows::id(row, 6, 7)).transpose()?,
    })
}
