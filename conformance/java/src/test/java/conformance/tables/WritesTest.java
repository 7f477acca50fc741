package conformance.tables;

import static com.azure.data.tables.models.TableEntityUpdateMode.MERGE;
import static com.azure.data.tables.models.TableEntityUpdateMode.REPLACE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.http.HttpHeaderName;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableEntityUpdateMode;
import conformance.Target;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Merge, replace and upsert; ETags and conditions. */
class WritesTest {
    @RegisterExtension
    static final Tables TABLE = new Tables();

    /** Inserts an entity with the properties A and B, and returns it as read. */
    private static TableEntity stored() {
        String partition = Target.newPartition();
        TABLE.client.createEntity(new TableEntity(partition, "r").addProperty("A", 1).addProperty("B", 2));
        return TABLE.get(partition, "r");
    }

    private static TableEntity change(TableEntity of) {
        return new TableEntity(of.getPartitionKey(), of.getRowKey()).addProperty("B", 3).addProperty("C", 4);
    }

    private static Map<String, Object> now(TableEntity entity) {
        return Tables.properties(TABLE.get(entity.getPartitionKey(), entity.getRowKey()));
    }

    @Test
    void mergeKeepsWhatItDoesNotName() {
        TableEntity entity = stored();
        TABLE.client.updateEntity(change(entity), MERGE);
        assertEquals(Map.of("A", 1, "B", 3, "C", 4), now(entity));
        TABLE.client.upsertEntity(new TableEntity(entity.getPartitionKey(), "r").addProperty("D", 5));
        assertEquals(Map.of("A", 1, "B", 3, "C", 4, "D", 5), now(entity));
    }

    @Test
    void replaceKeepsNothing() {
        TableEntity entity = stored();
        TABLE.client.updateEntity(change(entity), REPLACE);
        assertEquals(Map.of("B", 3, "C", 4), now(entity));
        TABLE.client.upsertEntityWithResponse(
            new TableEntity(entity.getPartitionKey(), "r").addProperty("D", 5), REPLACE, null, null);
        assertEquals(Map.of("D", 5), now(entity));
    }

    @Test
    void upsertCreates() {
        for (TableEntityUpdateMode mode : TableEntityUpdateMode.values()) {
            TableEntity entity = new TableEntity(Target.newPartition(), "r").addProperty("A", 1);
            assertEquals(204, TABLE.client.upsertEntityWithResponse(entity, mode, null, null).getStatusCode());
            assertEquals(Map.of("A", 1), now(entity));
        }
    }

    @Test
    void everyWriteReturnsANewETag() {
        TableEntity entity = stored();
        assertTrue(entity.getETag().startsWith("W/\"datetime'"), entity.getETag());
        var updated = TABLE.client.updateEntityWithResponse(change(entity), MERGE, false, null, null);
        TableEntity now = TABLE.get(entity.getPartitionKey(), "r");
        assertNotEquals(entity.getETag(), now.getETag());
        assertTrue(now.getTimestamp().isAfter(entity.getTimestamp()));
        // The client cuts off the last quote of the header.
        assertTrue(now.getETag().startsWith(updated.getHeaders().getValue(HttpHeaderName.ETAG)));
    }

    @Test
    void aConditionThatHolds() {
        TableEntity entity = stored();
        entity.addProperty("B", 7);
        assertEquals(204, TABLE.client.updateEntityWithResponse(entity, REPLACE, true, null, null).getStatusCode());
        assertEquals(Map.of("A", 1, "B", 7), now(entity));
        TableEntity again = TABLE.get(entity.getPartitionKey(), "r");
        assertEquals(204, TABLE.client.deleteEntityWithResponse(again, true, null, null).getStatusCode());
        Tables.assertRefused(404, "ResourceNotFound", () -> TABLE.get(entity.getPartitionKey(), "r"));
    }

    @Test
    void aConditionThatDoesNotHold() {
        TableEntity stale = stored();
        TABLE.client.updateEntity(change(stale), MERGE);
        String code = "UpdateConditionNotSatisfied";
        Tables.assertRefused(412, code, () -> TABLE.client.updateEntityWithResponse(stale, MERGE, true, null, null));
        Tables.assertRefused(412, code, () -> TABLE.client.updateEntityWithResponse(stale, REPLACE, true, null, null));
        Tables.assertRefused(412, code, () -> TABLE.client.deleteEntityWithResponse(stale, true, null, null));
        assertEquals(Map.of("A", 1, "B", 3, "C", 4), now(stale));
    }

    @Test
    void withoutAConditionAStaleEntityIsWritten() {
        TableEntity stale = stored();
        TABLE.client.updateEntity(change(stale), MERGE);
        TABLE.client.updateEntityWithResponse(stale, REPLACE, false, null, null);
        assertEquals(Map.of("A", 1, "B", 2), now(stale));
        assertEquals(204, TABLE.client.deleteEntityWithResponse(stale, false, null, null).getStatusCode());
    }

    @Test
    void anEntityThatDoesNotExist() {
        TableEntity entity = new TableEntity(Target.newPartition(), "r");
        Tables.assertRefused(404, "ResourceNotFound", () -> TABLE.client.updateEntity(entity, MERGE));
        Tables.assertRefused(404, "ResourceNotFound", () -> TABLE.client.updateEntity(entity, REPLACE));
        // The client treats 404 as success.
        assertEquals(404, TABLE.client.deleteEntityWithResponse(entity, false, null, null).getStatusCode());
    }
}
