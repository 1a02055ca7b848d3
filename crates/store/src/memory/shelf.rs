//! Documents of the model.

use std::cmp::Reverse;

use pombo_kernel::time::Time;

use super::Model;
use crate::shelf::{Doc, Pick, Shelve, Shelved, Wanted};

impl Model {
    pub(super) fn shelve(&mut self, wish: &Shelve, now: Time) -> Shelved {
        let place = (wish.shelf, wish.tenant.clone(), wish.id.clone());
        let found = self.docs.get(&place);
        if !wish.expect.fits(found.map(|found| found.version)) {
            return Shelved::Conflict(found.cloned());
        }
        let version = found.map_or(0, |found| found.version);
        let version = match &wish.leaf {
            None => {
                self.docs.remove(&place);
                version
            }
            Some(leaf) => {
                let (tenant, id) = (wish.tenant.clone(), wish.id.clone());
                let doc = Doc { tenant, id, version: version + 1, updated_at: now, leaf: leaf.clone() };
                self.docs.insert(place, doc);
                version + 1
            }
        };
        if let Some(record) = &wish.record {
            self.ledger.shelved(&wish.tenant, record.event);
            self.records.push(record.clone());
        }
        Shelved::Done { version }
    }

    pub(super) fn wanted(&self, wanted: &Wanted) -> Vec<Doc> {
        let of_shelf = self.docs.iter().filter(|((shelf, tenant, _), _)| {
            *shelf == wanted.shelf && wanted.tenant.as_ref().is_none_or(|wanted| wanted == tenant)
        });
        let place = |doc: &Doc| (doc.leaf.order, doc.id.clone());
        let mut docs: Vec<Doc> = of_shelf.map(|(_, doc)| doc.clone()).collect();
        match &wanted.pick {
            Pick::All { after } => docs.retain(|doc| after.as_ref().is_none_or(|after| place(doc) < *after)),
            Pick::Topic { topic, after } => docs.retain(|doc| {
                doc.leaf.topic.as_ref() == Some(topic)
                    && after.as_ref().is_none_or(|after| place(doc) < *after)
            }),
            Pick::Due { from, until, after } => docs.retain(|doc| {
                doc.leaf.due.is_some_and(|due| {
                    *from <= due
                        && due < *until
                        && after.as_ref().is_none_or(|after| (due, doc.id.clone()) > *after)
                })
            }),
        }
        match wanted.pick {
            Pick::Due { .. } => docs.sort_by_key(|doc| (doc.leaf.due, doc.id.clone(), doc.tenant.clone())),
            _ => docs.sort_by_key(|doc| Reverse(place(doc))),
        }
        docs.truncate(wanted.limit);
        docs
    }
}
