//! Documents that several may change at once.

use pombo_kernel::name::Tenant;
use pombo_store::audit::Record;
use pombo_store::shelf::{Doc, Expect, Shelf, Shelve, Shelved};
use pombo_store::{Store, StoreError};

/// How often a change is tried again that met another.
const TRIES: usize = 20;

/// One wish, and what became of it.
pub async fn put(store: &dyn Store, wish: Shelve) -> Result<Shelved, StoreError> {
    let done = store.shelve(vec![wish]).await?.pop();
    done.ok_or_else(|| StoreError::Again("the store gave no answer".to_owned()))
}

/// Leaves a record in the audit, of something that changes no document.
pub(crate) async fn note(store: &dyn Store, tenant: &Tenant, record: Record) -> Result<(), StoreError> {
    // Nothing is removed from where nothing is; the record is all that it leaves.
    let wish = Shelve {
        shelf: Shelf::Cursor,
        tenant: tenant.clone(),
        id: "note".to_owned(),
        expect: Expect::Nothing,
        leaf: None,
        record: Some(record),
    };
    put(store, wish).await.map(drop)
}

/// Changes a document as `wish` says, anew with what is there if somebody else was faster. What it is told of may be
/// gone by then. Nothing is changed where it wishes for nothing.
pub async fn change<T, E: From<StoreError>>(
    store: &dyn Store,
    mut found: Option<Doc>,
    wish: impl Fn(Option<&Doc>) -> Result<(Option<Shelve>, T), E>,
) -> Result<T, E> {
    for _ in 0..TRIES {
        let (wanted, made) = wish(found.as_ref())?;
        let Some(wanted) = wanted else { return Ok(made) };
        match put(store, wanted).await? {
            Shelved::Done { .. } => return Ok(made),
            Shelved::Conflict(other) => found = other,
        }
    }
    Err(StoreError::Again("a document is being changed over and over".to_owned()).into())
}
