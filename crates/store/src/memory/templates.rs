//! Templates of the model.

use pombo_kernel::message::Actor;
use pombo_kernel::name::{TemplateName, Tenant};
use pombo_kernel::template::Template;
use pombo_kernel::time::Time;

use super::Model;
use crate::{Put, Repeat, TemplateVersion, transition};

impl Model {
    /// Every version of a template, the oldest first.
    pub(super) fn versions(&self, tenant: &Tenant, name: &TemplateName) -> &[TemplateVersion] {
        self.templates.get(&(tenant.clone(), name.clone())).map_or(&[], Vec::as_slice)
    }

    pub(super) fn put_template(
        &mut self,
        tenant: &Tenant,
        name: &TemplateName,
        template: Template,
        by: &Actor,
        now: Time,
    ) -> Put {
        let latest = self.versions(tenant, name).last();
        if let Some(latest) = latest.filter(|latest| latest.template == template) {
            return Put { stored: latest.clone(), repeat: Repeat::Same };
        }
        let version = latest.map_or(0, |latest| latest.version) + 1;
        let stored =
            TemplateVersion { name: name.clone(), version, template, created_at: now, by: by.clone() };
        self.records.push(transition::template_put(tenant, name, version, by, now));
        self.templates.entry((tenant.clone(), name.clone())).or_default().push(stored.clone());
        Put { stored, repeat: Repeat::First }
    }
}
