// Starts the explorer.

import access from "./styles/access.css" with { type: "css" };
import base from "./styles/base.css" with { type: "css" };
import entities from "./styles/entities.css" with { type: "css" };
import moving from "./styles/moving.css" with { type: "css" };
import query from "./styles/query.css" with { type: "css" };
import { App } from "./app.js";
import { startNotices } from "./ui/notify.js";
import { startTheme } from "./ui/theme.js";

// If the page linked to the sheets, each would take a request, and the page would stay blank for another round trip.
document.adoptedStyleSheets = [base, entities, query, moving, access];
startTheme();
startNotices();
document.body.prepend(new App());
