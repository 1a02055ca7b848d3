//! A pretend health insurer: takes lots of guides over SOAP, and gives protocols.
//!
//! It checks what a real one checks first: encoding, structure, namespace, hash, operator, login. The end of a
//! lot's number then says what becomes of it: see [`SCRIPTS`].

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Either, Full, Limited};
use hyper::body::Incoming;
use pombo_kernel::content::claim::{Claim, Form, Service, TISS_NAMESPACE};
use pombo_kernel::dice::Dice;
use pombo_kernel::xml::Element;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::door::{self, HangUp};
use super::{Endless, plain};
use crate::tiss::{
    Encoding, HashCase, Hashes, decoded, element, encode, envelope_end, envelope_start, field,
};

const REQUEST_BYTES_MAX: usize = 32 * 1024 * 1024;
const P: &str = "ans:";

/// What the end of a lot's number makes of it; any other number is taken. Four digits that are a denial code
/// after at least one more refuse the lot with that code.
pub const SCRIPTS: &[(&str, &str)] = &[
    ("…1001, …1017, …1201, …1412, …1801, …5053", "refuses the whole lot with that denial code"),
    ("…9001", "fails with the SOAP fault ErroInesperadoServidor"),
    ("…9002", "fails with LoginInvalido"),
    ("…9003", "fails with HashInvalido"),
    ("…9004", "fails with SchemaInvalido"),
    ("…9005", "fails with VersaoInvalida"),
    ("…9101", "takes it, with denials of the lot, of a guide and of a procedure"),
    ("…9102", "takes it, and answers a second late"),
    ("…9103", "takes it and hangs up without an answer"),
    ("…9104", "takes it and never answers"),
    ("…9105", "takes it and answers 200 with a page of HTML"),
    ("…9106", "answers 500 with a body that never ends"),
    ("…9107", "answers 503 with a page of HTML"),
    ("…9108", "refuses it without a code and without a word"),
    ("…9109", "fails the first time with ErroInesperadoServidor, then takes it"),
    ("…9110", "takes it and answers without a protocol"),
    ("a lot that was taken before", "refuses it with the denial code 1308"),
    ("solicitacaoStatusProtocolo", "2 em análise for a protocol that it gave, else 7 não localizado"),
    ("GET ?wsdl", "the description of the service"),
    ("GET /stats", "what it was sent, and `?lot=` for one lot"),
    ("POST /outage?on=1", "answers 503 to everything until `?on=0`"),
];

#[derive(Clone, Debug, Default)]
pub struct TissOptions {
    /// The operator's number; any six digits will do if it is not given.
    pub registro_ans: Option<String>,
    /// The login and the password as they are sent; any will do if they are not given.
    pub login: Option<(String, String)>,
    /// The bytes that hashes must be made over, and that answers come in.
    pub encoding: Encoding,
    /// How hashes must be written; either will do if it is not given.
    pub hash_case: Option<HashCase>,
    /// So many requests in a hundred fail with ErroInesperadoServidor.
    pub fail_percent: u64,
    pub seed: u64,
}

/// One lot, as the operator saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lot {
    /// Requests that named it and were in order.
    pub received: u32,
    /// The protocol under which it was taken.
    pub protocol: Option<String>,
}

/// Everything that the operator saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TissStats {
    /// Requests that arrived whole, whatever became of them.
    pub total: u64,
    /// Lots that were taken, each once.
    pub accepted: u64,
    /// Lots that came again after they had been taken.
    pub duplicates: u64,
    /// Requests that were not in order: structure, hash, operator, login.
    pub invalid: u64,
    /// Requests about a protocol, and of every other service.
    pub queries: u64,
    pub connections: u64,
}

/// A running operator. It stops when it is dropped.
#[derive(Debug)]
pub struct TissSandbox {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl TissSandbox {
    /// Listens on `address`, where port 0 means any free one.
    pub async fn start(address: SocketAddr, options: &TissOptions) -> io::Result<TissSandbox> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            options: options.clone(),
            outage: AtomicBool::new(false),
            ledger: Mutex::default(),
            dice: Mutex::new(Dice::seeded(options.seed)),
        });
        let server = tokio::spawn(serve(listener, shared.clone()));
        Ok(TissSandbox { address, shared, server })
    }

    /// The address of its services.
    pub fn url(&self) -> String {
        format!("http://{}/tiss", self.address)
    }

    pub fn stats(&self) -> TissStats {
        self.shared.ledger().stats
    }

    /// What is known of the lot with this number, of whichever provider.
    pub fn lot(&self, number: &str) -> Lot {
        self.shared.ledger().lot(number)
    }

    /// Answers 503 to everything, or no longer.
    pub fn outage(&self, on: bool) {
        self.shared.outage.store(on, Ordering::Relaxed);
    }

    /// Hangs up on everybody and stops listening.
    pub async fn stop(mut self) {
        self.server.abort();
        // The error only says that it was aborted.
        let _ = (&mut self.server).await;
    }
}

