package conformance.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.credential.AzureNamedKeyCredential;
import com.azure.core.exception.HttpResponseException;
import com.azure.core.http.policy.FixedDelayOptions;
import com.azure.core.http.policy.RetryOptions;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.TableClientBuilder;
import com.azure.data.tables.TableServiceClientBuilder;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableEntity;
import conformance.Target;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.function.Executable;

/** The clients of azure-data-tables, and one table for all cases of a class. */
final class Tables implements BeforeAllCallback, AfterAllCallback {
    final String name = Target.newTableName();
    final TableClient client = tableBuilder(name).credential(credential()).buildClient();

    @Override
    public void beforeAll(ExtensionContext context) {
        client.createTable();
    }

    @Override
    public void afterAll(ExtensionContext context) {
        client.deleteTable();
    }

    static AzureNamedKeyCredential credential() {
        return new AzureNamedKeyCredential(Target.ACCOUNT, Target.KEY);
    }

    /** Disables retries, because cases check the first response. */
    private static RetryOptions once() {
        return new RetryOptions(new FixedDelayOptions(0, Duration.ofMillis(1)));
    }

    /** Returns a builder without a credential. */
    static TableServiceClientBuilder serviceBuilder() {
        return new TableServiceClientBuilder().endpoint(Target.ENDPOINT).retryOptions(once());
    }

    /** Returns a builder without a credential. */
    static TableClientBuilder tableBuilder(String table) {
        return new TableClientBuilder().endpoint(Target.ENDPOINT).tableName(table).retryOptions(once());
    }

    /** Returns the row keys that a query on the class's table finds, in the order of the response. */
    List<String> rowKeys(String filter) {
        return client.listEntities(new ListEntitiesOptions().setFilter(filter), null, null).stream()
            .map(TableEntity::getRowKey).toList();
    }

    TableEntity get(String partition, String row) {
        return client.getEntity(partition, row);
    }

    /** Returns the properties of an entity without its keys, its ETag, its Timestamp and the type annotations. */
    static Map<String, Object> properties(TableEntity entity) {
        Map<String, Object> own = new TreeMap<>(entity.getProperties());
        own.keySet().removeIf(name -> name.contains("odata.") || List.of("PartitionKey", "RowKey", "Timestamp").contains(name));
        return own;
    }

    /**
 * Asserts that an operation is refused with the given status and code. The client reads the code only for some
 * operations, but every exception quotes the body, in JSON or XML.
     */
    static HttpResponseException assertRefused(int status, String code, Executable operation) {
        HttpResponseException refusal = assertThrows(HttpResponseException.class, operation);
        assertEquals(status, refusal.getResponse().getStatusCode(), refusal.getMessage());
        assertTrue(refusal.getMessage().contains('"' + code + '"') || refusal.getMessage().contains('>' + code + '<'),
            refusal.getMessage());
        return refusal;
    }
}
