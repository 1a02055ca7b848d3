// Hands mails to Pombo with nodemailer, and says what came of it, for the test that runs this.
// SMTP_PORT, SMTP_USER and SMTP_KEY say where and as whom; SMTP_CA is whom to trust.

const fs = require('node:fs');
const nodemailer = require('nodemailer');

async function main() {
  const transport = (pass) =>
    nodemailer.createTransport({
      host: 'localhost',
      port: Number(process.env.SMTP_PORT),
      requireTLS: true,
      auth: { user: process.env.SMTP_USER, pass },
      tls: { ca: fs.readFileSync(process.env.SMTP_CA) },
      pool: true,
    });
  const mails = transport(process.env.SMTP_KEY);
  const mail = (to, changes = {}) => ({
    from: 'Clínica <mail@clinic.example>', to, subject: 'Olá', text: 'oi\n.\n', html: '<p>oi</p>', ...changes,
  });
  const first = await mails.sendMail(
    mail('node-1@x.example', {
      cc: 'node-2@x.example',
      bcc: 'node-3@x.example',
      attachments: [{ filename: 'a.txt', content: 'x'.repeat(5000) }, { filename: 'b.png', content: 'png', cid: 'logo' }],
    }),
  );
  const many = await Promise.all([4, 5, 6, 7].map((n) => mails.sendMail(mail(`node-${n}@x.example`))));
  const large = await mails.sendMail(mail('node-8@x.example', { text: 'x'.repeat(2_200_000) })).catch((error) => error.responseCode);
  const stranger = await transport('wrong').sendMail(mail('node-9@x.example')).catch((error) => error.responseCode);
  mails.close();
  console.log(JSON.stringify({
    id: first.messageId, accepted: first.accepted, response: first.response, many: many.length, large, stranger,
  }));
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
