package conformance.legacy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.microsoft.azure.storage.StorageException;
import com.microsoft.azure.storage.table.CloudTable;
import com.microsoft.azure.storage.table.DynamicTableEntity;
import com.microsoft.azure.storage.table.EntityProperty;
import com.microsoft.azure.storage.table.TableBatchOperation;
import com.microsoft.azure.storage.table.TableOperation;
import com.microsoft.azure.storage.table.TablePayloadFormat;
import com.microsoft.azure.storage.table.TableQuery;
import com.microsoft.azure.storage.table.TableRequestOptions;
import com.microsoft.azure.storage.table.TableResult;
import conformance.Target;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Batches. The client includes the line break after a body in the body's length, and sends MERGE with a tunnelling
 * header.
 */
class BatchesTest {
    @RegisterExtension
    static final Storage STORAGE = new Storage();

    private final CloudTable table = STORAGE.table;
    private final String partition = Target.newPartition();

    private DynamicTableEntity entity(String row, int value) {
        DynamicTableEntity entity = new DynamicTableEntity(partition, row);
        entity.getProperties().put("V", new EntityProperty(value));
        return entity;
    }

    private DynamicTableEntity stored(String row) throws Exception {
        DynamicTableEntity entity = entity(row, 0);
        entity.getProperties().put("Old", new EntityProperty("Grüße"));
        table.execute(TableOperation.insert(entity));
        return entity;
    }

    private DynamicTableEntity change(DynamicTableEntity of) {
        DynamicTableEntity entity = entity(of.getRowKey(), 1);
        entity.setEtag(of.getEtag());
        return entity;
    }

    /** Returns the entities in the partition: row key, value and whether the other property exists. */
    private List<String> now() {
        List<String> found = new ArrayList<>();
        table.execute(TableQuery.from(DynamicTableEntity.class).where(Storage.inPartition(partition))).forEach(
            one -> found.add(one.getRowKey() + one.getProperties().get("V").getValueAsInteger()
                + (one.getProperties().containsKey("Old") ? "+" : "")));
        return found;
    }

    /** Asserts that the operation at `index` makes the batch fail and that nothing is applied. */
    private void assertFails(int index, int status, String code, TableBatchOperation batch) {
        List<String> before = now();
        StorageException failure = Storage.assertRefused(status, code, () -> table.execute(batch));
        String message = failure.getExtendedErrorInformation().getErrorMessage();
        assertTrue(message.startsWith(index + ":"), message);
        assertEquals(before, now());
    }

    @ParameterizedTest
    @EnumSource(TablePayloadFormat.class)
    void everyKindOfOperation(TablePayloadFormat format) throws Exception {
        TableRequestOptions options = new TableRequestOptions();
        options.setTablePayloadFormat(format);
        TableBatchOperation batch = new TableBatchOperation();
        batch.merge(change(stored("a")));
        batch.replace(change(stored("b")));
        stored("c");
        batch.insertOrMerge(entity("c", 1));
        stored("d");
        batch.insertOrReplace(entity("d", 1));
        batch.delete(stored("e"));
        batch.insert(entity("f", 1));
        batch.insert(entity("g", 1), true);
        batch.insertOrMerge(entity("h", 1));
        batch.insertOrReplace(entity("i", 1));
        List<TableResult> results = table.execute(batch, options, null);
        assertEquals(List.of(204, 204, 204, 204, 204, 204, 201, 204, 204),
            results.stream().map(TableResult::getHttpStatusCode).toList());
        assertEquals(List.of("a1+", "b1", "c1+", "d1", "f1", "g1", "h1", "i1"), now());
        DynamicTableEntity found = table.execute(TableOperation.retrieve(partition, "f", DynamicTableEntity.class)).getResultAsType();
        assertEquals(found.getEtag(), results.get(5).getEtag());
    }

    @ParameterizedTest
    @EnumSource(TablePayloadFormat.class)
    void aQueryAlone(TablePayloadFormat format) throws Exception {
        TableRequestOptions options = new TableRequestOptions();
        options.setTablePayloadFormat(format);
        DynamicTableEntity stored = stored("a");
        TableBatchOperation batch = new TableBatchOperation();
        batch.retrieve(partition, "a", DynamicTableEntity.class);
        DynamicTableEntity found = table.execute(batch, options, null).get(0).getResultAsType();
        assertEquals("Grüße", found.getProperties().get("Old").getValueAsString());
        assertEquals(stored.getEtag(), found.getEtag());

        TableBatchOperation missing = new TableBatchOperation();
        missing.retrieve(partition, "missing", DynamicTableEntity.class);
        TableResult nothing = table.execute(missing, options, null).get(0);
        assertEquals(404, nothing.getHttpStatusCode());
        assertNull(nothing.getResult());
    }

    @Test
    void aHundredOperations() throws Exception {
        TableBatchOperation inserts = new TableBatchOperation();
        IntStream.range(0, 100).forEach(i -> inserts.insert(entity(String.format("%02d", i), i)));
        assertEquals(100, table.execute(inserts).size());
        assertEquals(100, now().size());
        inserts.insert(entity("more", 0));
        assertFails(99, 400, "InvalidInput", inserts);
    }

    @Test
    void anEntityThatExists() throws Exception {
        stored("b");
        TableBatchOperation batch = new TableBatchOperation();
        List.of("a", "b", "c").forEach(row -> batch.insert(entity(row, 1)));
        assertFails(1, 409, "EntityAlreadyExists", batch);
    }

    @Test
    void anEntityThatDoesNotExist() throws Exception {
        TableBatchOperation batch = new TableBatchOperation();
        batch.insert(entity("a", 1));
        DynamicTableEntity missing = entity("missing", 1);
        missing.setEtag("*");
        batch.replace(missing);
        assertFails(1, 404, "ResourceNotFound", batch);
    }

    @Test
    void aConditionThatDoesNotHold() throws Exception {
        DynamicTableEntity stale = stored("a");
        DynamicTableEntity fresh = change(stale);
        table.execute(TableOperation.replace(fresh));
        TableBatchOperation batch = new TableBatchOperation();
        batch.insert(entity("b", 1));
        batch.merge(change(stale));
        assertFails(1, 412, "UpdateConditionNotSatisfied", batch);
    }

    @Test
    void aBodyThatIsTooLarge() {
        TableBatchOperation batch = new TableBatchOperation();
        for (int i = 0; i < 5; i++) {
            DynamicTableEntity large = entity("large" + i, 0);
            for (int j = 0; j < 14; j++) {
                large.getProperties().put("P" + j, new EntityProperty(new byte[64 * 1024]));
            }
            batch.insert(large);
        }
        StorageException refusal = Storage.assertRefused(413, "RequestBodyTooLarge", () -> table.execute(batch));
        // Here, the client shows the reason phrase, in which the service repeats its message.
        assertEquals("The request body is too large and exceeds the maximum permissible limit.", refusal.getMessage());
        assertEquals(List.of(), now());
    }
}
