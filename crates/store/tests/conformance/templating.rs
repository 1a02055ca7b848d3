//! Templates with their versions, and attachments apart from their messages.

use pombo_kernel::attachment::Blob;
use pombo_kernel::message::{Actor, Draft};
use pombo_kernel::name::{TemplateName, Tenant};
use pombo_kernel::template::Template;
use pombo_kernel::time::Span;
use pombo_store::audit::Event;
use pombo_store::core::Reading;
use pombo_store::{Put, Repeat};

use crate::world::{Fresh, START, World, draft, once};

on_every_store! { personal:
    each_change_of_a_template_is_a_version_and_the_same_again_is_none,
    versions_are_read_by_number_and_newest_first,
    templates_are_listed_by_name_and_belong_to_their_tenant,
    a_template_that_was_not_committed_was_never_put,
    an_attachment_is_stored_once_and_comes_back_after_a_restart,
    a_repeated_request_stores_no_attachment,
    a_message_of_many_megabytes_is_accepted,
}

fn text(text: &str) -> Template {
    Template { text: Some(text.into()), ..Template::default() }
}

fn name(name: &str) -> TemplateName {
    name.parse().unwrap()
}

fn put(w: &mut World<impl Fresh>, tenant: &str, template: &str, words: &str) -> Put {
    let (tenant, by) = (tenant.parse().unwrap(), Actor("ana".into()));
    let put = w.core.put_template(&tenant, &name(template), text(words), &by, w.now).unwrap();
    w.commit();
    put
}

fn each_change_of_a_template_is_a_version_and_the_same_again_is_none(w: &mut World<impl Fresh>) {
    let first = put(w, "default", "welcome", "a");
    assert_eq!((first.stored.version, first.repeat), (1, Repeat::First));
    assert_eq!((first.stored.created_at, first.stored.by.0.as_str()), (START, "ana"));
    w.pass(Span::from_secs(1));
    let again = put(w, "default", "welcome", "a");
    assert_eq!((again.stored, again.repeat), (first.stored, Repeat::Same));
    assert_eq!(put(w, "default", "welcome", "b").stored.version, 2);
    assert_eq!(put(w, "default", "welcome", "a").stored.version, 3);
    assert_eq!(w.events(), [Event::TemplatePut; 3]);
    let record = w.audit().remove(1);
    assert_eq!((record.tenant.as_str(), record.actor.as_str()), ("default", "ana"));
    assert_eq!(record.detail, r#"{"template":"welcome","version":2}"#);
}

fn versions_are_read_by_number_and_newest_first<C: Fresh>(w: &mut World<C>) {
    for words in ["a", "b", "c"] {
        put(w, "default", "welcome", words);
    }
    w.reopen();
    let (tenant, welcome) = (Tenant::default(), name("welcome"));
    let words = |w: &mut World<C>, version| {
        w.read().template(&tenant, &welcome, version).unwrap().and_then(|it| it.template.text)
    };
    assert_eq!(words(w, None).as_deref(), Some("c"));
    assert_eq!(words(w, Some(1)).as_deref(), Some("a"));
    assert_eq!(words(w, Some(4)), None);
    let versions = |w: &mut World<C>, before, limit| -> Vec<u32> {
        let versions = w.read().template_versions(&tenant, &welcome, before, limit).unwrap();
        versions.iter().map(|it| it.version).collect()
    };
    assert_eq!(versions(w, None, 2), [3, 2]);
    assert_eq!(versions(w, Some(2), 2), [1]);
}

// invariant 14
fn templates_are_listed_by_name_and_belong_to_their_tenant<C: Fresh>(w: &mut World<C>) {
    for (tenant, template) in
        [("default", "b"), ("acme", "z"), ("default", "a"), ("default", "c"), ("default", "a")]
    {
        let words = format!("{} of {tenant}", w.audit().len());
        put(w, tenant, template, &words);
    }
    let listed = |w: &mut World<C>, tenant: &str, after: Option<&str>, limit| -> Vec<String> {
        let after = after.map(name);
        let found = w.read().templates(&tenant.parse().unwrap(), after.as_ref(), limit).unwrap();
        found.iter().map(|it| format!("{}{}", it.name, it.version)).collect()
    };
    assert_eq!(listed(w, "default", None, 9), ["a2", "b1", "c1"]);
    assert_eq!(listed(w, "default", None, 1), ["a2"]);
    assert_eq!(listed(w, "default", Some("a"), 9), ["b1", "c1"]);
    assert_eq!(listed(w, "acme", None, 9), ["z1"]);
    assert_eq!(w.read().template(&"acme".parse().unwrap(), &name("a"), None).unwrap(), None);
}

fn a_template_that_was_not_committed_was_never_put<C: Fresh>(w: &mut World<C>) {
    put(w, "default", "welcome", "a");
    let (tenant, by, welcome) = (Tenant::default(), Actor("ana".into()), name("welcome"));
    w.core.put_template(&tenant, &welcome, text("b"), &by, START).unwrap();
    let latest = |w: &mut World<C>| w.read().template(&tenant, &welcome, None).unwrap().unwrap().version;
    assert_eq!(latest(w), 1);
    w.reopen();
    assert_eq!(latest(w), 1);
    assert_eq!(put(w, "default", "welcome", "c").stored.version, 2);
}

// REQ ML-10
fn an_attachment_is_stored_once_and_comes_back_after_a_restart(w: &mut World<impl Fresh>) {
    let blob = Blob::of(vec![7; 100_000]);
    let other = Blob::of(vec![8; 10]);
    w.accept(Draft { blobs: vec![blob.clone(), other.clone()], ..draft() });
    w.accept(Draft { blobs: vec![blob.clone()], ..draft() });
    w.reopen();
    for kept in [&blob, &other] {
        assert_eq!(w.read().blob(kept.digest).unwrap().as_ref(), Some(&kept.bytes));
    }
    assert_eq!(w.read().blob(Blob::of(vec![9]).digest).unwrap(), None);
}

fn a_repeated_request_stores_no_attachment(w: &mut World<impl Fresh>) {
    w.accept(once("k", 1));
    let blob = Blob::of(vec![7; 10]);
    let again = w.offer(Draft { blobs: vec![blob.clone()], ..once("k", 1) }).unwrap();
    assert_eq!(again.repeat, Repeat::Same);
    assert_eq!(w.read().blob(blob.digest).unwrap(), None);
}

// REQ ML-10
fn a_message_of_many_megabytes_is_accepted(w: &mut World<impl Fresh>) {
    let blob = Blob::of(vec![1; 25 * 1024 * 1024]);
    w.accept(Draft { blobs: vec![blob.clone()], ..draft() });
    assert_eq!(w.read().blob(blob.digest).unwrap().map(|bytes| bytes.len()), Some(25 * 1024 * 1024));
}
