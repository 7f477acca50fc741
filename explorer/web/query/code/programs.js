// The query as a program in Python, JavaScript, C#, Java and Rust. Secrets are never part of a program: it reads them from the
// environment. This module must not know the page.

import { csharpString, javaString, javascriptString, pythonString, rustString } from "./strings.js";

/** @import { Query } from "../query.js" */

/**
 * What a program is written for. `select` has the keys, too, as every selection of the explorer. `sas` is a signature that
 * was made for this purpose.
 * @typedef {{endpoint: string, account: string, table: string, query: Query, sas: string | null}} Task
 */

export const VARIABLE = "AZURE_STORAGE_CONNECTION_STRING";
export const PAGE_ENTITIES_MAX = 1000;

/** A comment that says what the variable holds. @param {Task} task @param {string} mark */
export function connectionComment({ endpoint, account }, mark) {
  const protocol = endpoint.startsWith("https:") ? "https" : "http";
  return [
    `${mark} ${VARIABLE} holds`,
    `${mark}   DefaultEndpointsProtocol=${protocol};AccountName=${account};AccountKey=...;TableEndpoint=${endpoint};`,
    `${mark} or TableEndpoint=${endpoint};SharedAccessSignature=...`,
  ].join("\n");
}

/** Whether connections are not encrypted, which some libraries refuse unless they are told. @param {Task} task */
export function isPlain({ endpoint }) {
  return endpoint.startsWith("http:");
}

/** The entities of a page, if not all are wanted. @param {Task} task */
export function pageSize({ query: { top } }) {
  return top === null ? null : Math.min(top, PAGE_ENTITIES_MAX);
}

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

${connectionComment(task, "//")}
const connectionString = process.env[${javascriptString(VARIABLE)}];
const client = TableClient.fromConnectionString(connectionString, ${javascriptString(table)}${plain});
${options ? `const queryOptions = {\n${options}};\n` : ""}${read}
`;
}

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

/** @param {Task} task */
export function java(task) {
  const {
    table,
    query: { filter, select, top },
  } = task;
  const size = pageSize(task);
  const options = [
    ...(filter ? [`.setFilter(${javaString(filter)})`] : []),
    ...(select ? [`.setSelect(List.of(${select.map(javaString).join(", ")}))`] : []),
    ...(size === null ? [] : [`.setTop(${size})`]),
  ]
    .map((option) => `\n            ${option}`)
    .join("");
  const indented = connectionComment(task, "        //");
  return `// com.azure:azure-data-tables
${select ? "import java.util.List;\n" : ""}
public class Query {
    public static void main(String[] arguments) {
${indented}
        TableClient client = new TableClientBuilder()
            .connectionString(System.getenv(${javaString(VARIABLE)}))
            .tableName(${javaString(table)})
            .buildClient();
        ListEntitiesOptions options = new ListEntitiesOptions()${options};
        client.listEntities(options, null, null).stream()${top === null ? "" : `.limit(${top})`}
            .forEach(entity -> System.out.println(entity.getProperties()));
    }
}
`;
}

/** @param {Task} task */
export function rust(task) {
  const {
    table,
    query: { filter, select, top },
  } = task;
  const steps = [
    ".query::<PropertyBag>()",
    ...(filter ? [`.filter_text(${rustString(filter)})`] : []),
    ...(select ? [`.resolve(&[${select.map(rustString).join(", ")}], Ok)`] : []),
    ...(top === null ? [] : [`.take(${top})`]),
    ".stream();",
  ];
  return `// cargo add rowhouse-client
// cargo add tokio --features full
use rowhouse_client::{PropertyBag, TableService};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
${connectionComment(task, "    //")}
    let service = TableService::from_connection_string(&std::env::var(${rustString(VARIABLE)})?)?;
    let mut entities = service
        .table(${rustString(table)})
        ${steps.join("\n        ")}
    while let Some(entity) = entities.next().await {
        println!("{:?}", entity?);
    }
    Ok(())
}
`;
}
