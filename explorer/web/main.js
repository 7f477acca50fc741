// Starts the explorer.

import { App } from "./app.js";
import { startNotices } from "./ui/notify.js";
import { startTheme } from "./ui/theme.js";

startTheme();
startNotices();
document.body.prepend(new App());
