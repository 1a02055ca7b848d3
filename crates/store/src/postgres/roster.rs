//! Whom campaigns write to.

use pombo_kernel::campaign::recipient::{Listed, Standing};
use pombo_kernel::id::MessageId;
use pombo_kernel::message::{ClaimKey, Draft, Message};
use pombo_kernel::name::{CampaignName, Tenant};
use pombo_kernel::time::Time;

use super::Postgres;
use crate::StoreError;
use crate::courses::{Courses, Placed};
use crate::roster::Enlisted;
use crate::shelf::{Doc, Shelf};

impl Courses for Postgres {
    fn locked_doc(&mut self, _: Shelf, _: &Tenant, _: &str) -> Result<Option<Doc>, StoreError> {
        Ok(None)
    }

    fn put_doc(&mut self, _: Shelf, _: &Doc) -> Result<(), StoreError> {
        Ok(())
    }

    fn insert_recipients(
        &mut self,
        _: &Tenant,
        _: &CampaignName,
        _: u64,
        _: &[Listed],
    ) -> Result<Vec<Enlisted>, StoreError> {
        Ok(Vec::new())
    }

    fn pending_among(&mut self, _: &Tenant, _: &CampaignName, _: &[u64]) -> Result<Vec<u64>, StoreError> {
        Ok(Vec::new())
    }

    fn make_messages(&mut self, _: &[Draft], _: Time) -> Result<Vec<MessageId>, StoreError> {
        Ok(Vec::new())
    }

    fn place_recipients(&mut self, _: &Tenant, _: &CampaignName, _: &[Placed]) -> Result<(), StoreError> {
        Ok(())
    }

    fn disown_for_all(&mut self, _: ClaimKey) -> Result<(), StoreError> {
        Ok(())
    }

    fn mark_recipient(&mut self, _: &Message, _: Standing) -> Result<(), StoreError> {
        Ok(())
    }
}
