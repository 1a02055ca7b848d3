//! Medical claims: TISS over SOAP.

mod answer;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod hash;
mod letter;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Method, Request};
use http_body_util::Full;
use pombo_kernel::content::Problem;
use pombo_kernel::content::claim::{Claim, ClaimContent, SERVICES, Service, is_number, is_version};
use pombo_kernel::reply::{FaultKind, Reply};
use pombo_kernel::secret::Secret;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use schemars::JsonSchema;
use serde::Deserialize;
use url::{Position, Url};

use self::letter::{Unwritten, Writer};
use crate::answer::{host_header, refusal};
use crate::client::{Client, Identity, Need, roots};
use crate::guard::Guard;
use crate::line::fault;
use crate::resolve::Resolver;
use crate::{BoxFuture, Channel, Envelope, Health, trace};

pub(crate) use self::answer::decoded;
pub use self::hash::{Encoding, HashCase};
pub(crate) use self::hash::{Hashes, md5_hex};
pub use self::letter::HashRule;
pub(crate) use self::letter::{element, encode, envelope_end, envelope_start, field};

const SOAP_ACTION: HeaderName = HeaderName::from_static("soapaction");
/// The answer to a large lot lists each of its guides.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TissSettings {
    /// The operator's web service, for example "https://tiss.operator.example/services".
    #[schemars(with = "Option<String>")]
    pub url: Option<Url>,
    /// Addresses of single services, where the operator has one for each.
    pub services: TissServices,
    /// The operator's number at ANS, six digits. A claim for another operator is then refused.
    pub registro_ans: Option<String>,
    /// The number by which the operator knows the provider, without punctuation.
    pub provider: Option<String>,
    /// What that number is: "code" (given by the operator), "cnpj" or "cpf".
    pub provider_kind: ProviderKind,
    /// The version of the standard that headers name, for example "4.01.00".
    pub padrao: String,
    /// The login that the operator gave, at most 20 characters.
    pub login: Option<String>,
    /// The password that the operator gave, from the environment.
    pub password: Option<Secret>,
    /// A file that holds the password, instead of `password`.
    pub password_file: Option<PathBuf>,
    /// Send the MD5 of the password in hex, as some operators want it, and not the password itself.
    pub password_md5: bool,
    /// The bytes of requests: "iso-8859-1" or "utf-8".
    pub encoding: Encoding,
    /// The bytes that the hash is made over: "iso-8859-1" or "utf-8".
    pub hash_encoding: Encoding,
    /// How the hash is written: "lower" or "upper".
    pub hash_case: HashCase,
    /// "auto" checks a hash that was given and puts in one that is missing; "compute" always puts it in;
    /// "verify" refuses a claim without one.
    pub hash: HashRule,
    /// The operator's time, for example "-03:00".
    pub utc_offset: String,
    /// A PEM file with the certificate by which the operator knows us.
    pub client_cert_file: Option<PathBuf>,
    /// A PEM file with that certificate's key.
    pub client_key_file: Option<PathBuf>,
    /// A PEM file of certificates to trust besides the web's.
    pub ca_file: Option<PathBuf>,
}

impl Default for TissSettings {
    fn default() -> TissSettings {
        TissSettings {
            url: None,
            services: TissServices::default(),
            registro_ans: None,
            provider: None,
            provider_kind: ProviderKind::default(),
            padrao: "4.01.00".to_owned(),
            login: None,
            password: None,
            password_file: None,
            password_md5: false,
            encoding: Encoding::default(),
            hash_encoding: Encoding::default(),
            hash_case: HashCase::default(),
            hash: HashRule::default(),
            utc_offset: "-03:00".to_owned(),
            client_cert_file: None,
            client_key_file: None,
            ca_file: None,
        }
    }
}

/// By what an operator knows a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    #[default]
    Code,
    Cnpj,
    Cpf,
}

