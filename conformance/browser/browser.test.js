// All cases run sequentially in one process, because they share a browser and set the CORS rules of the account.

import { after, before } from "node:test";
import { target } from "./support/target.js";
import "./cases/rules.js";
import "./cases/entities.js";
import "./cases/protection.js";

let rules;
before(async () => {
  rules = (await target.service.getProperties()).cors ?? [];
});
after(() => target.setRules(...rules));
