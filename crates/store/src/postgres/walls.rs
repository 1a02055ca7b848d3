//! Blocks and flows, which nodes share.

use std::sync::Arc;

use pombo_kernel::block::Block;
use pombo_kernel::flow::Flow;
use pombo_kernel::id::MessageKey;
use pombo_kernel::message::QueueName;
use pombo_kernel::time::{Span, Time};

use super::claims::number_of;
use super::link::Step;
use super::pausing::PAUSED;
use super::{Postgres, migrate, rows, sql};
use crate::audit::Record;
use crate::board::{Board, Held};
use crate::claiming::ELSEWHERE;
use crate::traffic::places;
use crate::walls::Walls;
use crate::{Place, StoreError};

/// Who else may change blocks before the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Guard {
    /// Anybody.
    None,
    /// Nobody, and others may rely on that too.
    Shared,
    /// Only we.
    Exclusive,
}

impl Postgres {
    /// Has the blocks as they are, and keeps them so until the commit.
    ///
    /// Blocks come before documents, so that no two groups wait for each other. A group that has documents takes the
    /// blocks if nobody has to be waited for, or begins anew and in order.
    pub(super) fn guard_blocks(&mut self, guard: Guard, now: Time) -> Result<(), StoreError> {
        if self.guard >= guard {
            return Ok(());
        }
        let in_order = self.docs.has_none();
        let lock = match (guard == Guard::Shared, in_order) {
            (true, true) => sql!("blocks_shared"),
            (false, true) => sql!("blocks_exclusive"),
            (true, false) => sql!("blocks_try_shared"),
            (false, false) => sql!("blocks_try_exclusive"),
        };
        // Two statements: the second sees what was committed while the first had to wait.
        let mut steps = vec![(lock, Vec::new()), (sql!("board_version"), Vec::new())];
        // Whoever looks at blocks is about to claim, most often.
        if self.claims.spare.is_none() {
            steps.push((sql!("claim_next"), Vec::new()));
        }
        let found = self.ask(steps)?;
        if !in_order {
            let taken = found.first().and_then(|rows| rows.first()).ok_or_else(super::reader::unanswered)?;
            if !rows::get::<bool>(taken, 0)? {
                self.guard_first = guard;
                return Err(StoreError::Again(
                    "somebody else has the blocks, which come before documents".into(),
                ));
            }
        }
        self.guard = guard;
        let row = found.get(1).and_then(|rows| rows.first()).ok_or_else(super::reader::unanswered)?;
        let version: i64 = rows::get(row, 0)?;
        if let Some(number) = found.get(2) {
            self.claims.spare = Some(number_of(number)?);
        }
        if version != self.version {
            self.load_blocks(version, now)?;
        }
        Ok(())
    }

    /// Learns what stands in front of channels and destinations, and that the tables are still those that we know.
    pub(super) fn load_blocks(&mut self, version: i64, now: Time) -> Result<(), StoreError> {
        let found = self.link.pipeline(vec![
            (sql!("block_all"), Vec::new()),
            (sql!("flow_all"), Vec::new()),
            (sql!("meta_get"), vec![PAUSED.into()]),
            migrate::schema(),
        ])?;
        let [blocks, flows, paused, schema] = found.as_slice() else {
            return Err(super::reader::unanswered());
        };
        migrate::refuse_another(schema)?;
        let read = |row| rows::block(row).map(|(place, block, probe)| (place, block, probe.is_some()));
        let blocks = blocks.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let held = &self.flows;
        self.board.traffic.keep_flows(|place| held.contains(place));
        for row in flows {
            let place =
                Place { channel: rows::name(row, 0)?, destination: rows::some_text(row, 1)?.map(Arc::from) };
            if !self.flows.contains(&place) {
                let flow = Flow::from_parts(rows::get(row, 2)?, rows::get(row, 3)?);
                self.board.traffic.set_flow(place, flow);
            }
        }
        self.board.replace_blocks(blocks, now);
        self.board.paused = !paused.is_empty();
        self.version = version;
        Ok(())
    }

