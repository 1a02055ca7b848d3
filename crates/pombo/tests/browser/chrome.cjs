// Debian's Chromium, and what is held against every page that it shows: nothing is fetched from elsewhere, nothing is
// refused by the page's own policy, and no script fails.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");

const place = JSON.parse(process.env.POMBO_PLACE);
// A machine that builds and tests at once is slow, and being slow is no fault of a page.
const PATIENCE = 90_000;

async function launch() {
  const args = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  return chromium.launch({ executablePath: "/usr/bin/chromium", chromiumSandbox: false, args, timeout: PATIENCE });
}

// Somebody with a browser of their own, who is told at the end what was wrong on the way.
async function somebody(browser, options = {}) {
  const context = await browser.newContext({ baseURL: place.url, locale: "en-GB", viewport: { width: 1320, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE);
  const own = { context, troubles: [], fetched: [] };
  const origin = new URL(place.url).origin;
  context.on("request", (request) => {
    own.fetched.push(request.url());
    if (!request.url().startsWith("data:") && new URL(request.url()).origin !== origin) own.troubles.push(`asked elsewhere: ${request.url()}`);
  });
  context.on("console", (message) => {
    if (message.type() === "error") own.troubles.push(`${message.page()?.url()}: ${message.text()}`);
  });
  context.on("weberror", (error) => own.troubles.push(`a script failed: ${error.error()}`));
  context.on("dialog", (dialog) => { own.asked = dialog.message(); dialog.accept(); });
  own.page = await context.newPage();
  own.leave = async () => {
    assert.deepEqual(own.troubles, []);
    await context.close();
  };
  return own;
}

// Logs in by a key, as somebody with a keyboard does: the field has the focus already.
async function enter(page, key = place.key) {
  await page.goto("/login");
  await page.locator("#key:focus").waitFor();
  await page.keyboard.type(key);
  await page.keyboard.press("Enter");
  await page.locator(".person").first().waitFor({ state: "attached" });
}

// Somebody who is logged in.
async function operator(browser, options = {}) {
  const own = await somebody(browser, options);
  await enter(own.page);
  return own;
}

// Waits until that is so, and says how it was if it never is.
async function until(what, is) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const seen = await is();
    if (seen) return seen;
    assert.ok(Date.now() < end, `never: ${what}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

// Marks the document, so that whoever looks later knows whether it is still the same one.
const mark = (page) => page.evaluate(() => { globalThis.pomboTest = true; });
const isMarked = (page) => page.evaluate(() => globalThis.pomboTest === true);

// Every rule of axe that a page breaks, with where.
async function violations(page) {
  await page.evaluate(fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8"));
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"], iframes: false }));
  return found.violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.target.join(" ")}: ${node.failureSummary.replace(/\s+/g, " ")}`));
}

function shot(name) {
  fs.mkdirSync(place.screenshots, { recursive: true });
  return path.join(place.screenshots, `${name}.png`);
}

module.exports = { assert, enter, fs, isMarked, launch, mark, operator, place, shot, somebody, until, violations };
