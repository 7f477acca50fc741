package conformance.legacy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.microsoft.azure.storage.CloudStorageAccount;
import com.microsoft.azure.storage.SharedAccessAccountPolicy;
import com.microsoft.azure.storage.StorageCredentialsAccountAndKey;
import com.microsoft.azure.storage.StorageCredentialsSharedAccessSignature;
import com.microsoft.azure.storage.StorageException;
import com.microsoft.azure.storage.table.CloudTable;
import com.microsoft.azure.storage.table.CloudTableClient;
import com.microsoft.azure.storage.table.SharedAccessTablePolicy;
import com.microsoft.azure.storage.table.TableBatchOperation;
import com.microsoft.azure.storage.table.TableOperation;
import com.microsoft.azure.storage.table.TablePermissions;
import com.microsoft.azure.storage.table.TableQuery;
import conformance.Target;
import java.net.URI;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Shared access signatures for tables and accounts, and stored access policies. */
class SignaturesTest {
    private static final Instant NOW = Instant.now().truncatedTo(ChronoUnit.SECONDS);
    private static final Instant LATER = NOW.plus(1, ChronoUnit.HOURS);

    @RegisterExtension
    static final Storage STORAGE = new Storage();

    @BeforeAll
    static void fill() throws Exception {
        for (String partition : List.of("a", "b", "c")) {
            for (String row : List.of("1", "2")) {
                STORAGE.table.execute(TableOperation.insert(new Car(partition, row)));
            }
        }
    }

    private static SharedAccessTablePolicy policy(String permissions, Instant start, Instant expiry) {
        SharedAccessTablePolicy policy = new SharedAccessTablePolicy();
        policy.setPermissionsFromString(permissions);
        policy.setSharedAccessStartTime(start == null ? null : Date.from(start));
        policy.setSharedAccessExpiryTime(expiry == null ? null : Date.from(expiry));
        return policy;
    }

    /** Returns a client for the table that is authorized only by a signature. */
    private static CloudTable with(String token) {
        return Storage.table(Storage.client(new StorageCredentialsSharedAccessSignature(token)), STORAGE.table.getName());
    }

    private static CloudTable with(SharedAccessTablePolicy policy) throws Exception {
        return with(STORAGE.table.generateSharedAccessSignature(policy, null, null, null, null, null));
    }

    private static List<String> keys(CloudTable table) {
        List<String> keys = new ArrayList<>();
        table.execute(TableQuery.from(Car.class)).forEach(car -> keys.add(car.getPartitionKey() + car.getRowKey()));
        return keys;
    }

    @Test
    void aReaderReadsAndDoesNotWrite() throws Exception {
        CloudTable reader = with(policy("r", null, LATER));
        assertEquals(List.of("a1", "a2", "b1", "b2", "c1", "c2"), keys(reader));
        Car car = reader.execute(TableOperation.retrieve("a", "1", Car.class)).getResultAsType();
        String code = "AuthorizationPermissionMismatch";
        Storage.assertRefused(403, code, () -> reader.execute(TableOperation.insert(new Car("x", "1"))));
        Storage.assertRefused(403, code, () -> reader.execute(TableOperation.replace(car)));
        Storage.assertRefused(403, code, () -> reader.execute(TableOperation.delete(car)));
    }

    @Test
    void aBatchThroughASignature() throws Exception {
        CloudTable writer = with(policy("raud", NOW.minus(1, ChronoUnit.HOURS), LATER));
        TableBatchOperation inserts = new TableBatchOperation();
        TableBatchOperation deletions = new TableBatchOperation();
        for (String row : List.of("1", "2")) {
            Car car = new Car("batch", row);
            inserts.insert(car);
            car.setEtag("*");
            deletions.delete(car);
        }
        assertEquals(2, writer.execute(inserts).size());
        assertEquals(2, writer.execute(deletions).size());
    }

