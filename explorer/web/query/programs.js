// Writes a query as a program in Python, JavaScript, C#, Java or Rust, for curl, or for the command line. The only
// secret that a program can contain is a signature created for it; otherwise it reads its credential from the
// environment. This module must not depend on the page.

import { PAGE_ENTITIES_MAX } from "../core/batch.js";

/** @import { Query } from "./query.js" */

/**
 * The task of a program. `size` is the page size if the query has a limit. `sas` is a signature that was created for
 * the program.
 * @typedef {Query & {endpoint: string, account: string, table: string, size: number | null, sas: string | null}} Task
 */

const VARIABLE = "AZURE_STORAGE_CONNECTION_STRING";

/** Returns a comment that describes the content of the variable. @param {Task} task @param {string} mark */
function connectionComment({ endpoint, account }, mark) {
  const protocol = endpoint.startsWith("https:") ? "https" : "http";
  return [
    `${mark} ${VARIABLE} holds`,
    `${mark}   DefaultEndpointsProtocol=${protocol};AccountName=${account};AccountKey=...;TableEndpoint=${endpoint};`,
    `${mark} or TableEndpoint=${endpoint};SharedAccessSignature=...`,
  ].join("\n");
}

/** @param {Task} task */
function python(task) {
  const { table, filter, select, top, size } = task;
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
function javascript(task) {
  const { table, filter, select, top, size } = task;
  const options = [
    ...(filter ? [`  filter: ${javascriptString(filter)},\n`] : []),
    ...(select ? [`  select: [${select.map(javascriptString).join(", ")}],\n`] : []),
  ].join("");
  const list = `client.listEntities(${options ? "{ queryOptions }" : ""})`;
  const plain = task.endpoint.startsWith("http:") ? ", {\n  allowInsecureConnection: true, // plain HTTP\n}" : "";
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
${'import { TableClient } from "@azure/data-tables";'}

${connectionComment(task, "//")}
const connectionString = process.env[${javascriptString(VARIABLE)}];
const client = TableClient.fromConnectionString(connectionString, ${javascriptString(table)}${plain});
${options ? `const queryOptions = {\n${options}};\n` : ""}${read}
`;
}

/** @param {Task} task */
function csharp(task) {
  const { table, filter, select, top, size } = task;
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
function java(task) {
  const { table, filter, select, top, size } = task;
  const options = [
    ...(filter ? [`.setFilter(${javaString(filter)})`] : []),
    ...(select ? [`.setSelect(List.of(${select.map(javaString).join(", ")}))`] : []),
    ...(size === null ? [] : [`.setTop(${size})`]),
  ]
    .map((option) => `\n            ${option}`)
    .join("");
  const indented = connectionComment(task, "        //");
  return `// com.azure:azure-data-tables
import com.azure.data.tables.TableClient;
import com.azure.data.tables.TableClientBuilder;
import com.azure.data.tables.models.ListEntitiesOptions;
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
function rust(task) {
  const { table, filter, select, top } = task;
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

/** @param {Task} task */
function curl({ endpoint, table, filter, select, size, sas }) {
  const options = [
    ...(filter ? [data("$filter", filter)] : []),
    ...(select ? [data("$select", select.join(","))] : []),
    ...(size === null ? [] : [data("$top", String(size))]),
  ];
  const lines = [
    // A signature is ASCII without quotes. The double quotes prevent the shell from splitting the variable.
    `curl --fail-with-body --silent --show-error --get ${shellString(`${endpoint}/${urlText(table)}()`)}"?$TABLE_SAS"`,
    `--header ${shellString("Accept: application/json;odata=minimalmetadata")}`,
    `--header ${shellString("x-ms-version: 2019-02-02")}`,
    ...options,
  ];
  const signature =
    sas === null
      ? "# TABLE_SAS holds a shared access signature, without a question mark.\n"
      : `# The signature allows queries of this table until it expires. Treat it as a secret.\nTABLE_SAS=${shellString(sas)}\n`;
  const page = "# Reads one page. There are more if the response has x-ms-continuation headers (--include shows them).\n";
  return `${signature}${page}${lines.join(" \\\n  ")}\n`;
}

/**
 * Returns a query parameter. curl encodes it, unless it contains invisible characters.
 * @param {string} name
 * @param {string} value
 */
function data(name, value) {
  return isVisible(value)
    ? `--data-urlencode ${shellString(`${name}=${value}`)}`
    : `--data ${shellString(`${urlText(name)}=${urlText(value)}`)}`;
}

/** @param {Task} task */
function commandLine({ endpoint, table, filter, select, top }) {
  const options = [
    `--endpoint=${shellString(endpoint)}`,
    ...(filter ? [`--filter=${shellArgument(filter)}`] : []),
    ...(select ? [`--select=${shellArgument(select.join(","))}`] : []),
    ...(top === null ? [] : [`--top=${top}`]),
    `-- ${shellArgument(table)}`,
  ];
  return `# ROWHOUSE_KEY holds the account key, or a shared access signature. The development account needs neither.
rowhouse entity query \\\n  ${options.join(" \\\n  ")}\n`;
}

/**
 * Returns an argument for a shell. If it contains invisible characters, printf writes it from escape sequences.
 * @param {string} text
 */
function shellArgument(text) {
  if (isVisible(text)) return shellString(text);
  const escaped = [...new TextEncoder().encode(text)].map((byte) => {
    const character = String.fromCharCode(byte);
    if (character === "%") return "%%";
    return /[ -~]/.test(character) && !/['\\]/.test(character) ? character : `\\${byte.toString(8).padStart(3, "0")}`;
  });
  return `"$(printf '${escaped.join("")}')"`;
}

/** @type {{id: string, label: string, write: (task: Task) => string}[]} */
export const LANGUAGES = [
  { id: "python", label: "Python", write: python },
  { id: "javascript", label: "JavaScript", write: javascript },
  { id: "csharp", label: "C#", write: csharp },
  { id: "java", label: "Java", write: java },
  { id: "rust", label: "Rust", write: rust },
  { id: "curl", label: "curl", write: curl },
  { id: "command-line", label: "Command line", write: commandLine },
];

/**
 * Returns the task of a program. The keys are always selected, as in the explorer, so that entities can be told apart.
 * @param {{endpoint: string, account: string}} service
 * @param {string} table
 * @param {Query} query
 * @param {string | null} [sas]
 * @returns {Task}
 */
export function taskOf({ endpoint, account }, table, { filter, select, top }, sas = null) {
  const names = select && [...new Set(["PartitionKey", "RowKey", ...select])];
  const size = top && Math.min(top, PAGE_ENTITIES_MAX);
  return { endpoint, account, table, filter: filter.trim(), select: names, top, size, sas };
}

// ---- strings as literals ----
//
// A string cannot end its literal or hide part of it: quotes and backslashes are escaped, and so are all characters
// that are invisible or change the order in which text is displayed.

/** Letters, marks, digits, punctuation, symbols and the space, but no controls, other whitespace or lone surrogates. */
const VISIBLE = /[\p{L}\p{M}\p{N}\p{P}\p{S} ]/u;
/** @type {Record<string, string>} */
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"' };

/**
 * @param {string} text
 * @param {(code: number) => string} escape  writes a character as an escape sequence
 */
function quote(text, escape) {
  const parts = [...text].map(
    (character) => SHORT[character] ?? (VISIBLE.test(character) ? character : escape(character.codePointAt(0) ?? 0)));
  return `"${parts.join("")}"`;
}

/** @param {number} code @param {number} digits */
const hex = (code, digits) => code.toString(16).padStart(digits, "0");

/** Writes `\u0007`, or two such escapes for a character above U+FFFF. @param {number} code */
const units = (code) =>
  [...Array(String.fromCodePoint(code).length).keys()]
    .map((at) => `\\u${hex(String.fromCodePoint(code).charCodeAt(at), 4)}`)
    .join("");

/** @param {string} text */
export const javascriptString = (text) => quote(text, units);

/** @param {string} text */
export const csharpString = (text) => quote(text, units);

/** @param {string} text */
export const pythonString = (text) => quote(text, (code) => (code > 0xffff ? `\\U${hex(code, 8)}` : `\\u${hex(code, 4)}`));

/**
 * The Java compiler reads `\u000a` as a line break, so control characters are written in octal.
 * @param {string} text
 */
export const javaString = (text) =>
  quote(text, (code) => (code < 0x100 ? `\\${code.toString(8).padStart(3, "0")}` : units(code)));

/** A Rust string cannot contain lone surrogates. @param {string} text */
export const rustString = (text) => quote(text.toWellFormed(), (code) => `\\u{${hex(code, 1)}}`);

/** Quotes an argument for a POSIX shell. @param {string} text */
export function shellString(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * Returns true if every character is visible. Quoted shell arguments have no escapes for other characters.
 * @param {string} text
 */
export function isVisible(text) {
  return [...text].every((character) => VISIBLE.test(character));
}

/** Encodes a text for a URL, including every character that has a meaning in a URL or a shell. @param {string} text */
export function urlText(text) {
  return encodeURIComponent(text.toWellFormed()).replace(
    /[!'()*~]/g,
    (character) => `%${hex(character.charCodeAt(0), 2).toUpperCase()}`);
}
