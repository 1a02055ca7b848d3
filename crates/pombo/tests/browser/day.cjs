// What people do with the dashboard on a day: come in, find what failed, put it right, see it go.

const { assert, enter, isMarked, mark, operator, place, somebody, until } = require("./chrome.cjs");
const { get, order, stands } = require("./api.cjs");

// By a key; a wrong one is told apart from a good one.
async function by_key(browser) {
  const own = await somebody(browser);
  const { page } = own;
  await page.goto("/messages?state=failed");
  assert.equal(new URL(page.url()).pathname, "/login", "whoever is not known comes to the door first");
  await page.getByLabel("API key").fill("pombo_a_key_that_opens_nothing");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText("This key opens nothing").waitFor();
  // The browser says for itself that it was refused.
  own.troubles.length = 0;
  await page.getByLabel("API key").fill(place.key);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForURL("**/messages?state=failed");
  await page.getByRole("button", { name: "Log out" }).click();
  await page.waitForURL("**/login");
  await page.goto("/");
  assert.equal(new URL(page.url()).pathname, "/login", "who left is not known any more");
  await own.leave();
}

// By a link, which lets one person in, once.
async function by_link(browser) {
  const own = await somebody(browser);
  await own.page.goto(place.link);
  await own.page.getByRole("button", { name: "Log in" }).click();
  await own.page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await own.leave();
  const second = await somebody(browser);
  await second.page.goto(place.link);
  await second.page.getByRole("button", { name: "Log in" }).click();
  await second.page.getByText("This link was used already").waitFor();
  second.troubles.length = 0;
  await second.leave();
}

// In another language: as the browser asks for it, and as somebody chooses.
async function languages(browser) {
  const own = await somebody(browser, { locale: "pt-BR" });
  const { page } = own;
  await enter(page);
  const said = async (words) => {
    await page.getByRole("heading", { level: 1, name: words }).waitFor();
    return page.evaluate(() => document.documentElement.lang);
  };
  assert.equal(await said("Visão geral"), "pt-BR");
  await page.locator(".side").getByRole("link", { name: "Mensagens", exact: true }).click();
  await page.locator(".side").getByRole("button", { name: "English" }).click();
  assert.equal(await said("Messages"), "en");
  assert.equal(new URL(page.url()).pathname, "/messages", "the page is the same one");
  await page.locator(".side").getByRole("button", { name: "Português" }).click();
  assert.equal(await said("Mensagens"), "pt-BR");
  for (const [words, theme] of [["Escuro", "dark"], ["Claro", "light"]]) {
    await page.locator(".side").getByRole("button", { name: words }).click();
    await page.locator(`html[data-theme=${theme}]`).waitFor();
    assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), theme);
  }
  await own.leave();
}

// Where the focus is, whether it can be seen, and what it is on.
const focused = (page) => page.evaluate(() => {
  const it = document.activeElement;
  const style = getComputedStyle(it);
  const box = it.getBoundingClientRect();
  return {
    name: it.matches("input, select, textarea") ? it.name : (it.getAttribute("aria-label") ?? it.innerText).trim(),
    tag: it.tagName,
    outlined: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
    seen: box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth && box.width > 0,
  };
});

// Presses Tab until the focus is on something of that name; all that it comes by shows that it is there.
async function tab(page, name) {
  const passed = [];
  for (let presses = 0; presses < 80; presses += 1) {
    await page.keyboard.press("Tab");
    const now = await focused(page);
    if (now.tag === "BODY") continue;
    passed.push(now.name);
    assert.ok(now.outlined && now.seen, `the focus cannot be seen on ${JSON.stringify(now)}`);
    if (now.name === name) return;
  }
  assert.fail(`no ${name} among ${passed.join(", ")}`);
}

// Without a mouse, from the door to a message that failed.
async function by_keyboard(browser) {
  const id = await order("pedido-7", "/gone");
  await stands(id, "failed");
  const own = await somebody(browser);
  const { page } = own;
  await enter(page);
  await page.keyboard.press("Tab");
  assert.equal((await focused(page)).name, "Skip to the content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await tab(page, "24 hours");
  await page.reload();
  await tab(page, "Messages");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/messages");
  await tab(page, "state");
  await page.keyboard.type("failed");
  await tab(page, "Search");
  await page.keyboard.press("Enter");
  await page.waitForURL(/state=failed/);
  const line = page.locator("#list tbody tr", { hasText: "pedido-7" });
  await tab(page, await line.getByRole("link").first().innerText());
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/messages/${id}`);
  await page.getByRole("heading", { level: 2, name: "What happened" }).waitFor();
  await own.leave();
}

module.exports = { by_key, by_keyboard, by_link, languages };
