// Every page in both themes and at the width of a phone: read by axe, weighed, photographed.

const { assert, operator, place, shot, somebody, violations } = require("./chrome.cjs");
const { furnished } = require("./scene.cjs");

const PAGE_BYTES_MAX = 100_000;
const PHONE = { width: 360, height: 740 };

// Each page that there is, by its path in the server's table: what its picture is called, and an address of it.
const LOOKS = (things) => ({
  "/": ["overview", "/"],
  "/messages": ["messages", "/messages"],
  "/messages/{id}": ["message", `/messages/${things.tired}`],
  "/dead": ["dead", "/dead"],
  "/dead/letters": ["dead-letters", "/dead/letters"],
  "/dead/{group}": ["dead-cause", `/dead/${things.cause}`],
  "/dead/letter/{id}": ["dead-letter", `/dead/letter/${things.dead}`],
  "/dead/decide": ["dead-decide", `/dead/decide?act=reprocess&cause=${things.cause}`],
  "/operations": ["operations", "/operations"],
  "/operations/{id}": ["operation", `/operations/${things.operation}`],
  "/campaigns": ["campaigns", "/campaigns"],
  "/campaigns/new": ["campaign-new", "/campaigns/new"],
  "/campaigns/{id}": ["campaign", `/campaigns/${things.running}`],
  "/campaigns/{id}/edit": ["campaign-edit", `/campaigns/${things.draft}/edit`],
  "/campaigns/{id}/list": ["campaign-list", `/campaigns/${things.draft}/list`],
  "/campaigns/{id}/preview": ["campaign-preview", `/campaigns/${things.draft}/preview`],
  "/campaigns/{id}/recipients": ["campaign-recipients", `/campaigns/${things.running}/recipients`],
  "/templates": ["templates", "/templates"],
  "/templates/{name}": ["template", "/templates/recibo"],
  "/channels": ["channels", "/channels"],
  "/channels/{name}": ["channel", "/channels/bank"],
  "/policies": ["policies", "/policies"],
  "/policies/{name}": ["policy", "/policies/whatsapp"],
  "/learning": ["learning", "/learning"],
  "/learning/simulate": ["simulate", "/learning/simulate?policy=smtp&try=published&scenario=restart"],
  "/alerts": ["alerts", "/alerts"],
  "/alerts/{id}": ["alert", `/alerts/${things.alert}`],
  "/audit": ["audit", "/audit"],
  "/audit/chain": ["audit-chain", "/audit/chain"],
  "/keys": ["keys", "/keys"],
  "/keys/{id}": ["key", `/keys/${things.key}`],
});

// Other faces of the same pages.
const FACES = (things) => [
  ["messages-none", "/messages?reference=nobody-knows-it&lane=default"],
  ["message-mail", `/messages/${things.sent}`],
  ["message-waiting", `/messages/${things.waiting}`],
  ["simulate-own", "/learning/simulate?policy=whatsapp&try=flapping"],
  ["simulate-history", "/learning/simulate?policy=webhook&try=history&channel=crm"],
];

// The beginning of a page, as documents show it: so high.
const COVERS = { overview: 1180, message: 900, dead: 900 };

async function cover(page, name) {
  const seen = page.viewportSize();
  await page.setViewportSize({ width: 1320, height: COVERS[name] });
  await page.screenshot({ path: shot(`cover-${name}`) });
  await page.setViewportSize(seen);
}

// Photographs a page, and says what is wrong with it.
async function looked(own, [name, address], face) {
  const answer = await own.page.goto(address, { waitUntil: "load" });
  assert.equal(answer.status(), 200, address);
  await own.page.evaluate(() => document.fonts.ready);
  await own.page.screenshot({ path: shot(`${name}-${face}`), fullPage: true });
  if (COVERS[name] && face === "light") await cover(own.page, name);
  const wrong = [...(await tooWide(own.page)), ...(await tooHeavy(own.page, answer))];
  // Colours are those of the theme, and everything else is the same on a phone.
  if (face !== "phone") wrong.push(...(await violations(own.page)));
  return wrong.map((it) => `${name} (${face}): ${it}`);
}

async function tooWide(page) {
  const [needed, there] = await page.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth]);
  return needed > there ? [`needs ${needed} of ${there} pixels`] : [];
}

// What a browser that was never here fetches for a page, frames with other people's mail aside.
async function tooHeavy(page, answer) {
  let bytes = (await answer.body()).length;
  const assets = await page.evaluate(() => [...document.querySelectorAll("script[src], link[href]")].map((it) => it.src ?? it.href));
  assert.ok(assets.length >= 3, "a stylesheet, a script and an icon");
  for (const asset of assets) bytes += (await (await page.context().request.get(asset)).body()).length;
  return bytes >= PAGE_BYTES_MAX ? [`weighs ${bytes} bytes`] : [];
}

async function every_page(browser) {
  const things = await furnished();
  const looks = LOOKS(things);
  assert.deepEqual(Object.keys(looks).sort(), [...place.pages].sort(), "every page of the server's table has its picture");
  const wrong = [];
  for (const [face, options] of [["light", { colorScheme: "light" }], ["dark", { colorScheme: "dark" }], ["phone", { viewport: PHONE }]]) {
    const own = await somebody(browser, options);
    wrong.push(...(await looked(own, ["login", "/login"], face)));
    await own.leave();
    const inside = await operator(browser, options);
    for (const it of [...Object.values(looks), ...FACES(things)]) wrong.push(...(await looked(inside, it, face)));
    if (face === "phone") await menu(inside.page);
    await inside.leave();
  }
  assert.ok(wrong.length === 0, wrong.join("\n"));
}

// On a phone the navigation is folded away, without a script.
async function menu(page) {
  await page.locator(".bar summary").click();
  await page.screenshot({ path: shot("menu-phone") });
  await page.locator(".bar nav a", { hasText: "Overview" }).click();
  await page.waitForURL("**/");
}

module.exports = { every_page };
