//! A Postfix of the test's own that hands everything to Pombo, as the guide says.

use std::path::Path;

use pombo_testbed::Postfix;

/// Starts one that knows Pombo at that port of this machine by its certificate, and is known by user and key.
pub(crate) fn start(pombo: u16, certificate: &Path, key: &str) -> Postfix {
    Postfix::start(|root| {
        std::fs::copy(certificate, root.join("etc/ca.pem")).unwrap();
        std::fs::write(root.join("etc/pombo"), format!("[localhost]:{pombo} email:{key}\n")).unwrap();
        let at = root.display();
        format!(
            "smtp_dns_support_level = disabled
smtpd_recipient_restrictions = permit_mynetworks, reject
relayhost = [localhost]:{pombo}
smtp_sasl_auth_enable = yes
smtp_sasl_password_maps = texthash:{at}/etc/pombo
smtp_sasl_security_options = noanonymous
smtp_tls_security_level = verify
smtp_tls_CAfile = {at}/etc/ca.pem
"
        )
    })
}
