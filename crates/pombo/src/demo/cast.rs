//! Who is written to in the demonstration, and what becomes of it. Nobody of them exists.

use serde_json::{Value, json};

/// One kind of message, again and again.
pub(crate) struct Act {
    pub(crate) channel: &'static str,
    to: &'static str,
    /// How whoever it is for behaves, in a few words.
    pub(crate) about: &'static str,
    /// Its share of the messages.
    pub(crate) weight: u64,
    /// What it is about, for whoever follows.
    matter: &'static str,
    says: Says,
}

enum Says {
    Text(&'static str),
    Image(&'static str),
    Mail {
        subject: &'static str,
        text: &'static str,
    },
    Template {
        name: &'static str,
        payload: fn() -> Value,
    },
    /// A lot of guides, whose number ends like this.
    Lot(&'static str),
    Json(&'static str),
}

const fn act(
    channel: &'static str,
    to: &'static str,
    about: &'static str,
    weight: u64,
    matter: &'static str,
    says: Says,
) -> Act {
    Act { channel, to, about, weight, matter, says }
}

const REMINDER: Says =
    Says::Text("Olá! Lembrando da sua consulta amanhã às 14h30. Responda 1 para confirmar.");
const INVOICE: Says = Says::Mail {
    subject: "Seu recibo da Clínica Sol",
    text: "Olá,\n\nsegue o recibo da sua consulta. Qualquer dúvida, responda a este e-mail.\n\nClínica Sol",
};
const WELCOME: Says = Says::Template { name: "welcome_user", payload: welcome };

fn welcome() -> Value {
    json!({
        "user_data": {"full_name": "Ana Souza", "email": "ana@exemplo.example"},
        "login_url": "https://clinica.example/entrar",
        "dashboard_url": "https://clinica.example/painel",
        "support_email": "contato@clinica.example",
    })
}

/// The first of each kind go first, in this order; then chance decides.
pub(crate) const ACTS: [Act; 24] = [
    act("whatsapp", "+5511987651234", "on WhatsApp", 18, "lembrete", REMINDER),
    act("email", "ana.souza@exemplo.example", "takes everything", 12, "recibo", INVOICE),
    act("resend", "ana.souza@exemplo.example", "takes everything", 10, "boas-vindas", WELCOME),
    act("claims", "operadora", "takes the lot and gives a protocol", 8, "lote", Says::Lot("0100")),
    act("crm", "http://crm.example/ok", "takes everything", 14, "pedido", Says::Json("order.changed")),
    act("whatsapp", "+5521998760503", "fails twice, then sends it", 5, "lembrete", REMINDER),
    act("email", "greylist@exemplo.example", "greylists: come back in 5 s", 4, "recibo", INVOICE),
    act("resend", "flaky@exemplo.example", "answers 500 twice, then takes it", 4, "boas-vindas", WELCOME),
    act("claims", "operadora", "is not itself at the first try", 3, "lote", Says::Lot("9109")),
    act(
        "crm",
        "http://loja.example/flaky?fail=2",
        "fails twice, then takes it",
        5,
        "pedido",
        Says::Json("order.changed"),
    ),
    act("whatsapp", "+5531987650404", "not on WhatsApp", 3, "lembrete", REMINDER),
    act("email", "unknown@exemplo.example", "no such mailbox", 3, "recibo", INVOICE),
    act(
        "resend",
        "bounced@exemplo.example",
        "takes it, and reports a bounce later",
        2,
        "boas-vindas",
        WELCOME,
    ),
    act("claims", "operadora", "refuses: the card number is invalid", 3, "lote", Says::Lot("1001")),
    act("crm", "http://antigo.example/gone", "is gone for good", 3, "pedido", Says::Json("order.changed")),
    act(
        "whatsapp",
        "+5541987651177",
        "on WhatsApp, gets a picture",
        3,
        "comprovante",
        Says::Image("https://clinica.example/comprovante.png"),
    ),
    act("email", "full@exemplo.example", "the mailbox is full", 2, "recibo", INVOICE),
    act("resend", "limited@exemplo.example", "says 429, come back in 2 s", 1, "boas-vindas", WELCOME),
    act("claims", "operadora", "takes it, with denials of some items", 2, "lote", Says::Lot("9101")),
    act(
        "crm",
        "http://banco.example/status/401",
        "does not know our key: a fault of ours",
        3,
        "estorno",
        Says::Json("refund.made"),
    ),
    act("whatsapp", "+5551987650500", "the WhatsApp socket is closed", 2, "lembrete", REMINDER),
    act(
        "crm",
        "http://mapas.example/rate?retry_after=2",
        "says 429, come back in 2 s",
        3,
        "endereço",
        Says::Json("address.changed"),
    ),
    act(
        "crm",
        "http://estoque.example/slow?ms=900",
        "takes its time",
        4,
        "estoque",
        Says::Json("stock.changed"),
    ),
    act(
        "crm",
        "http://parceiro.example/status/503",
        "is down all day",
        9,
        "pedido",
        Says::Json("order.changed"),
    ),
];

impl Act {
    /// The message as a producer would write it; `number` tells one from the next.
    pub(crate) fn request(&self, number: usize) -> Value {
        let mut request = json!({
            "channel": self.channel,
            "to": self.to,
            "type": "execute_side_effect",
            "reference": format!("{} {number}", self.matter),
        });
        match &self.says {
            Says::Text(text) => request["content"] = json!({"text": text}),
            Says::Image(url) => {
                request["content"] =
                    json!({"media": {"mediatype": "image", "media": url, "caption": "Seu comprovante"}});
            }
            Says::Mail { subject, text } => request["content"] = json!({"subject": subject, "text": text}),
            Says::Template { name, payload } => {
                request["template"] = json!(name);
                request["payload"] = payload();
            }
            Says::Lot(ending) => {
                let lot = format!("{number}{ending}");
                request["reference"] = json!(format!("CLM-DEMO-{lot}"));
                request["content"] = json!({"xml": lot_of_guides(&lot)});
            }
            Says::Json(kind) => request["content"] = json!({"body": {"type": kind, "number": number}}),
        }
        request
    }

    /// Whom the story names: a URL's host, or the recipient.
    pub(crate) fn host(&self) -> String {
        match self.channel {
            "crm" => pombo_kernel::content::host(self.to),
            _ => self.to.to_owned(),
        }
    }
}

/// One guide for one consultation, as small as a lot can be.
fn lot_of_guides(number: &str) -> String {
    format!(
        "<ans:loteGuias xmlns:ans=\"http://www.ans.gov.br/padroes/tiss/schemas\"><ans:numeroLote>{number}</ans:numeroLote>\
         <ans:guiasTISS><ans:guiaConsulta><ans:cabecalhoConsulta><ans:registroANS>123456</ans:registroANS>\
         <ans:numeroGuiaPrestador>{number}</ans:numeroGuiaPrestador></ans:cabecalhoConsulta></ans:guiaConsulta>\
         </ans:guiasTISS></ans:loteGuias>"
    )
}

/// A campaign beside all that: what it says, and to whom.
pub(crate) struct Show {
    pub(crate) name: &'static str,
    pub(crate) template: &'static str,
    pub(crate) says: &'static str,
    pub(crate) audience: [(&'static str, &'static str, &'static str); 6],
    /// One of them, who does not want to be written to.
    pub(crate) spared: &'static str,
}

pub(crate) const SHOW: Show = Show {
    name: "Retorno de consulta",
    template: "retorno",
    says: "Olá, {{ nome }}! Já faz seis meses da sua última consulta. Responda 1 para marcar o retorno.",
    audience: [
        ("(11) 98765-2001", "Ana", "on WhatsApp"),
        ("+55 21 99876-2002", "Bruno", "on WhatsApp"),
        ("1234", "Carla", "no phone number: a bad line of the list"),
        ("31 98765-2004", "Davi", "asked not to be written to: left out"),
        ("+55 11 98765-2001", "Ana", "is on the list already: a duplicate"),
        ("51 98765-0404", "Elisa", "not on WhatsApp"),
    ],
    spared: "+5531987652004",
};
