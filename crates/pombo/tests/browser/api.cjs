// What producers and other programs do, over the API.

const { assert, place, until } = require("./chrome.cjs");

async function call(method, path, body, key = place.key) {
  const headers = { authorization: `Bearer ${key}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(place.url + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const said = await answer.text();
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${said}`);
  return said ? JSON.parse(said) : null;
}

const get = (path) => call("GET", path);
const post = (path, body = {}) => call("POST", path, body);

// A message that is handed in; its id.
async function send(message) {
  return (await post("/v1/messages", message)).id;
}

// A message of the shop's, to that path of the sink.
const order = (reference, path, more = {}) => send({ channel: "crm", to: place.sink + path, reference, content: { body: { order: reference, total: 129.9 } }, ...more });

// Waits until a message stands so.
const stands = (id, state) => until(`${id} is ${state}`, async () => (await get(`/v1/messages/${id}`)).state === state);

module.exports = { call, get, order, post, send, stands };
