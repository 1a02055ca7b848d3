// A page that is left open: it tells what happens, in its own time, and forgets what it no longer shows.

const { assert, operator, until } = require("./chrome.cjs");
const { order } = require("./api.cjs");

// Everything that the browser keeps for a page, after what nobody needs is thrown away.
async function kept(session) {
  await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  const of = (name) => metrics.find((it) => it.name === name).value;
  return { nodes: of("Nodes"), listeners: of("JSEventListeners") };
}

// Counts how often a part is put anew, and when.
const count = (page) => page.evaluate(() => {
  globalThis.puts = [];
  for (const part of document.querySelectorAll("[data-part]")) {
    new MutationObserver(() => globalThis.puts.push({ id: part.id, at: performance.now() })).observe(part, { attributes: true, attributeFilter: ["data-part"] });
  }
});

// Under load each part changes at most once a second, and the document stays as large as it was.
async function under_load(browser) {
  const own = await operator(browser);
  // As many as a list shows.
  for (let n = 0; n < 60; n += 1) await order(`first-${n}`, "/ok");
  await own.page.goto("/messages");
  await own.page.locator(".pulse:visible").waitFor();
  const session = await own.context.newCDPSession(own.page);
  await session.send("Performance.enable");
  let enough = false;
  const producing = (async () => {
    for (let n = 0; !enough; n += 1) await order(`load-${n}`, n % 5 === 0 ? "/gone" : "/ok");
  })();
  try {
    await count(own.page);
    const puts = () => own.page.evaluate(() => globalThis.puts.filter((it) => it.id === "list").map((it) => it.at));
    await until("the list has changed three times", async () => (await puts()).length >= 3);
    const before = await kept(session);
    await until("the list has changed ten times", async () => (await puts()).length >= 10);
    const after = await kept(session);
    const times = await puts();
    const span = (times.at(-1) - times[0]) / 1000;
    // What was sent on time may arrive a little closer together.
    assert.ok(times.length - 1 <= span * 1.1 + 2, `${times.length} changes within ${span} s`);
    for (const name of ["nodes", "listeners"]) {
      assert.ok(after[name] <= before[name] * 1.3 + 50, `${name}: ${before[name]} at first, ${after[name]} seven changes later`);
    }
  } finally {
    enough = true;
    await producing;
  }
  await own.leave();
}

// Whoever looks elsewhere is told nothing, and catches up on coming back.
async function hidden_tab(browser) {
  const own = await operator(browser);
  const streams = { begun: 0, ended: 0 };
  const isStream = (request) => request.url().includes("/live?page=%2Fmessages");
  own.context.on("request", (request) => { streams.begun += isStream(request); });
  for (const end of ["requestfailed", "requestfinished"]) own.context.on(end, (request) => { streams.ended += isStream(request); });
  await own.page.goto("/messages");
  await own.page.locator(".pulse:visible").waitFor();
  assert.deepEqual(streams, { begun: 1, ended: 0 });
  const show = (state) => own.page.evaluate((state) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => state });
    Object.defineProperty(document, "hidden", { configurable: true, get: () => state === "hidden" });
    document.dispatchEvent(new Event("visibilitychange"));
  }, state);
  await show("hidden");
  await until("the stream is closed", () => streams.ended === 1);
  await order("while-away", "/ok");
  assert.equal(await own.page.getByText("while-away").count(), 0);
  await show("visible");
  await own.page.getByText("while-away").waitFor();
  assert.deepEqual(streams, { begun: 2, ended: 1 });
  await own.leave();
}

module.exports = { hidden_tab, under_load };
