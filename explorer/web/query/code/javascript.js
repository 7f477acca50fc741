// The query in JavaScript.

import { connectionComment, isPlain, pageSize, VARIABLE } from "./connection.js";
import { javascriptString } from "./strings.js";

/** @import { Task } from "./connection.js" */

/** @param {Task} task */
export function javascript(task) {
  const {
    table,
    query: { filter, select, top },
  } = task;
  const size = pageSize(task);
  const options = [
    ...(filter ? [`  filter: ${javascriptString(filter)},\n`] : []),
    ...(select ? [`  select: [${select.map(javascriptString).join(", ")}],\n`] : []),
  ].join("");
  const list = `client.listEntities(${options ? "{ queryOptions }" : ""})`;
  const plain = isPlain(task) ? ", {\n  allowInsecureConnection: true, // plain HTTP\n}" : "";
  const read =
    top === null
      ? `for await (const entity of ${list}) {
  console.log(entity);
}`
      : `let left = ${top};
for await (const page of ${list}.byPage({ maxPageSize: ${size} })) {
  page.slice(0, left).forEach((entity) => console.log(entity));
  left -= page.length;
  if (left <= 0) break;
}`;
  return `// npm install @azure/data-tables
import { TableClient } from "@azure/data-tables";

${connectionComment(task, "//")}
const connectionString = process.env[${javascriptString(VARIABLE)}];
const client = TableClient.fromConnectionString(connectionString, ${javascriptString(table)}${plain});
${options ? `const queryOptions = {\n${options}};\n` : ""}${read}
`;
}
