// The query in Rust, with the client library of Rowhouse.

import { connectionComment, VARIABLE } from "./connection.js";
import { rustString } from "./strings.js";

/** @import { Task } from "./connection.js" */

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