    @Test
    void aRangeOfKeys() throws Exception {
        CloudTable range = with(STORAGE.table.generateSharedAccessSignature(policy("raud", null, LATER), null, "a", "2", "b", "1"));
        assertEquals(List.of("a2", "b1"), keys(range));
        Storage.assertRefused(403, "AuthorizationFailure", () -> range.execute(TableOperation.insert(new Car("c", "3"))));
        Car inside = new Car("a", "2");
        assertEquals(204, range.execute(TableOperation.insertOrReplace(inside)).getHttpStatusCode());
    }

    @Test
    void timesOfValidity() throws Exception {
        Instant before = NOW.minus(1, ChronoUnit.HOURS);
        assertEquals(6, keys(with(policy("r", before, LATER))).size());
        Storage.assertRefused(403, "AuthenticationFailed", () -> keys(with(policy("r", null, before))));
        Storage.assertRefused(403, "AuthenticationFailed", () -> keys(with(policy("r", LATER, LATER.plusSeconds(60)))));
    }

    @Test
    void storedAccessPolicies() throws Exception {
        TablePermissions permissions = new TablePermissions();
        permissions.getSharedAccessPolicies().put("reader", policy("r", NOW, LATER));
        STORAGE.table.uploadPermissions(permissions);
        try {
            Map<String, SharedAccessTablePolicy> stored = STORAGE.table.downloadPermissions().getSharedAccessPolicies();
            assertEquals("r", stored.get("reader").permissionsToString());
            assertEquals(Date.from(NOW), stored.get("reader").getSharedAccessStartTime());
            assertEquals(Date.from(LATER), stored.get("reader").getSharedAccessExpiryTime());

            CloudTable reader = with(STORAGE.table.generateSharedAccessSignature(null, "reader", null, null, null, null));
            assertEquals(6, keys(reader).size());
            Storage.assertRefused(403, "AuthorizationPermissionMismatch",
                () -> reader.execute(TableOperation.insert(new Car("x", "1"))));

            STORAGE.table.uploadPermissions(new TablePermissions());
            assertTrue(STORAGE.table.downloadPermissions().getSharedAccessPolicies().isEmpty());
            Storage.assertRefused(403, "AuthenticationFailed", () -> keys(reader));
        } finally {
            STORAGE.table.uploadPermissions(new TablePermissions());
        }
    }

    private static CloudTableClient account(String permissions, String services, String resourceTypes) throws Exception {
        SharedAccessAccountPolicy policy = new SharedAccessAccountPolicy();
        policy.setPermissionsFromString(permissions);
        policy.setServiceFromString(services);
        policy.setResourceTypeFromString(resourceTypes);
        policy.setSharedAccessExpiryTime(Date.from(LATER));
        URI any = URI.create(Target.ENDPOINT);
        CloudStorageAccount account =
            new CloudStorageAccount(new StorageCredentialsAccountAndKey(Target.ACCOUNT, Target.KEY), any, any, any);
        return Storage.client(new StorageCredentialsSharedAccessSignature(account.generateSharedAccessSignature(policy)));
    }

    @Test
    void signaturesOfTheAccount() throws Exception {
        String name = STORAGE.table.getName();
        CloudTableClient reader = account("rl", "t", "sco");
        assertEquals(6, keys(Storage.table(reader, name)).size());
        assertEquals(name, reader.listTables(name).iterator().next());
        String code = "AuthorizationPermissionMismatch";
        Storage.assertRefused(403, code, () -> Storage.table(reader, Target.newTableName()).create());
        Storage.assertRefused(403, code, () -> Storage.table(reader, name).execute(TableOperation.insert(new Car("x", "1"))));
        Storage.assertRefused(403, "AuthorizationResourceTypeMismatch", () -> account("rl", "t", "o").downloadServiceProperties());
    }

    @Test
    void aSignatureForAnotherService() throws Exception {
        CloudTable table = Storage.table(account("rwdlacu", "b", "sco"), Target.newTableName());
        StorageException refusal = assertThrows(StorageException.class, table::create);
        assertEquals(403, refusal.getHttpStatusCode());
        // The client shows the reason phrase, in which the service repeats its message.
        assertEquals("This request is not authorized to perform this operation using this service.", refusal.getMessage());
    }
}
