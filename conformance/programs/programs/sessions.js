// An Express application that stores its sessions in a table: express-session with connect-azuretables.

import connectAzureTables from "connect-azuretables";
import express from "express";
import session from "express-session";
import { listen } from "../support/listen.js";

const store = connectAzureTables(session).create({
  table: process.env.TABLE,
  // Remove expired sessions every second; the default is every minute.
  overrideCron: "* * * * * *",
  logger: console.log,
  errorLogger: console.error,
});
const maxAge = Number(process.env.COOKIE_MAX_AGE_MS);
const app = express();
app.use(session({ store, secret: "a secret for the test", resave: false, saveUninitialized: false, cookie: { maxAge } }));

app.get("/visits", (request, response) => response.json({ visits: request.session.visits ?? null }));
app.post("/visits", (request, response) => {
  request.session.visits = (request.session.visits ?? 0) + 1;
  request.session.note = "it's 漢 \u{1f600}";
  response.json({ visits: request.session.visits });
});
app.post("/new", (request, response) => request.session.regenerate(() => response.json({})));
app.post("/leave", (request, response) => request.session.destroy(() => response.json({})));
listen(app);
