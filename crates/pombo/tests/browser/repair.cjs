// What an operator does about what failed: one message that is corrected, a group that is sent again, a campaign that is
// led to its end. All of it with a script and without one.

const http = require("node:http");
const { assert, isMarked, mark, operator, place, until } = require("./chrome.cjs");
const { call, get, order, post, stands } = require("./api.cjs");

// How a page comes to show what happens: by itself, or by being asked for again.
const LIVE = {
  options: {},
  begin: mark,
  async shows(page, seen) {
    await seen.waitFor();
    assert.ok(await isMarked(page), "the page was never loaded again");
  },
};
const PLAIN = {
  options: { javaScriptEnabled: false },
  begin: async () => {},
  shows: (page, seen) => until("what is waited for is shown", async () => {
    if (await seen.count()) return true;
    await page.reload();
    return false;
  }),
};

const nav = (page, name) => page.locator(".side nav").getByRole("link", { name, exact: true }).click();
const title = (page, name) => page.getByRole("heading", { level: 1, name }).waitFor();
const press = (page, name) => page.locator("main").getByRole("button", { name }).click();
const follow = (page, name) => page.locator("main").getByRole("link", { name }).first().click();

// Finds a message that failed, reads why, corrects it, and sees it sent.
async function corrected(browser, way) {
  const id = await order("pedido-500", "/gone");
  await stands(id, "failed");
  const own = await operator(browser, way.options);
  const { page } = own;
  await nav(page, "Messages");
  await page.getByLabel("State").selectOption("failed");
  await page.getByLabel("Reference").fill("pedido-500");
  await press(page, "Search");
  await page.locator("tbody tr", { hasText: "pedido-500" }).getByRole("link").first().click();
  await page.waitForURL(`**/messages/${id}`);
  await page.getByText("First attempt failed: gone.").waitFor();
  await page.getByText("Trying again would not help").waitFor();
  await follow(page, "Correct and resubmit");
  await page.getByLabel("Recipient").fill(`${place.sink}/ok`);
  await page.getByLabel("What was put right").fill("the shop has a new address");
  await press(page, "Check and compare");
  await page.locator("del, ins").first().waitFor();
  // Nothing goes until somebody is looking.
  await post("/v1/channels/crm/hold", { reason: "until somebody looks" });
  await press(page, "Save and send again");
  await page.waitForURL(`**/messages/${id}`);
  await way.begin(page);
  const state = (words) => page.locator("#standing .badge", { hasText: words });
  await state("waiting").waitFor();
  await post("/v1/channels/crm/release", {});
  await way.shows(page, state("sent"));
  await page.getByText("the shop has a new address").first().waitFor();
  assert.equal((await get(`/v1/messages/${id}`)).to, `${place.sink}/ok`);
  await own.leave();
}

// A shop that takes nothing, until it is mended.
async function shop() {
  const own = { status: 422 };
  const server = http.createServer((request, response) => {
    request.resume();
    request.on("end", () => response.writeHead(own.status).end("the price list is being changed"));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  own.url = `http://127.0.0.1:${server.address().port}/`;
  own.close = () => server.close();
  return own;
}

// Sends a whole group again, once whoever refused it is well.
async function reprocessed(browser, way) {
  const ids = [];
  const refusing = await shop();
  for (const n of [1, 2, 3]) ids.push(await order(`pedido-60${n}`, "", { to: refusing.url }));
  for (const id of ids) await stands(id, "failed");
  const own = await operator(browser, way.options);
  const { page } = own;
  const { cause } = (await get("/v1/dead-letters?reference=pedido-601")).items[0];
  await nav(page, "Dead letters");
  await page.locator(`main a[href*="${cause.id}"]`).first().click();
  await page.getByText("pedido-602").waitFor();
  refusing.status = 200;
  await follow(page, "Send all of them again");
  await press(page, "Send again");
  await page.waitForURL("**/operations/*");
  await way.begin(page);
  await way.shows(page, page.locator("main .badge", { hasText: "done" }).first());
  for (const id of ids) await stands(id, "sent");
  refusing.close();
  await nav(page, "Dead letters");
  await title(page, "Dead letters");
  assert.equal(await page.locator(`main a[href*="${cause.id}"]`).count(), 0, "the cause is gone");
  await own.leave();
}

const LIST = "celular;name;hour\n+55 11 98765-1201;Ana;9h\n+55 11 98765-1202;Bia;10h\n11 98765-0404;Caio;11h\n";

// From a list to the last of those who are on it.
async function campaign(browser, way) {
  await call("PUT", "/v1/templates/lembrete", { whatsapp: "Olá, {{ name }}! Sua consulta é amanhã às {{ hour }}." });
  const own = await operator(browser, way.options);
  const { page } = own;
  await nav(page, "Campaigns");
  await follow(page, "New campaign");
  await page.getByLabel("Name", { exact: true }).fill("Consultas de amanhã");
  await page.getByLabel("Channel", { exact: true }).selectOption("whatsapp");
  await page.getByLabel("Template", { exact: true }).selectOption("lembrete");
  await page.getByLabel("Wait at least").fill("3");
  await page.getByLabel("Wait at most").fill("3");
  await press(page, "Create the draft");
  await page.waitForURL(/\/campaigns\/cmp_[^/]+/);
  if (!new URL(page.url()).pathname.endsWith("/list")) await follow(page, "Add recipients");
  await page.getByLabel("File").setInputFiles({ name: "amanha.csv", mimeType: "text/csv", buffer: Buffer.from(LIST) });
  await press(page, "Next: its columns");
  await page.getByRole("heading", { name: "What the columns are" }).waitFor();
  await press(page, "Add everybody on it");
  await page.getByText("3 people added").waitFor();
  await page.getByText("Olá, Ana! Sua consulta é amanhã às 9h.").waitFor();
  await press(page, "Start now: 3 people");
  await page.waitForURL(/\/campaigns\/cmp_[^/]+$/);
  await way.begin(page);
  await way.shows(page, page.locator("main .badge", { hasText: "completed" }).first());
  const id = new URL(page.url()).pathname.split("/").at(-1);
  const { counts } = await get(`/v1/campaigns/${id}`);
  assert.deepEqual([counts.recipients, counts.sent, counts.failed], [3, 2, 1]);
  await own.leave();
}

module.exports = {
  corrects_live: (browser) => corrected(browser, LIVE),
  corrects_plain: (browser) => corrected(browser, PLAIN),
  reprocesses_live: (browser) => reprocessed(browser, LIVE),
  reprocesses_plain: (browser) => reprocessed(browser, PLAIN),
  campaign_live: (browser) => campaign(browser, LIVE),
  campaign_plain: (browser) => campaign(browser, PLAIN),
};
