// The query in Python.

import { connectionComment, pageSize, VARIABLE } from "./connection.js";
import { pythonString } from "./strings.js";

/** @import { Task } from "./connection.js" */

/** @param {Task} task */
export function python(task) {
  const {
    table,
    query: { filter, select, top },
  } = task;
  const size = pageSize(task);
  const options = [
    ...(filter ? [pythonString(filter)] : []),
    ...(select ? [`select=[${select.map(pythonString).join(", ")}]`] : []),
    ...(size === null ? [] : [`results_per_page=${size}`]),
  ];
  const list = options.map((option) => `\n        ${option},`).join("");
  const call = `client.${filter ? "query_entities" : "list_entities"}(${list && `${list}\n    `})`;
  return `# pip install azure-data-tables
${top === null ? "" : "from itertools import islice\n"}import os

from azure.data.tables import TableClient

${connectionComment(task, "#")}
with TableClient.from_connection_string(os.environ[${pythonString(VARIABLE)}], table_name=${pythonString(table)}) as client:
    entities = ${call}
    for entity in ${top === null ? "entities" : `islice(entities, ${top})`}:
        print(entity)
`;
}
