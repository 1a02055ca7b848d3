// The same receiver as receiver.py, with the official library for JavaScript. It always answers 200.

const http = require("http");
const readline = require("readline");
const { Webhook } = require("standardwebhooks");

let secret = null;

const server = http.createServer((request, response) => {
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => {
    const body = Buffer.concat(pieces).toString("utf8");
    let verified = true;
    try {
      new Webhook(secret).verify(body, request.headers);
    } catch (error) {
      verified = String(error);
    }
    const line = {
      path: request.url,
      id: request.headers["webhook-id"],
      timestamp: request.headers["webhook-timestamp"],
      signatures: (request.headers["webhook-signature"] || "").split(" ").filter(Boolean).length,
      verified,
      status: 200,
      event: JSON.parse(body),
    };
    console.log(JSON.stringify(line));
    response.writeHead(200);
    response.end();
  });
});

server.listen(0, "127.0.0.1", () => console.log(server.address().port));
const told = readline.createInterface({ input: process.stdin });
told.on("line", (line) => {
  secret = line.trim();
  console.log(JSON.stringify({ believes: true }));
});
told.on("close", () => process.exit(0));
