//! A short look at the store in a database.

use super::checking::trail;
use super::link::{Driver, Kind, Link};
use super::{Target, migrate, rows};
use crate::glance::{Damage, Glance, last_words};
use crate::moving::MoveError;

pub(crate) fn glance(address: &Target) -> Result<Glance, MoveError> {
    const WRITABLE: &str = "SELECT pg_catalog.pg_is_in_recovery(),
        coalesce(pg_catalog.has_table_privilege(
            coalesce((SELECT rolname FROM pg_catalog.pg_roles WHERE rolname = 'pombo_engine'), current_user),
            'pombo.message', 'INSERT'), false)";
    let (latest, paused) = last_words(trail(address)?)?;
    let link = Link::open(&Driver::start()?, address, Kind::Owner)?;
    let found = link.query(WRITABLE, Vec::new())?;
    let unwritable = match found.first() {
        Some(row) if rows::get::<bool>(row, 0)? => {
            Some("this server is a standby and takes no writes".to_owned())
        }
        Some(row) if !rows::get::<bool>(row, 1)? => {
            Some("the role `pombo_engine` may not write to the table `message`".to_owned())
        }
        _ => None,
    };
    let now = Some(migrate::now(&link)?);
    let damage = Damage::NotOurs;
    Ok(Glance { schema: migrate::SCHEMA, in_use: false, unwritable, damage, now, latest, paused })
}
