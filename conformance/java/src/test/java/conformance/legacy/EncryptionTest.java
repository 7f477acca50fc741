package conformance.legacy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.util.concurrent.Futures;
import com.microsoft.azure.storage.StorageException;
import com.microsoft.azure.storage.table.CloudTable;
import com.microsoft.azure.storage.table.DynamicTableEntity;
import com.microsoft.azure.storage.table.EdmType;
import com.microsoft.azure.storage.table.EntityProperty;
import com.microsoft.azure.storage.table.TableBatchOperation;
import com.microsoft.azure.storage.table.TableEncryptionPolicy;
import com.microsoft.azure.storage.table.TableOperation;
import com.microsoft.azure.storage.table.TableQuery;
import com.microsoft.azure.storage.table.TableQuery.Operators;
import com.microsoft.azure.storage.table.TableRequestOptions;
import conformance.Target;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Properties that the client encrypts. The server stores the ciphertext as Binary, and two properties about the key.
 */
class EncryptionTest {
    @RegisterExtension
    static final Storage STORAGE = new Storage();

    private final CloudTable table = STORAGE.table;
    private final String partition = Target.newPartition();

    static Stream<LocalKey> keys() throws Exception {
        return Stream.of(LocalKey.symmetric("symmetric"), LocalKey.rsa("rsa"));
    }

    private static TableRequestOptions with(LocalKey key) {
        TableRequestOptions options = new TableRequestOptions();
        options.setEncryptionPolicy(new TableEncryptionPolicy(key, null));
        return options;
    }

    private Car newCar(String row) {
        Car car = new Car(partition, row);
        car.setOwner("Ünal");
        car.setColour("blue");
        car.setPhoto(new byte[] {1});
        return car;
    }

    private Car get(TableRequestOptions options) throws Exception {
        return table.execute(TableOperation.retrieve(partition, "r", Car.class), options, null).getResultAsType();
    }

    private Map<String, EntityProperty> stored() throws Exception {
        DynamicTableEntity found = table.execute(TableOperation.retrieve(partition, "r", DynamicTableEntity.class)).getResultAsType();
        return found.getProperties();
    }

    @ParameterizedTest
    @MethodSource("keys")
    void anAnnotatedProperty(LocalKey key) throws Exception {
        table.execute(TableOperation.insert(newCar("r")), with(key), null);
        assertEquals("Ünal", get(with(key)).getOwner());
        assertEquals("blue", get(with(key)).getColour());

        Map<String, EntityProperty> stored = stored();
        assertEquals(EdmType.BINARY, stored.get("Owner").getEdmType());
        assertEquals(16, stored.get("Owner").getValueAsByteArray().length);
        assertEquals("blue", stored.get("Color").getValueAsString());
        assertTrue(stored.get("_ClientEncryptionMetadata1").getValueAsString().contains('"' + key.getKid() + '"'));
        assertEquals(EdmType.BINARY, stored.get("_ClientEncryptionMetadata2").getEdmType());
    }

    @Test
    void aResolverChoosesProperties() throws Exception {
        LocalKey key = LocalKey.symmetric("key");
        TableRequestOptions options = with(key);
        options.setEncryptionResolver((pk, rk, name) -> name.equals("Secret"));
        DynamicTableEntity entity = new DynamicTableEntity(partition, "r");
        entity.getProperties().put("Secret", new EntityProperty("s"));
        entity.getProperties().put("Open", new EntityProperty("o"));
        table.execute(TableOperation.insert(entity), options, null);
        assertEquals(EdmType.BINARY, stored().get("Secret").getEdmType());
        assertEquals("o", stored().get("Open").getValueAsString());
        DynamicTableEntity found =
            table.execute(TableOperation.retrieve(partition, "r", DynamicTableEntity.class), options, null).getResultAsType();
        assertEquals("s", found.getProperties().get("Secret").getValueAsString());
    }

    private List<String> found(String filter, LocalKey key) {
        String all = TableQuery.combineFilters(Storage.inPartition(partition), Operators.AND, filter);
        return Storage.rowKeys(table.execute(TableQuery.from(Car.class).where(all), with(key), null));
    }

    @Test
    void anEncryptedPropertyCannotBeFiltered() throws Exception {
        LocalKey key = LocalKey.symmetric("key");
        table.execute(TableOperation.insert(newCar("r")), with(key), null);
        assertEquals(List.of(), found("Owner eq 'Ünal'", key));
        assertEquals(List.of("r"), found("Color eq 'blue'", key));
    }

    @Test
    void queriesBatchesAndAResolverOfKeys() throws Exception {
        LocalKey key = LocalKey.rsa("key");
        TableBatchOperation batch = new TableBatchOperation();
        List.of("1", "2", "3").forEach(row -> batch.insertOrReplace(newCar(row)));
        table.execute(batch, with(key), null);
        TableRequestOptions options = new TableRequestOptions();
        options.setEncryptionPolicy(new TableEncryptionPolicy(null, id -> Futures.immediateFuture(id.equals("key") ? key : null)));
        int count = 0;
        for (Car car : table.execute(TableQuery.from(Car.class).where(Storage.inPartition(partition)), options, null)) {
            assertEquals("Ünal", car.getOwner());
            count++;
        }
        assertEquals(3, count);
    }

    @Test
    void anUpdateEncryptsAnew() throws Exception {
        LocalKey key = LocalKey.symmetric("key");
        table.execute(TableOperation.insert(newCar("r")), with(key), null);
        String before = stored().get("_ClientEncryptionMetadata1").getValueAsString();
        Car car = get(with(key));
        car.setOwner("Zoë");
        table.execute(TableOperation.replace(car), with(key), null);
        assertEquals("Zoë", get(with(key)).getOwner());
        assertFalse(before.equals(stored().get("_ClientEncryptionMetadata1").getValueAsString()));
    }

    @Test
    void anotherKeyDoesNotRead() throws Exception {
        table.execute(TableOperation.insert(newCar("r")), with(LocalKey.symmetric("key")), null);
        for (LocalKey other : List.of(LocalKey.symmetric("key"), LocalKey.symmetric("other"))) {
            StorageException failure = assertThrows(StorageException.class, () -> get(with(other)));
            assertEquals("DecryptionError", failure.getErrorCode());
        }
    }
}