impl Drop for TissSandbox {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// What was taken, by provider and lot.
#[derive(Debug, Default)]
struct Ledger {
    stats: TissStats,
    lots: BTreeMap<(String, String), Lot>,
}

impl Ledger {
    fn lot(&self, number: &str) -> Lot {
        self.lots.iter().find(|((_, lot), _)| lot == number).map(|(_, lot)| lot.clone()).unwrap_or_default()
    }

    fn knows(&self, protocol: &str) -> bool {
        self.lots.values().any(|lot| lot.protocol.as_deref() == Some(protocol))
    }
}

struct Shared {
    options: TissOptions,
    outage: AtomicBool,
    ledger: Mutex<Ledger>,
    dice: Mutex<Dice>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_out_of_luck(&self) -> bool {
        let fail = self.options.fail_percent;
        fail > 0 && self.dice.lock().unwrap_or_else(PoisonError::into_inner).below(100) < fail
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    door::welcome(listener, |stream| {
        let shared = shared.clone();
        shared.ledger().stats.connections += 1;
        async move { door::host(stream, |request| answer(&shared, request)).await }
    })
    .await;
}

type Answer = Response<Either<Full<Bytes>, Endless>>;

async fn answer(shared: &Shared, request: Request<Incoming>) -> Result<Answer, HangUp> {
    let (head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default();
    let parameter = |name: &str| super::script::parameter(query, name);
    if head.uri.path() == "/stats" {
        let ledger = shared.ledger();
        let text = match parameter("lot") {
            Some(lot) => serde_json::to_string(&ledger.lot(&lot)),
            None => serde_json::to_string(&ledger.stats),
        };
        return Ok(of_kind("application/json", plain(StatusCode::OK, &text.unwrap_or_default())));
    }
    if head.method == Method::POST && head.uri.path() == "/outage" {
        shared.outage.store(parameter("on").is_none_or(|on| on != "0"), Ordering::Relaxed);
        return Ok(plain(StatusCode::OK, "ok"));
    }
    if shared.outage.load(Ordering::Relaxed) {
        return Ok(page(StatusCode::SERVICE_UNAVAILABLE));
    }
    if head.method == Method::GET {
        return Ok(of_kind("text/xml", plain(StatusCode::OK, "<definitions name=\"tissLoteGuias\"/>")));
    }
    let body = Limited::new(body, REQUEST_BYTES_MAX).collect().await.map_err(|_| HangUp)?.to_bytes();
    shared.ledger().stats.total += 1;
    let text = decoded(&body);
    let claim = match Claim::read(&text) {
        Ok(claim) if claim.form == Form::Envelope => claim,
        _ => return Ok(invalid(shared, "SchemaInvalido")),
    };
    if let Some(word) = objection(shared, &text, &claim, head.headers.get("soapaction")) {
        return Ok(invalid(shared, word));
    }
    if shared.is_out_of_luck() {
        return Ok(failed("ErroInesperadoServidor"));
    }
    if claim.service.payload == "loteGuias" {
        return take(shared, &claim).await;
    }
    shared.ledger().stats.queries += 1;
    Ok(other(shared, &claim))
}

fn invalid(shared: &Shared, word: &str) -> Answer {
    shared.ledger().stats.invalid += 1;
    failed(word)
}

/// The fault that a request deserves before anybody looks at its guides.
fn objection(
    shared: &Shared,
    text: &str,
    claim: &Claim<'_>,
    action: Option<&HeaderValue>,
) -> Option<&'static str> {
    let options = &shared.options;
    let value = |path: &[&str]| claim.header.as_ref()?.value(path);
    let hashes = Hashes::of(text).ok()?;
    let carried = hashes.carried.as_deref().unwrap_or_default();
    let case = match options.hash_case {
        None => true,
        Some(HashCase::Lower) => carried == carried.to_lowercase(),
        Some(HashCase::Upper) => carried == carried.to_uppercase(),
    };
    let given = (
        value(&["loginSenhaPrestador", "loginPrestador"]).unwrap_or_default().to_owned(),
        value(&["loginSenhaPrestador", "senhaPrestador"]).unwrap_or_default().to_owned(),
    );
    if action.is_none_or(|action| action != "\"\"") {
        Some("SchemaInvalido")
    } else if !hashes.holds_in(options.encoding) || !case {
        Some("HashInvalido")
    } else if options
        .registro_ans
        .as_deref()
        .is_some_and(|own| value(&["destino", "registroANS"]) != Some(own))
    {
        Some("DestinatarioInvalido")
    } else if options.login.as_ref().is_some_and(|own| *own != given) {
        Some("LoginInvalido")
    } else {
        None
    }
}

/// Takes a lot, or does what its number says.
async fn take(shared: &Shared, claim: &Claim<'_>) -> Result<Answer, HangUp> {
    const CODES: [&str; 6] = ["1001", "1017", "1201", "1412", "1801", "5053"];
    let provider = claim.header.as_ref().and_then(|header| header.child("origem"));
    let provider = provider.and_then(|it| it.children.first()?.children.first()).map(|it| it.text.trim());
    let number = claim.payload.value(&["numeroLote"]).unwrap_or_default();
    let name = (provider.unwrap_or_default().to_owned(), number.to_owned());
    let script =
        number.len().checked_sub(4).filter(|at| *at > 0).and_then(|at| number.get(at..)).unwrap_or_default();
    let before = {
        let mut ledger = shared.ledger();
        let lot = ledger.lots.entry(name.clone()).or_default();
        lot.received += 1;
        let before = lot.clone();
        if before.protocol.is_some() {
            ledger.stats.duplicates += 1;
        }
        before
    };
    if before.protocol.is_some() {
        return Ok(denied(shared, claim.service, "1308", "Atendimento já apresentado em outra guia"));
    }
    match script {
        code if CODES.contains(&code) => return Ok(denied(shared, claim.service, code, "Não aceito")),
        "9001" => return Ok(failed("ErroInesperadoServidor")),
        "9002" => return Ok(failed("LoginInvalido")),
        "9003" => return Ok(failed("HashInvalido")),
        "9004" => return Ok(failed("SchemaInvalido")),
        "9005" => return Ok(failed("VersaoInvalida")),
        "9106" => {
            let mut answer = Response::new(Either::Right(Endless));
            *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            return Ok(answer);
        }
        "9107" => return Ok(page(StatusCode::SERVICE_UNAVAILABLE)),
        "9108" => return Ok(denied(shared, claim.service, "", "")),
        "9109" if before.received == 1 => return Ok(failed("ErroInesperadoServidor")),
        _ => {}
    }
    let protocol = {
        let mut ledger = shared.ledger();
        ledger.stats.accepted += 1;
        let protocol = format!("{:012}", 100_000_000_000 + ledger.stats.accepted);
        ledger.lots.entry(name).or_default().protocol = Some(protocol.clone());
        protocol
    };
    match script {
        "9102" => tokio::time::sleep(Duration::from_secs(1)).await,
        "9103" => return Err(HangUp),
        "9104" => return pending().await,
        "9105" => return Ok(page(StatusCode::OK)),
        "9110" => return Ok(soap(shared, claim.service, &element(P, "recebimentoLote", &[]))),
        _ => {}
    }
    Ok(soap(shared, claim.service, &received(claim, &protocol, number, script == "9101")))
}

fn received(claim: &Claim<'_>, protocol: &str, number: &str, with_denials: bool) -> String {
    let denial = |around: &str, code: &str| {
        let code = [field(P, "codigoGlosa", code), field(P, "descricaoGlosa", "Não aceito")];
        element(P, around, &[element(P, "motivoGlosa", &code)])
    };
    let only = |denial: String| if with_denials { denial } else { String::new() };
    let guides =
        claim.payload.child("guiasTISS").map(|guides| guides.children.as_slice()).unwrap_or_default();
    let guides: Vec<String> = guides
        .iter()
        .map(|guide| {
            let fields = [
                field(P, "numeroGuiaPrestador", guide_number(guide).unwrap_or("1")),
                only(denial("glosaGuia", "1307")),
                only(element(P, "procedimentosRealizados", &[denial("glosasProcedimento", "1801")])),
            ];
            element(P, "dadosGuias", &fields)
        })
        .collect();
    let detail = [
        field(P, "numeroProtocolo", protocol),
        field(P, "valorTotalProtocolo", "0.00"),
        only(element(P, "glosaProtocolo", &[denial("motivosGlosa", "1104")])),
        element(P, "dadosGuiasProtocolo", &guides),
    ];
    let body = [field(P, "numeroLote", number), element(P, "detalheProtocolo", &detail)];
    element(P, "recebimentoLote", &[element(P, "protocoloRecebimento", &body)])
}

fn guide_number<'a>(guide: &'a Element<'_>) -> Option<&'a str> {
    let number =
        |element: &'a Element<'_>| element.value(&["numeroGuiaPrestador"]).filter(|it| !it.is_empty());
    number(guide).or_else(|| guide.children.iter().find_map(number))
}

/// The answer of every service but the one for lots.
fn other(shared: &Shared, claim: &Claim<'_>) -> Answer {
    let protocol = claim.payload.value(&["numeroProtocolo"]).unwrap_or_default();
    let body = match claim.service.payload {
        "solicitacaoStatusProtocolo" => {
            let status = if shared.ledger().knows(protocol) { "2" } else { "7" };
            let detail = [field(P, "statusProtocolo", status), field(P, "numeroProtocolo", protocol)];
            let lot = element(P, "lote", &[element(P, "detalheLote", &detail)]);
            element(P, "situacaoProtocolo", &[element(P, "situacaoDoProtocolo", &[lot])])
        }
        "pedidoElegibilidade" => {
            let receipt = element(P, "reciboElegibilidade", &[field(P, "respostaSolicitacao", "S")]);
            element(P, "respostaElegibilidade", &[receipt])
        }
        "loteAnexo" => {
            let receipt = [field(P, "nrProtocoloRecebimento", "200000000001")];
            element(P, "loteAnexo", &[element(P, "protocoloRecebimentoAnexo", &receipt)])
        }
        "loteRecurso" => {
            let receipt = [field(P, "nrProtocoloRecursoGlosa", "300000000001")];
            element(P, "recebimentoRecurso", &[element(P, "protocoloRecebimento", &receipt)])
        }
        _ => element(P, "recibo", &[]),
    };
    soap(shared, claim.service, &body)
}

fn denied(shared: &Shared, service: &Service, code: &str, words: &str) -> Answer {
    let error = [field(P, "codigoGlosa", code), field(P, "descricaoGlosa", words)];
    soap(shared, service, &element(P, "recebimentoLote", &[element(P, "mensagemErro", &error)]))
}

/// An answer of a service, hashed.
fn soap(shared: &Shared, service: &Service, body: &str) -> Answer {
    let name = service.answer;
    let whole = |hash: &str| {
        let start = envelope_start(&format!(" xmlns:ans=\"{TISS_NAMESPACE}\""));
        format!("{start}<{P}{name}>{body}{hash}</{P}{name}>{}", envelope_end())
    };
    let hash = Hashes::of(&whole("")).map(|hashes| hashes.in_encoding(shared.options.encoding).to_owned());
    let text = whole(&field(P, "hash", &hash.unwrap_or_default()));
    let bytes = encode(&text, shared.options.encoding).unwrap_or_default();
    of_kind("text/xml", Response::new(Either::Left(Full::from(bytes))))
}

fn failed(word: &str) -> Answer {
    let text = format!(
        "{}<soapenv:Fault><faultcode>soapenv:Server</faultcode><faultstring>tissFault</faultstring><detail>\
         <tissFaultWS xmlns=\"{TISS_NAMESPACE}\"><tissFault>{word}</tissFault></tissFaultWS></detail></soapenv:Fault>{}",
        envelope_start(""),
        envelope_end()
    );
    of_kind("text/xml", plain(StatusCode::INTERNAL_SERVER_ERROR, &text))
}

fn page(status: StatusCode) -> Answer {
    let text = "<html><head><title>Manutenção</title></head><body><br>Volte mais tarde</body></html>";
    of_kind("text/html; charset=utf-8", plain(status, text))
}

fn of_kind(kind: &'static str, mut answer: Answer) -> Answer {
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