/// Addresses of single services, by what they are for; `url` stands for those that are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TissServices {
    /// tissLoteGuias.
    #[schemars(with = "Option<String>")]
    pub lote_guias: Option<Url>,
    /// tissSolicitacaoStatusProtocolo.
    #[schemars(with = "Option<String>")]
    pub status_protocolo: Option<Url>,
    /// tissVerificaElegibilidade.
    #[schemars(with = "Option<String>")]
    pub elegibilidade: Option<Url>,
    /// tissSolicitacaoProcedimento.
    #[schemars(with = "Option<String>")]
    pub procedimento: Option<Url>,
    /// tissSolicitacaoStatusAutorizacao.
    #[schemars(with = "Option<String>")]
    pub status_autorizacao: Option<Url>,
    /// tissCancelaGuia.
    #[schemars(with = "Option<String>")]
    pub cancela_guia: Option<Url>,
    /// tissLoteAnexo.
    #[schemars(with = "Option<String>")]
    pub lote_anexo: Option<Url>,
    /// tissEnvioDocumentos.
    #[schemars(with = "Option<String>")]
    pub documentos: Option<Url>,
    /// tissRecursoGlosa.
    #[schemars(with = "Option<String>")]
    pub recurso_glosa: Option<Url>,
    /// tissSolicitacaoStatusProtocoloRecurso.
    #[schemars(with = "Option<String>")]
    pub status_recurso: Option<Url>,
    /// tissSolicitacaoDemonstrativoRetorno.
    #[schemars(with = "Option<String>")]
    pub demonstrativo: Option<Url>,
    /// tissComunicacaoBeneficiario.
    #[schemars(with = "Option<String>")]
    pub comunicacao: Option<Url>,
}

impl TissServices {
    /// In the order of [`SERVICES`].
    fn all(&self) -> [(&'static str, &Option<Url>); SERVICES.len()] {
        [
            ("lote_guias", &self.lote_guias),
            ("status_protocolo", &self.status_protocolo),
            ("elegibilidade", &self.elegibilidade),
            ("procedimento", &self.procedimento),
            ("status_autorizacao", &self.status_autorizacao),
            ("cancela_guia", &self.cancela_guia),
            ("lote_anexo", &self.lote_anexo),
            ("documentos", &self.documentos),
            ("recurso_glosa", &self.recurso_glosa),
            ("status_recurso", &self.status_recurso),
            ("demonstrativo", &self.demonstrativo),
            ("comunicacao", &self.comunicacao),
        ]
    }
}

/// The TISS channel of one operator: one request, one answer.
pub struct Tiss {
    client: Client,
    url: Url,
    services: TissServices,
    writer: Writer,
}

/// Leaves out who we are to the operator.
impl fmt::Debug for Tiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tiss").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

impl Tiss {
    /// Sets the channel up, or names everything that is wrong with its settings.
    pub fn new(settings: &TissSettings) -> Result<Tiss, Vec<Problem>> {
        Tiss::with_resolver(settings, Resolver::default())
    }

    pub fn with_resolver(settings: &TissSettings, resolver: Resolver) -> Result<Tiss, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut wrong = |field: &str, reason: String, hint: &str| {
            problems.push(Problem { field: field.to_owned(), reason, hint: hint.to_owned() });
        };
        if settings.url.is_none() {
            wrong("url", "is missing".to_owned(), "write the operator's address: https://host/path");
        }
        let others = settings.services.all().map(|(name, url)| (format!("services.{name}"), url.as_ref()));
        for (field, url) in others.into_iter().chain([("url".to_owned(), settings.url.as_ref())]) {
            let Some(url) = url else { continue };
            if !matches!(url.scheme(), "http" | "https") || host_header(url).is_err() || url.host().is_none()
            {
                wrong(&field, "is not an address of the web".to_owned(), "write https://host/path");
            }
        }
        for (field, reason, hint) in facts(settings) {
            wrong(field, reason.to_owned(), hint);
        }
        let offset = offset_ms(&settings.utc_offset);
        if offset.is_none() {
            wrong("utc_offset", "is not an offset from UTC".to_owned(), "write for example -03:00");
        }
        let roots = roots(settings.ca_file.as_deref());
        if let Err(reason) = &roots {
            wrong("ca_file", format!("cannot be used: {reason}"), "name a readable PEM file of certificates");
        }
        let identity = identity(settings.client_cert_file.as_deref(), settings.client_key_file.as_deref());
        if let Err((field, reason)) = &identity {
            wrong(field, reason.clone(), "name readable PEM files: the certificate, and its key");
        }
        let (Some(url), Some(offset_ms), Ok(roots), Ok(identity), []) =
            (settings.url.clone(), offset, roots, identity, problems.as_slice())
        else {
            return Err(problems);
        };
        let guard = Guard { allow_private: true, allow: Vec::new() };
        let client = Client::new(guard, resolver, roots, identity).map_err(|error| {
            vec![Problem {
                field: "client_cert_file".to_owned(),
                reason: format!("TLS cannot be set up: {error}"),
                hint: "check that the key belongs to the certificate".to_owned(),
            }]
        })?;
        let writer = writer(settings, offset_ms);
        let client = client.reading_up_to(ANSWER_BYTES_MAX);
        Ok(Tiss { client, url, services: settings.services.clone(), writer })
    }

