// Starts the explorer.

import access from "./styles/access.css" with { type: "css" };
import base from "./styles/base.css" with { type: "css" };
import entities from "./styles/entities.css" with { type: "css" };
import moving from "./styles/moving.css" with { type: "css" };
import query from "./styles/query.css" with { type: "css" };
import { App } from "./app.js";
import { startNotices } from "./ui/notify.js";
import { startTheme } from "./ui/theme.js";

// As links, the sheets would hold up the first line of the page by a round trip, and each is a request.
document.adoptedStyleSheets = [base, entities, query, moving, access];
startTheme();
startNotices();
document.body.prepend(new App());
