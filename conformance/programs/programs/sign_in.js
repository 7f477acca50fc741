// A site whose visitors sign in by email: Auth.js with its adapter for tables. It prints one line for each email.

import { createServer } from "node:http";
import { Readable } from "node:stream";
import { Auth } from "@auth/core";
import { TableStorageAdapter } from "@auth/azure-tables-adapter";
import { listen } from "../support/listen.js";
import { tableClient } from "../support/target.js";

const email = {
  id: "email",
  type: "email",
  name: "Email",
  from: "site@example.com",
  maxAge: Number(process.env.TOKEN_MAX_AGE_S),
  sendVerificationRequest: ({ identifier, url }) => console.log(`mail ${identifier} ${url}`),
};
const config = {
  adapter: TableStorageAdapter(tableClient(process.env.TABLE)),
  providers: [email],
  secret: "a secret for the test",
  trustHost: true,
  basePath: "/auth",
  // Every use of a session extends it.
  session: { strategy: "database", updateAge: 0 },
};

listen(
  createServer(async (incoming, outgoing) => {
    const hasBody = incoming.method === "POST";
    const request = new Request(new URL(incoming.url, `http://${incoming.headers.host}`), {
      method: incoming.method,
      headers: new Headers(Object.entries(incoming.headers)),
      body: hasBody ? Readable.toWeb(incoming) : undefined,
      duplex: hasBody ? "half" : undefined,
    });
    const response = await Auth(request, config);
    outgoing.writeHead(response.status, [...response.headers].flat());
    outgoing.end(await response.text());
  }),
);