    /// Whether we may send through the bounded places in front of a queue: nobody else does before the commit, and
    /// how far each has come is known.
    pub(super) fn lock_flows(&mut self, name: &QueueName, now: Time) -> Result<bool, StoreError> {
        for place in places(name) {
            let block = self.board.blocks.get(&place);
            if !self.board.traffic.bounds(&place, block, now) || self.flows.contains(&place) {
                continue;
            }
            let digest = rows::place_digest(&place);
            let steps = vec![
                (
                    sql!("flow_make"),
                    vec![
                        digest.clone().into(),
                        place.channel.as_str().into(),
                        place.destination.as_deref().map(rows::escaped).into(),
                    ],
                ),
                (sql!("flow_lock"), vec![digest.into()]),
            ];
            let found = self.ask(steps)?.pop().unwrap_or_default();
            let Some(row) = found.first() else {
                self.board.traffic.set_flow(place.clone(), Flow::shut(now, ELSEWHERE));
                self.board.reseat_behind(&place, now);
                return Ok(false);
            };
            let flow = Flow::from_parts(rows::get(row, 0)?, rows::get(row, 1)?);
            self.board.traffic.set_flow(place.clone(), flow);
            self.flows.insert(place);
        }
        Ok(true)
    }

    /// How far the bounded places have come through which the group sends.
    pub(super) fn flowed(&mut self) -> Option<Step> {
        if self.flows.is_empty() {
            return None;
        }
        let (mut digests, mut nexts, mut ats) = (Vec::new(), Vec::new(), Vec::new());
        for place in self.flows.drain() {
            let (next, at) = self.board.traffic.flow(&place).parts();
            digests.push(rows::place_digest(&place));
            nexts.push(next);
            ats.push(at);
        }
        Some((sql!("flow_put"), vec![digests.into(), nexts.into(), ats.into()]))
    }

    /// Sends a message out as a probe of these places, unless somebody else's is on its way.
    pub(super) fn mark_probe(
        &mut self,
        places: &[Place],
        key: MessageKey,
        now: Time,
    ) -> Result<bool, StoreError> {
        let mut digests: Vec<Vec<u8>> = places.iter().map(rows::place_digest).collect();
        digests.sort();
        let marked = self.ask_one(sql!("block_probe"), vec![digests.into(), key.0.into()])?;
        if marked.len() == places.len() {
            return Ok(true);
        }
        self.ask_one(sql!("block_probed"), vec![key.0.into()])?;
        self.board.probe_started(places, now);
        Ok(false)
    }

    /// The probe that a message was is over, however it ended.
    pub(super) fn end_probe(&mut self, held: &Held, now: Time) -> Result<(), StoreError> {
        self.guard_blocks(Guard::Exclusive, now)?;
        self.ask_one(sql!("block_probed"), vec![held.message.id.key().0.into()])?;
        self.moved = true;
        self.board.probe_ended(&held.probes, now);
        Ok(())
    }
}

impl Walls for Postgres {
    fn board(&mut self) -> &mut Board {
        &mut self.board
    }

    fn record(&mut self, record: Record) {
        Postgres::record(self, record);
    }

    fn hold_blocks(&mut self, now: Time) -> Result<(), StoreError> {
        self.guard_blocks(Guard::Exclusive, now)
    }

    fn write_block(&mut self, place: &Place, block: &Block) -> Result<(), StoreError> {
        let values = vec![
            rows::place_digest(place).into(),
            place.channel.as_str().into(),
            place.destination.as_deref().map(rows::escaped).into(),
            rows::json(block)?.into(),
        ];
        self.ask_one(sql!("block_put"), values)?;
        self.moved = true;
        Ok(())
    }

    fn erase_block(&mut self, place: &Place) -> Result<(), StoreError> {
        self.ask_one(sql!("block_delete"), vec![rows::place_digest(place).into()])?;
        self.moved = true;
        Ok(())
    }

    fn outage_ended(&mut self, place: &Place, lasted: Span, now: Time) -> Result<(), StoreError> {
        self.learn_outage(place, lasted, now)
    }

    fn forget_traffic(&mut self, place: &Place) -> Result<(), StoreError> {
        self.board.traffic.forget(place);
        self.flows.remove(place);
        self.ask_one(sql!("flow_delete"), vec![rows::place_digest(place).into()])?;
        Ok(())
    }
}
