// One of everything, as it is in a clinic on a day on which not all goes well.

const { place, until } = require("./chrome.cjs");
const { call, get, order, post, send, stands } = require("./api.cjs");

const MAIL = `<!doctype html><html lang="pt-BR"><body style="font-family: sans-serif; max-width: 34rem; margin: 1.5rem auto">
<h1 style="color: #0b6266">Seu recibo</h1><p>Olá, {{ name }}! Recebemos o pagamento da sua consulta de {{ date }}.</p>
<p><strong>Total: R$ {{ total }}</strong></p><p>Clínica Sol</p></body></html>`;
const RECEIPT = { name: "Ana", date: "16 de novembro", total: "180,00" };

const reminder = (to, reference) => send({ channel: "whatsapp", to, reference, template: "lembrete", payload: { name: "Ana", hour: "14h30" } });

// Hands everything in, and waits until it has come as far as it can.
async function furnished() {
  await call("PUT", "/v1/templates/lembrete", { whatsapp: "Olá, {{ name }}! Sua consulta é amanhã às {{ hour }}. Responda 1 para confirmar." });
  await call("PUT", "/v1/templates/recibo", { subject: "Seu recibo da Clínica Sol", text: "Olá, {{ name }}! Total: R$ {{ total }}.", html: MAIL });
  const sent = await send({ channel: "mail", to: "ana.souza@exemplo.example", reference: "recibo-2281", template: "recibo", payload: RECEIPT });
  const saved = await order("pedido-1840", "/flaky?fail=1");
  const waiting = await order("pedido-1999", "/ok", { send_at: new Date(Date.now() + 20 * 3_600_000).toISOString() });
  const dead = [await order("pedido-1841", "/gone")];
  for (const n of [1842, 1843, 1844, 1845, 1846]) dead.push(await order(`pedido-${n}`, "/gone"));
  for (const n of [1850, 1851, 1852]) dead.push(await order(`pedido-${n}`, "/status/422"));
  for (const n of ["31", "32"]) dead.push(await reminder(`+55${n}987650404`, `consulta-${n}`));
  dead.push(await send({ channel: "mail", to: "invalid@exemplo.example", reference: "recibo-2290", template: "recibo", payload: RECEIPT }));
  const tired = await order("pedido-1860", "/status/503");
  dead.push(tired);
  const greeted = [];
  for (const n of [11, 12, 13]) greeted.push(await reminder(`+55119876512${n}`, `consulta-${n}`));
  // The bank does not know our key: a fault of ours, which holds the destination.
  await send({ channel: "bank", to: `${place.sink}/status/401`, reference: "estorno-77", content: { body: { refund: 77 } } });
  for (const id of [sent, saved, ...greeted]) await stands(id, "sent");
  for (const id of dead) await stands(id, "failed");
  await post("/v1/channels/claims/hold", { reason: "the operator announced maintenance until noon" });
  await until("the bank is held", async () => (await get("/v1/channels")).items.find((it) => it.name === "bank").destinations.length > 0);
  await until("an alert fires", async () => (await get("/v1/alerts?state=firing")).items.length > 0);
  const campaigns = await held();
  const operation = await post("/v1/dead-letters/discard", { filter: { category: "recipient_not_found", channel: "mail" }, note: "the address was never right" });
  const first = async (path) => (await get(path)).items[0];
  return {
    sent, saved, waiting, tired, dead: dead[0], ...campaigns,
    cause: (await first("/v1/dead-letters/groups")).cause,
    operation: operation.id,
    alert: (await first("/v1/alerts?state=firing")).id,
    key: (await post("/v1/keys", { label: "recepção", role: "operator" })).id,
  };
}

// A campaign that is running, and one that is a draft.
async function held() {
  const made = async (name, people) => {
    const pace = { throttle_min_seconds: 15, throttle_max_seconds: 25 };
    const { id } = await post("/v1/campaigns", { name, channel: "whatsapp", template: "lembrete", ...pace });
    const list = Array.from({ length: people }, (_, n) => ({ to: `+551198${7_650_000 + n}`, name: `Pessoa ${n + 1}`, hour: "9h" }));
    await post(`/v1/campaigns/${id}/recipients`, list);
    return id;
  };
  const draft = await made("Retorno de novembro", 12);
  const running = await made("Consultas de amanhã", 40);
  await post(`/v1/campaigns/${running}/start`);
  await until("the campaign has begun", async () => (await get(`/v1/campaigns/${running}`)).counts.sent > 0);
  return { draft, running };
}

module.exports = { furnished };
