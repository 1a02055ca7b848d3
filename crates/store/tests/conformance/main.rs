//! What every store must do, case by case. A new store joins by a line in `on_every_store`.

#![allow(clippy::unwrap_used)] // All of it is test code, and a panic is how a test says no.

/// Makes a test of each case, for each store. Those that concern what is `personal` are also tried on an encrypted
/// PostgreSQL; all of them on an encrypted folder, which takes no time.
macro_rules! on_every_store {
    (personal: $($case:ident,)+) => {
        on_every_store! { $($case,)+ }
        // REQ AU-3: encrypted, every store does what it does otherwise.
        mod postgres_sealed {
            $(#[test] fn $case() { super::$case(&mut crate::world::World::<pombo_store::postgres::Postgres>::sealed()); })+
        }
    };
    ($($case:ident,)+) => {
        mod memory {
            $(#[test] fn $case() { super::$case(&mut crate::world::World::<pombo_store::memory::Memory>::new()); })+
        }
        mod sqlite {
            $(#[test] fn $case() { super::$case(&mut crate::world::World::<pombo_store::sqlite::Sqlite>::new()); })+
        }
        mod sqlite_sealed {
            $(#[test] fn $case() { super::$case(&mut crate::world::World::<pombo_store::sqlite::Sqlite>::sealed()); })+
        }
        mod postgres {
            $(#[test] fn $case() { super::$case(&mut crate::world::World::<pombo_store::postgres::Postgres>::new()); })+
        }
    };
}

mod accepting;
mod auditing;
mod blocking;
mod breaking;
mod campaigning;
mod cancelling;
mod claiming;
mod counting;
mod dead;
mod differential;
mod durability;
mod editing;
mod embedded;
mod erasing;
mod expiring;
mod hastening;
mod learning;
mod ordering;
mod paging;
mod pausing;
mod plans;
mod pruning;
mod reporting;
mod rounds;
mod settling;
mod shelving;
mod taking_over;
mod templating;
mod texts;
mod torn;
mod tracking;
mod world;
