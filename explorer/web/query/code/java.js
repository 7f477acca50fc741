// The query in Java.

import { connectionComment, pageSize, VARIABLE } from "./connection.js";
import { javaString } from "./strings.js";

/** @import { Task } from "./connection.js" */

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
