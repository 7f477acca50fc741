package conformance.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.models.ListTablesOptions;
import com.azure.data.tables.models.TableItem;
import conformance.Target;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Tables: creation, deletion, lists. */
class TablesTest {
    private final TableServiceClient service = Tables.serviceBuilder().credential(Tables.credential()).buildClient();

    private List<String> names(String filter) {
        return service.listTables(new ListTablesOptions().setFilter(filter), null, null).stream().map(TableItem::getName).toList();
    }

    @Test
    void lifeOfATable() {
        String name = Target.newTableName();
        String filter = "TableName eq '" + name + "'";
        assertEquals(List.of(), names(filter));
        assertEquals(204, service.createTableWithResponse(name, null, null).getStatusCode());
        try {
            assertEquals(List.of(name), names(filter));
        } finally {
            assertEquals(204, service.deleteTableWithResponse(name, null, null).getStatusCode());
        }
        assertEquals(List.of(), names(filter));
    }

    @Test
    void creationOfATableThatExists() {
        String name = Target.newTableName();
        assertEquals(204, service.createTableIfNotExistsWithResponse(name, null, null).getStatusCode());
        try {
            assertEquals(409, service.createTableIfNotExistsWithResponse(name, null, null).getStatusCode());
            Tables.assertRefused(409, "TableAlreadyExists", () -> service.createTable(name));
            Tables.assertRefused(409, "TableAlreadyExists", () -> service.createTable(name.toUpperCase()));
        } finally {
            service.deleteTable(name);
        }
    }

    @Test
    void deletionOfATableThatDoesNotExist() {
        // The client treats 404 as success.
        assertEquals(404, service.deleteTableWithResponse(Target.newTableName(), null, null).getStatusCode());
    }

    @Test
    void namesThatAreNotAllowed() {
        Tables.assertRefused(400, "OutOfRangeInput", () -> service.createTable("ab"));
        Tables.assertRefused(400, "OutOfRangeInput", () -> service.createTable("a".repeat(64)));
        Tables.assertRefused(400, "InvalidResourceName", () -> service.createTable("with-hyphen"));
    }

    @Test
    void pagesOfTables() {
        String prefix = Target.newTableName();
        List<String> names = IntStream.range(0, 5).mapToObj(i -> prefix + i).toList();
        names.forEach(service::createTable);
        try {
            String filter = "TableName ge '" + prefix + "' and TableName lt '" + prefix + "9'";
            var pages = service.listTables(new ListTablesOptions().setFilter(filter).setTop(2), null, null).streamByPage().toList();
            assertEquals(List.of(2, 2, 1), pages.stream().map(page -> page.getValue().size()).toList());
            assertEquals(names, pages.stream().flatMap(page -> page.getValue().stream()).map(TableItem::getName).toList());
            assertTrue(names(null).containsAll(names));
            assertFalse(names("TableName eq '" + prefix + "0'").contains(prefix + "1"));
        } finally {
            names.forEach(service::deleteTable);
        }
    }
}
