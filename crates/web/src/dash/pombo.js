// What a script adds to pages that work without one: parts that keep themselves up to date, times as people say them,
// a question before something is done, ticking a whole list, and copying.

const lang = document.documentElement.lang;
const pt = lang.startsWith("pt");
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// Times: how long ago, or how soon.

const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const spoken = new Intl.RelativeTimeFormat(lang, { numeric: "auto", style: "short" });

function say(time) {
  const seconds = (Date.parse(time.dateTime) - Date.now()) / 1000;
  const far = Math.abs(seconds);
  if (Number.isNaN(seconds) || far > 30 * 86400) return;
  time.dataset.moment ??= time.textContent;
  time.title = `${time.dataset.moment} (${time.dateTime})`;
  const [unit, size] = units.find(([, size]) => far >= size) ?? ["second", 1];
  const words = far < 1 ? (pt ? "agora" : "now") : spoken.format(Math.trunc(seconds / size), unit);
  if (time.textContent !== words) time.textContent = words;
}

const sayAll = (root = document) => all("time[data-ago]", root).forEach(say);

// Parts: whatever has changed comes over one stream, which is there only while somebody looks.

const main = document.querySelector("main[data-live]");
const pulse = document.querySelector(".pulse");
const waiting = new Map();
let stream;

// Somebody is busy there: with a field, with ticks, with a mark over some text.
function busy(part) {
  const active = document.activeElement;
  if (part.contains(active) && active.matches("input, select, textarea")) return true;
  if (part.querySelector("input[type=checkbox]:checked")) return true;
  const marked = getSelection();
  return !marked.isCollapsed && part.contains(marked.anchorNode);
}

function put({ id, version, html }) {
  const part = document.getElementById(id);
  if (!part) return;
  if (busy(part)) {
    waiting.set(id, { id, version, html });
    return;
  }
  waiting.delete(id);
  const open = all("details", part).map((it) => it.open);
  const scrolled = all(".wide", part).map((it) => it.scrollLeft);
  const focused = part.contains(document.activeElement) ? all("a, button, summary, [tabindex]", part).indexOf(document.activeElement) : -1;
  part.innerHTML = html;
  part.dataset.part = version;
  all("details", part).forEach((it, n) => { if (open[n] !== undefined) it.open = open[n]; });
  all(".wide", part).forEach((it, n) => { it.scrollLeft = scrolled[n] ?? 0; });
  if (focused >= 0) all("a, button, summary, [tabindex]", part)[focused]?.focus({ preventScroll: true });
  dress(part);
}

function look() {
  if (!main || stream || document.hidden) return;
  const seen = all("[data-part]").map((part) => `${part.id}:${part.dataset.part}`).join(",");
  stream = new EventSource(`/live?${new URLSearchParams({ page: main.dataset.live, seen })}`);
  stream.onopen = () => { pulse.hidden = false; };
  stream.onerror = () => { pulse.hidden = true; };
  stream.addEventListener("part", (event) => put(JSON.parse(event.data)));
}

function rest() {
  stream?.close();
  stream = undefined;
  if (pulse) pulse.hidden = true;
}

// What is done to every part, also to one that came later.

function dress(root) {
  sayAll(root);
  for (const code of all("[data-copy]", root)) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copier";
    button.textContent = pt ? "Copiar" : "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = pt ? "Copiado" : "Copied";
      setTimeout(() => { button.textContent = pt ? "Copiar" : "Copy"; }, 1500);
    });
    code.after(button);
  }
  for (const box of all("input[data-all]", root)) {
    box.hidden = false;
    box.addEventListener("change", () => {
      all(`input[name="${box.dataset.all}"]`, box.closest("form")).forEach((it) => { it.checked = box.checked; });
    });
  }
}

document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

document.addEventListener("focusout", () => setTimeout(() => [...waiting.values()].forEach(put)));
document.addEventListener("visibilitychange", () => (document.hidden ? rest() : look()));
addEventListener("pagehide", rest);
addEventListener("pageshow", look);

dress(document);
look();
setInterval(sayAll, 5000);