    async fn attempt(&self, envelope: &Envelope, deadline: Duration) -> Reply {
        let (url, request, service) = match self.request(envelope) {
            Ok(made) => made,
            Err(Unwritten::Content(text)) => return Reply::Unreachable(fault(FaultKind::BadContent, text)),
            Err(Unwritten::Settings(text)) => {
                return Reply::Unreachable(fault(FaultKind::NotConfigured, text));
            }
        };
        match self.client.call(url, request, Need::Body, deadline).await {
            Err(reply) => reply,
            Ok(answer) => answer::read(&answer, service),
        }
    }

    fn request(
        &self,
        envelope: &Envelope,
    ) -> Result<(&Url, Request<Full<Bytes>>, &'static Service), Unwritten> {
        let content: ClaimContent = serde_json::from_str(&envelope.content)
            .map_err(|_| Unwritten::Content("the content is not a claim's".to_owned()))?;
        let xml = content.xml.strip_prefix('\u{FEFF}').unwrap_or(&content.xml);
        let claim =
            Claim::read(xml).map_err(|(reason, _)| Unwritten::Content(format!("the claim {reason}")))?;
        let letter = self.writer.write(xml, &claim, &envelope.to, envelope.id)?;
        let url = self.address(claim.service);
        let kind = match self.writer.encoding {
            Encoding::Latin1 => "text/xml; charset=iso-8859-1",
            Encoding::Utf8 => "text/xml; charset=utf-8",
        };
        let mut request = call(Method::POST, url, letter).map_err(Unwritten::Content)?;
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        request.headers_mut().insert(SOAP_ACTION, HeaderValue::from_static("\"\""));
        trace::pass_on(envelope.trace.as_ref(), request.headers_mut());
        Ok((url, request, claim.service))
    }

    fn address(&self, service: &'static Service) -> &Url {
        let own = SERVICES.iter().position(|known| known == service);
        own.and_then(|index| self.services.all()[index].1.as_ref()).unwrap_or(&self.url)
    }

    /// Asks for the description of the service, which every SOAP server gives without a login.
    async fn ask(&self, deadline: Duration) -> Health {
        let mut url = self.url.clone();
        let query = url.query().map_or("wsdl".to_owned(), |query| format!("{query}&wsdl"));
        url.set_query(Some(&query));
        let request = match call(Method::GET, &url, Vec::new()) {
            Ok(request) => request,
            Err(text) => return Health::Sick(Reply::Unreachable(fault(FaultKind::NotConfigured, text))),
        };
        match self.client.call(&url, request, Need::Head, deadline).await {
            Err(reply) => Health::Sick(reply),
            Ok(answer) if answer.status.is_server_error() => Health::Sick(Reply::Refused(refusal(&answer))),
            Ok(answer) => Health::Reachable(format!("{} to ?wsdl", answer.status.as_u16())),
        }
    }
}

impl Channel for Tiss {
    fn send<'a>(&'a self, envelope: &'a Envelope, deadline: Duration) -> BoxFuture<'a, Reply> {
        Box::pin(self.attempt(envelope, deadline))
    }

    fn probe(&self, deadline: Duration) -> BoxFuture<'_, Health> {
        Box::pin(self.ask(deadline))
    }
}

fn call(method: Method, url: &Url, body: Vec<u8>) -> Result<Request<Full<Bytes>>, String> {
    let mut request = Request::builder()
        .method(method)
        .uri(&url[Position::BeforePath..Position::AfterQuery])
        .header(header::USER_AGENT, concat!("Pombo/", env!("CARGO_PKG_VERSION")))
        .header(header::ACCEPT, "text/xml, */*")
        .header(header::ACCEPT_ENCODING, "identity")
        .header(header::CONTENT_LENGTH, body.len())
        .body(Full::from(body))
        .map_err(|_| "the operator's address has no usable path".to_owned())?;
    request.headers_mut().insert(header::HOST, host_header(url)?);
    Ok(request)
}

