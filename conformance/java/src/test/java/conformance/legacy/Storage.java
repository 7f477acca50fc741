package conformance.legacy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.microsoft.azure.storage.RetryNoRetry;
import com.microsoft.azure.storage.StorageCredentials;
import com.microsoft.azure.storage.StorageCredentialsAccountAndKey;
import com.microsoft.azure.storage.StorageException;
import com.microsoft.azure.storage.StorageUri;
import com.microsoft.azure.storage.table.CloudTable;
import com.microsoft.azure.storage.table.CloudTableClient;
import com.microsoft.azure.storage.table.TableQuery;
import com.microsoft.azure.storage.table.TableQuery.QueryComparisons;
import com.microsoft.azure.storage.table.TableServiceEntity;
import conformance.Target;
import java.net.URI;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.function.Executable;

/** The clients of azure-storage, and one table for all cases of a class. */
final class Storage implements BeforeAllCallback, AfterAllCallback {
    final CloudTable table = table(client(), Target.newTableName());

    @Override
    public void beforeAll(ExtensionContext context) throws Exception {
        table.create();
    }

    @Override
    public void afterAll(ExtensionContext context) throws Exception {
        table.delete();
    }

    static CloudTableClient client() {
        return client(new StorageCredentialsAccountAndKey(Target.ACCOUNT, Target.KEY));
    }

    /** Returns a client that does not retry, because cases check the first response. */
    static CloudTableClient client(StorageCredentials credentials) {
        StorageUri uri = new StorageUri(URI.create(Target.ENDPOINT), URI.create(Target.SECONDARY));
        CloudTableClient client = new CloudTableClient(uri, credentials);
        client.getDefaultRequestOptions().setRetryPolicyFactory(new RetryNoRetry());
        return client;
    }

    static CloudTable table(CloudTableClient client, String name) {
        try {
            return client.getTableReference(name);
        } catch (Exception failure) {
            throw new IllegalStateException(failure);
        }
    }

    static String inPartition(String partition) {
        return TableQuery.generateFilterCondition("PartitionKey", QueryComparisons.EQUAL, partition);
    }

    static List<String> rowKeys(Iterable<? extends TableServiceEntity> entities) {
        return StreamSupport.stream(entities.spliterator(), false).map(TableServiceEntity::getRowKey).toList();
    }

    /** Asserts that an operation is refused with the given status and code. Unwraps exceptions that iterators wrap. */
    static StorageException assertRefused(int status, String code, Executable operation) {
        Exception thrown = assertThrows(Exception.class, operation);
        Throwable refusal = thrown instanceof NoSuchElementException ? thrown.getCause() : thrown;
        StorageException known = assertThrows(StorageException.class, () -> {
            throw refusal;
        });
        assertEquals(status, known.getHttpStatusCode(), known.getMessage());
        assertEquals(code, known.getErrorCode(), known.getMessage());
        return known;
    }
}
