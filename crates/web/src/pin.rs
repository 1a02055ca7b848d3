//! Which version of its template a message will be rendered with: the latest when it is accepted.

use std::collections::BTreeMap;

use pombo_kernel::kind::ChannelKind;
use pombo_kernel::message::Draft;
use pombo_kernel::name::{TemplateName, Tenant};
use pombo_kernel::request::{Code, Problem, no_template};
use pombo_kernel::setup::Setup;
use pombo_store::{Store, StoreError, TemplateVersion};

/// Names that a hint chooses from.
const NAMES_MAX: usize = 200;

/// Pins the latest version of each draft's template; for each draft, what keeps it from being accepted.
///
/// Each template is looked up once, however many drafts name it.
pub async fn pin_templates(
    store: &dyn Store,
    setup: &Setup,
    drafts: &mut [Draft],
) -> Result<Vec<Option<Problem>>, StoreError> {
    let mut known: BTreeMap<(Tenant, String), Result<TemplateVersion, Problem>> = BTreeMap::new();
    let mut found = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let Some(template) = &draft.body.template else {
            found.push(None);
            continue;
        };
        let key = (draft.queue.tenant.clone(), template.clone());
        let latest = match known.get(&key) {
            Some(latest) => latest,
            None => {
                let latest = look_up(store, &key.0, template).await?;
                known.entry(key).or_insert(latest)
            }
        };
        found.push(match latest {
            Err(problem) => Some(problem.clone()),
            Ok(latest) => {
                draft.body.template_version = Some(latest.version);
                unsuited(setup, draft, latest)
            }
        });
    }
    Ok(found)
}

/// The latest version of a template, or why there is none.
pub(crate) async fn look_up(
    store: &dyn Store,
    tenant: &Tenant,
    template: &str,
) -> Result<Result<TemplateVersion, Problem>, StoreError> {
    if let Ok(name) = template.parse::<TemplateName>()
        && let Some(latest) = store.template(tenant.clone(), name, None).await?
    {
        return Ok(Ok(latest));
    }
    let others = store.templates(tenant.clone(), None, NAMES_MAX).await?;
    Ok(Err(no_template(template, others.iter().map(|it| it.name.as_str()))))
}

/// A template that has nothing for the channel's kind would only become a dead letter.
fn unsuited(setup: &Setup, draft: &Draft, latest: &TemplateVersion) -> Option<Problem> {
    lacks(setup.channels.get(&draft.queue.channel)?.kind, latest)
}

/// What keeps a template from being sent through channels of that kind.
pub(crate) fn lacks(kind: ChannelKind, latest: &TemplateVersion) -> Option<Problem> {
    let lacks = latest.template.body_for(kind).err()?;
    Some(Problem {
        code: Code::ContentNotAccepted,
        field: "template".into(),
        reason: format!("`{}` version {} {lacks}", latest.name, latest.version),
        hint: format!("add it with `pombo templates put {}`, or choose another channel", latest.name),
    })
}
