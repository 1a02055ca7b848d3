// Speaks to Pombo through Resend's package for Node, and says what came of it, for the test that runs this.
// RESEND_BASE_URL and RESEND_API_KEY say where and as whom.

const { Resend } = require('resend');

const mail = (to, changes = {}) => ({
  from: 'Clínica <mail@clinic.example>',
  to,
  subject: 'Olá',
  html: '<p>oi</p>',
  ...changes,
});

// What a call gave, or the name of what was wrong with it.
async function said(call) {
  const { data, error } = await call;
  return error ? error.name : data;
}

async function main() {
  const resend = new Resend(process.env.RESEND_API_KEY);
  const stranger = new Resend('re_somebody_elses');
  const full = mail(['node-1@x.example', 'Bia <node-2@x.example>'], {
    cc: 'node-3@x.example',
    bcc: ['node-4@x.example'],
    replyTo: 'answers@clinic.example',
    text: 'oi',
    headers: { 'X-Entity-Ref-ID': 'node' },
    tags: [{ name: 'client', value: 'node' }],
    attachments: [{ filename: 'a.txt', content: Buffer.from('hi'), contentType: 'text/plain' }],
  });
  const key = { idempotencyKey: 'node-one' };
  const sent = await said(resend.emails.send(full, key));
  const answer = {
    sent: sent.id,
    again: (await said(resend.emails.send(full, key))).id,
    conflict: await said(resend.emails.send(mail('node-5@x.example'), key)),
    invalid: await said(resend.emails.send(mail('nobody'))),
    missing: await said(resend.emails.send({ ...mail('node-5@x.example'), subject: undefined })),
    event: (await said(resend.emails.get(sent.id))).last_event,
  };
  const many = [mail('node-b1@x.example'), mail('node-b2@x.example')];
  const batchKey = { idempotencyKey: 'node-many' };
  answer.batch = (await said(resend.batch.send(many, batchKey))).data.map((it) => it.id);
  answer.batch_again = (await said(resend.batch.send(many, batchKey))).data.map((it) => it.id);
  answer.batch_conflict = await said(resend.batch.send(many.slice(1), batchKey));
  const mixed = [mail('nobody'), mail('node-b3@x.example')];
  answer.strict = await said(resend.batch.send(mixed));
  const permissive = await said(resend.batch.send(mixed, { batchValidation: 'permissive' }));
  answer.permissive = { sent: permissive.data.length, errors: permissive.errors.map((it) => it.index) };
  answer.stranger = await said(stranger.emails.send(mail('node-5@x.example')));
  for (let tries = 0; tries < 60 && !answer.limited; tries++) {
    const { error, headers } = await stranger.emails.send(mail('node-5@x.example'));
    if (error.statusCode === 429) {
      answer.limited = {
        name: error.name,
        limit: Number(headers['ratelimit-limit']),
        remaining: Number(headers['ratelimit-remaining']),
        reset: Number(headers['ratelimit-reset']),
      };
    }
  }
  console.log(JSON.stringify(answer));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
