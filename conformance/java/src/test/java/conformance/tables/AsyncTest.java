package conformance.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.azure.data.tables.TableAsyncClient;
import com.azure.data.tables.TableServiceAsyncClient;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableEntityUpdateMode;
import com.azure.data.tables.models.TableServiceException;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import com.azure.data.tables.models.TableTransactionFailedException;
import conformance.Target;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import reactor.core.publisher.Flux;

/** The asynchronous client, which implements most operations separately. */
class AsyncTest {
    @RegisterExtension
    static final Tables TABLE = new Tables();

    private final TableAsyncClient client = Tables.tableBuilder(TABLE.name).credential(Tables.credential()).buildAsyncClient();
    private final String partition = Target.newPartition();

    private TableEntity entity(String row) {
        return new TableEntity(partition, row).addProperty("A", 1);
    }

    private ListEntitiesOptions inPartition() {
        return new ListEntitiesOptions().setFilter("PartitionKey eq '" + partition + "'");
    }

    @Test
    void lifeOfATable() {
        TableServiceAsyncClient service = Tables.serviceBuilder().credential(Tables.credential()).buildAsyncClient();
        String name = Target.newTableName();
        TableAsyncClient table = service.createTableIfNotExists(name).block();
        try {
            assertEquals(name, table.getTableName());
            assertEquals(409, service.createTableIfNotExistsWithResponse(name).block().getStatusCode());
        } finally {
            assertEquals(204, table.deleteTableWithResponse().block().getStatusCode());
        }
    }

    @Test
    void lifeOfAnEntity() {
        client.createEntity(entity("r"))
            .then(client.updateEntity(new TableEntity(partition, "r").addProperty("B", 2), TableEntityUpdateMode.MERGE)).block();
        TableEntity found = client.getEntity(partition, "r").block();
        assertEquals(Map.of("A", 1, "B", 2), Tables.properties(found));
        client.upsertEntity(found.addProperty("B", 3)).block();
        var refusal = assertThrows(TableServiceException.class, () -> client.deleteEntityWithResponse(found, true).block());
        assertEquals(412, refusal.getResponse().getStatusCode());
        assertEquals(204, client.deleteEntityWithResponse(found, false).block().getStatusCode());
    }

    @Test
    void manyAtATimeAndTheirPages() {
        Flux.range(0, 50).flatMap(i -> client.createEntity(entity(String.format("%02d", i))), 8).blockLast();
        var pages = client.listEntities(inPartition().setTop(20)).byPage().collectList().block();
        assertEquals(List.of(20, 20, 10), pages.stream().map(page -> page.getValue().size()).toList());
        String token = pages.get(0).getContinuationToken();
        List<TableEntity> rest = client.listEntities(inPartition().setTop(20)).byPage(token)
            .flatMapIterable(page -> page.getValue()).collectList().block();
        assertEquals(IntStream.range(20, 50).mapToObj(i -> String.format("%02d", i)).toList(),
            rest.stream().map(TableEntity::getRowKey).toList());
    }

    @Test
    void transactions() {
        List<TableTransactionAction> creations = List.of(
            new TableTransactionAction(TableTransactionActionType.CREATE, entity("a")),
            new TableTransactionAction(TableTransactionActionType.CREATE, entity("b")));
        assertEquals(2, client.submitTransaction(creations).block().getTransactionActionResponses().size());
        List<TableTransactionAction> failing = List.of(
            new TableTransactionAction(TableTransactionActionType.CREATE, entity("c")), creations.get(1));
        var failure = assertThrows(TableTransactionFailedException.class, () -> client.submitTransaction(failing).block());
        assertEquals(1, failure.getFailedTransactionActionIndex());
        assertEquals(List.of("a", "b"), client.listEntities(inPartition()).map(TableEntity::getRowKey).collectList().block());
    }
}
