package conformance.tables;

import static com.azure.data.tables.models.TableTransactionActionType.CREATE;
import static com.azure.data.tables.models.TableTransactionActionType.DELETE;
import static com.azure.data.tables.models.TableTransactionActionType.UPDATE_MERGE;
import static com.azure.data.tables.models.TableTransactionActionType.UPDATE_REPLACE;
import static com.azure.data.tables.models.TableTransactionActionType.UPSERT_MERGE;
import static com.azure.data.tables.models.TableTransactionActionType.UPSERT_REPLACE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.azure.data.tables.TableClient;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import com.azure.data.tables.models.TableTransactionFailedException;
import conformance.Target;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Entity group transactions: either all operations are executed, or none of them. */
class TransactionsTest {
    @RegisterExtension
    static final Tables TABLE = new Tables();

    private final String partition = Target.newPartition();

    private TableEntity entity(String row, int value) {
        return new TableEntity(partition, row).addProperty("V", value);
    }

    private TableTransactionAction action(TableTransactionActionType type, String row) {
        return new TableTransactionAction(type, entity(row, 1));
    }

    private List<String> rows() {
        return TABLE.rowKeys("PartitionKey eq '" + partition + "'");
    }

    private Map<String, Object> now(String row) {
        return Tables.properties(TABLE.get(partition, row));
    }

    /**
     * Asserts that the operation at `index` makes the transaction fail with the given code and that nothing is applied.
     */
    private void assertFails(int index, String code, List<TableTransactionAction> actions) {
        List<String> before = rows();
        TableTransactionFailedException failure =
            assertThrows(TableTransactionFailedException.class, () -> TABLE.client.submitTransaction(actions));
        assertEquals(code, failure.getValue().getErrorCode().toString());
        assertEquals(index, failure.getFailedTransactionActionIndex(), failure.getMessage());
        assertEquals(before, rows());
    }

    @Test
    void everyKindOfOperation() {
        List.of("a", "b", "c", "d", "e").forEach(row -> TABLE.client.createEntity(entity(row, 0).addProperty("Old", true)));
        TableEntity unchanged = TABLE.get(partition, "a");
        unchanged.addProperty("V", 1);
        var result = TABLE.client.submitTransaction(List.of(
            new TableTransactionAction(UPDATE_MERGE, unchanged, true), action(UPDATE_REPLACE, "b"), action(UPSERT_MERGE, "c"),
            action(UPSERT_REPLACE, "d"), action(DELETE, "e"), action(CREATE, "f"), action(UPSERT_MERGE, "g"),
            action(UPSERT_REPLACE, "h")));
        assertEquals(Collections.nCopies(8, 204),
            result.getTransactionActionResponses().stream().map(response -> response.getStatusCode()).toList());
        assertEquals(List.of("a", "b", "c", "d", "f", "g", "h"), rows());
        List.of("a", "c").forEach(row -> assertEquals(Map.of("V", 1, "Old", true), now(row)));
        List.of("b", "d", "f", "g", "h").forEach(row -> assertEquals(Map.of("V", 1), now(row)));
    }

    @Test
    void aHundredOperations() {
        List<String> rows = IntStream.range(0, 100).mapToObj(i -> String.format("%03d", i)).toList();
        TABLE.client.submitTransaction(rows.stream().map(row -> action(CREATE, row)).toList());
        assertEquals(rows, rows());
        TABLE.client.submitTransaction(rows.stream().map(row -> action(DELETE, row)).toList());
        assertEquals(List.of(), rows());
    }

    @Test
    void anOperationMoreThanAHundred() {
        assertFails(99, "InvalidInput", IntStream.range(0, 101).mapToObj(i -> action(CREATE, "" + i)).toList());
    }

    @Test
    void anEntityThatExists() {
        TABLE.client.createEntity(entity("b", 0));
        assertFails(1, "EntityAlreadyExists", List.of(action(CREATE, "a"), action(CREATE, "b"), action(CREATE, "c")));
        assertEquals(Map.of("V", 0), now("b"));
    }

    @Test
    void anEntityThatDoesNotExist() {
        assertFails(2, "ResourceNotFound",
            List.of(action(UPSERT_MERGE, "a"), action(CREATE, "b"), action(UPDATE_REPLACE, "missing")));
    }

    @Test
    void aConditionThatDoesNotHold() {
        TABLE.client.createEntity(entity("a", 0));
        TableEntity stale = TABLE.get(partition, "a");
        TABLE.client.updateEntity(entity("a", 2));
        assertFails(1, "UpdateConditionNotSatisfied",
            List.of(action(CREATE, "b"), new TableTransactionAction(DELETE, stale, true)));
        assertEquals(Map.of("V", 2), now("a"));
    }

    @Test
    void oneEntityTwice() {
        assertFails(1, "InvalidDuplicateRow", List.of(action(CREATE, "a"), action(UPSERT_MERGE, "a")));
    }

    @Test
    void twoPartitions() {
        TableEntity elsewhere = new TableEntity(Target.newPartition(), "a");
        assertFails(1, "CommandsInBatchActOnDifferentPartitions",
            List.of(action(CREATE, "a"), new TableTransactionAction(CREATE, elsewhere)));
    }

    @Test
    void aValueThatIsTooLarge() {
        TableEntity large = new TableEntity(partition, "b").addProperty("V", "x".repeat(32 * 1024 + 1));
        assertFails(1, "PropertyValueTooLarge", List.of(action(CREATE, "a"), new TableTransactionAction(CREATE, large)));
    }

    @Test
    void aTableThatDoesNotExist() {
        TableClient missing = Tables.tableBuilder(Target.newTableName()).credential(Tables.credential()).buildClient();
        var failure = assertThrows(TableTransactionFailedException.class,
            () -> missing.submitTransaction(List.of(action(CREATE, "a"))));
        assertEquals("TableNotFound", failure.getValue().getErrorCode().toString());
        assertEquals(0, failure.getFailedTransactionActionIndex());
    }
}