fn writer(settings: &TissSettings, offset_ms: i64) -> Writer {
    let login = settings.login.clone().zip(settings.password.as_ref()).map(|(login, password)| {
        let password =
            if settings.password_md5 { Secret::new(md5_hex(password.expose())) } else { password.clone() };
        (login, password)
    });
    Writer {
        provider: settings.provider.clone().map(|number| match settings.provider_kind {
            ProviderKind::Code => ("codigoPrestadorNaOperadora", number),
            ProviderKind::Cnpj => ("CNPJ", number),
            ProviderKind::Cpf => ("CPF", number),
        }),
        registro_ans: settings.registro_ans.clone(),
        padrao: settings.padrao.clone(),
        login,
        offset_ms,
        encoding: settings.encoding,
        hash_encoding: settings.hash_encoding,
        hash_case: settings.hash_case,
        hash: settings.hash,
    }
}

/// What the settings say that cannot be true, by the standard's own lengths.
fn facts(settings: &TissSettings) -> Vec<(&'static str, &'static str, &'static str)> {
    let mut wrong = Vec::new();
    let mut need = |holds: bool, field, reason, hint| {
        if !holds {
            wrong.push((field, reason, hint));
        }
    };
    let fits = |text: &str, most: usize| {
        (1..=most).contains(&text.chars().count())
            && !text.chars().any(char::is_control)
            && text.trim() == text
    };
    let each = |value: &Option<String>, holds: &dyn Fn(&str) -> bool| value.as_deref().is_none_or(holds);
    need(
        each(&settings.registro_ans, &|text| is_number(text, 6)),
        "registro_ans",
        "is not six digits",
        "write the operator's number at ANS",
    );
    let provider = |text: &str| match settings.provider_kind {
        ProviderKind::Code => fits(text, 14),
        ProviderKind::Cnpj => text.len() == 14 && text.bytes().all(|b| b.is_ascii_alphanumeric()),
        ProviderKind::Cpf => is_number(text, 11),
    };
    need(
        each(&settings.provider, &provider),
        "provider",
        "is not of its provider_kind: a code of 1 to 14 characters, a CNPJ of 14, or a CPF of 11 digits",
        "write it without punctuation, and say which one it is",
    );
    need(is_version(&settings.padrao), "padrao", "is not a version of TISS", "write for example 4.01.00");
    need(
        each(&settings.login, &|text| fits(text, 20)),
        "login",
        "is not 1 to 20 characters",
        "write the login that the operator gave",
    );
    need(
        settings.login.is_some() == settings.password.is_some(),
        if settings.login.is_some() { "password" } else { "login" },
        "is missing: login and password belong together",
        "set both, or neither",
    );
    let sent = |password: &Secret| settings.password_md5 || fits(password.expose(), 32);
    need(
        settings.password.as_ref().is_none_or(sent),
        "password",
        "is not 1 to 32 characters",
        "operators with longer ones want their MD5: set password_md5 = true",
    );
    wrong
}

fn offset_ms(text: &str) -> Option<i64> {
    let (sign, rest) = match text.split_at_checked(1)? {
        ("-", rest) => (-1, rest),
        ("+", rest) => (1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let number = |text: &str, below: i64| {
        is_number(text, 2).then(|| text.parse::<i64>().ok()).flatten().filter(|number| *number < below)
    };
    Some(sign * (number(hours, 15)? * 60 + number(minutes, 60)?) * 60_000)
}

fn identity(
    certificate: Option<&Path>,
    key: Option<&Path>,
) -> Result<Option<Identity>, (&'static str, String)> {
    let (certificate, key) = match (certificate, key) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        (Some(_), None) => return Err(("client_key_file", "is missing beside client_cert_file".to_owned())),
        (None, Some(_)) => return Err(("client_cert_file", "is missing beside client_key_file".to_owned())),
    };
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| ("client_cert_file", format!("cannot be used: {error}")))?;
    if chain.is_empty() {
        return Err(("client_cert_file", "holds no certificate".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| ("client_key_file", format!("cannot be used: {error}")))?;
    Ok(Some(Identity { chain, key }))
}
