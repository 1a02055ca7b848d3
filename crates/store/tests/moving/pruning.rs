//! A store from which messages have gone.

use std::sync::Arc;

use pombo_kernel::retention::{KEYS_KEPT, Keep, Kept, Rules};
use pombo_store::Cancelled;
use pombo_store::prune::{Effect, Prune, Walk};

use super::*;

const DAY: Span = Span::from_hours(24);

/// Removes what ended a day ago; how many.
fn pruned(core: &mut impl Core, now: Time) -> u64 {
    let rules = Rules::from_iter([("crm".parse().unwrap(), Kept::only(Keep::For(DAY), |_| true))]);
    let by = Actor("pombo".into());
    let prune = Prune { rules: Arc::new(rules), by, effect: Effect::Remove, walk: Walk::default() };
    let ripe = core.reader().unwrap().ripe(&prune, 100, now).unwrap();
    let done = core.prune(&prune, &ripe, now).unwrap();
    core.commit(now, &[9; 32]).unwrap();
    done.count()
}

/// A message that is there, among others that went, and the one whose key is still known.
fn furnished(core: &mut impl Core) -> (MessageId, MessageId) {
    let mut works = works(core);
    let gone = works.accept(with_file(once("k", 1)));
    let by = Actor("ana".into());
    assert_eq!(works.core.cancel(&Tenant::default(), gone, &by, START).unwrap(), Cancelled::Done);
    works.commit();
    works.through(draft(), End::Sent);
    works.through(draft(), End::Failed(FailureReason::PermanentError));
    let stays = works.accept(later(DAY + DAY + DAY));
    assert_eq!(pruned(core, START + DAY), 3);
    (gone, stays)
}

fn sound(core: &mut impl Core, gone: MessageId, stays: MessageId) {
    let mut reader = core.reader().unwrap();
    assert!(reader.story(&Tenant::default(), gone).unwrap().is_none());
    assert!(reader.story(&Tenant::default(), stays).unwrap().is_some());
    assert_eq!(reader.verify().unwrap().broken, None);
    assert_eq!(reader.groups(&Tenant::default(), 10).unwrap(), []);
    let again = core.accept(once("k", 1), START + DAY).unwrap().unwrap();
    assert_eq!((again.id, again.repeat), (gone, Repeat::Same));
    core.reopen().unwrap();
}

#[test] // REQ AU-2, ML-10
fn a_store_from_which_messages_went_is_sound_and_moves_with_the_keys_that_outlast_them() {
    let folder = folder();
    let mut core = sqlite(folder.path());
    let (gone, stays) = furnished(&mut core);
    sound(&mut core, gone, stays);
    drop(core);
    let home = in_folder(folder.path());
    healthy(&home);
    let database = Cluster::shared().database();
    copied(&home, &in_database(&database));
    healthy(&in_database(&database));
    let mut core = postgres(&database);
    sound(&mut core, gone, stays);
    let over = START + KEYS_KEPT;
    assert_eq!(core.lapse(None, 10, over).unwrap().removed, 1);
    assert_eq!(core.accept(once("k", 1), over).unwrap().unwrap().repeat, Repeat::First);
}

#[test] // REQ AU-2, ML-10
fn a_database_from_which_messages_went_is_sound_and_moves_likewise() {
    let database = Cluster::shared().database();
    let mut core = postgres(&database);
    let (gone, stays) = furnished(&mut core);
    sound(&mut core, gone, stays);
    drop(core);
    healthy(&in_database(&database));
    let folder = folder();
    let target = folder.path().join("copy");
    copied(&in_database(&database), &in_folder(&target));
    healthy(&in_folder(&target));
    sound(&mut sqlite(&target), gone, stays);
}
