// The query in C#.

import { connectionComment, pageSize, VARIABLE } from "./connection.js";
import { csharpString } from "./strings.js";

/** @import { Task } from "./connection.js" */

/** @param {Task} task */
export function csharp(task) {
  const {
    table,
    query: { filter, select, top },
  } = task;
  const size = pageSize(task);
  const options = [
    ...(filter ? [`filter: ${csharpString(filter)}`] : []),
    ...(size === null ? [] : [`maxPerPage: ${size}`]),
    ...(select ? [`select: new[] { ${select.map(csharpString).join(", ")} }`] : []),
  ];
  return `// dotnet add package Azure.Data.Tables
using System;
using System.Linq;
using Azure;
using Azure.Data.Tables;

${connectionComment(task, "//")}
var connectionString = Environment.GetEnvironmentVariable(${csharpString(VARIABLE)});
var client = new TableClient(connectionString, ${csharpString(table)});
Pageable<TableEntity> entities = client.Query<TableEntity>(${options.length ? `\n    ${options.join(",\n    ")}` : ""});
foreach (TableEntity entity in ${top === null ? "entities" : `entities.Take(${top})`})
{
    Console.WriteLine(string.Join(", ", entity.Select(property => $"{property.Key}={property.Value}")));
}
`;
}
