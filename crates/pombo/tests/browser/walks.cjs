// The walks of people through the dashboard, each by its name: `node walks.cjs NAME`, at the place that POMBO_PLACE tells.

const { launch, place, shot } = require("./chrome.cjs");

const walks = {
  ...require("./day.cjs"),
  ...require("./gallery.cjs"),
  ...require("./repair.cjs"),
  ...require("./watch.cjs"),
};

(async () => {
  const name = process.argv[2];
  if (!walks[name]) throw new Error(`there is no walk ${name}`);
  const browser = await launch();
  try {
    await walks[name](browser);
  } catch (error) {
    // What was to be seen tells more than what was not found.
    for (const [n, page] of browser.contexts().flatMap((it) => it.pages()).entries()) {
      await page.screenshot({ path: shot(`failed-${name}-${n}`) }).catch(() => {});
      console.error(`at ${page.url()}, see ${shot(`failed-${name}-${n}`)}`);
    }
    throw error;
  } finally {
    await browser.close();
  }
})().catch((error) => {
  console.error(error);
  console.error(`the place: ${place.url}`);
  process.exitCode = 1;
});
