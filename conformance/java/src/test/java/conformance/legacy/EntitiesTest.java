package conformance.legacy;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.microsoft.azure.storage.table.CloudTable;
import com.microsoft.azure.storage.table.DynamicTableEntity;
import com.microsoft.azure.storage.table.EdmType;
import com.microsoft.azure.storage.table.EntityProperty;
import com.microsoft.azure.storage.table.TableEntity;
import com.microsoft.azure.storage.table.TableOperation;
import com.microsoft.azure.storage.table.TablePayloadFormat;
import com.microsoft.azure.storage.table.TableRequestOptions;
import com.microsoft.azure.storage.table.TableResult;
import conformance.Target;
import java.time.Instant;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Tables, class-based and dynamic entities in every JSON format, writes, and their conditions. */
class EntitiesTest {
    @RegisterExtension
    static final Storage STORAGE = new Storage();

    private final CloudTable table = STORAGE.table;
    private final String partition = Target.newPartition();

    private Car newCar() {
        Car car = new Car(partition, "r");
        car.setDoors(Integer.MIN_VALUE);
        car.setMileage(Long.MAX_VALUE);
        car.setWeight(981.5);
        car.setElectric(true);
        car.setId(UUID.fromString("01234567-89ab-cdef-0123-456789abcdef"));
        car.setBuilt(Date.from(Instant.parse("2024-02-29T23:59:59.123Z")));
        car.setPhoto(new byte[] {0, (byte) 0xFF});
        car.setColour("grün 🚃");
        car.setOwner("it's mine");
        car.setNote("not stored");
        return car;
    }

    private <T extends TableEntity> T get(Class<T> type) throws Exception {
        return table.execute(TableOperation.retrieve(partition, "r", type)).getResultAsType();
    }

    private Set<String> names() throws Exception {
        return get(DynamicTableEntity.class).getProperties().keySet();
    }

    @Test
    void lifeOfATable() throws Exception {
        CloudTable one = Storage.table(Storage.client(), Target.newTableName());
        assertFalse(one.exists());
        assertTrue(one.createIfNotExists());
        try {
            assertFalse(one.createIfNotExists());
            Storage.assertRefused(409, "TableAlreadyExists", one::create);
            List<String> listed = StreamSupport.stream(Storage.client().listTables(one.getName()).spliterator(), false).toList();
            assertEquals(List.of(one.getName()), listed);
        } finally {
            assertTrue(one.deleteIfExists());
        }
        assertFalse(one.deleteIfExists());
        Storage.assertRefused(404, "ResourceNotFound", one::delete);
    }

    @ParameterizedTest
    @EnumSource(TablePayloadFormat.class)
    void anEntityOfAClass(TablePayloadFormat format) throws Exception {
        TableRequestOptions options = new TableRequestOptions();
        options.setTablePayloadFormat(format);
        Car car = newCar();
        assertEquals(204, table.execute(TableOperation.insert(car), options, null).getHttpStatusCode());
        Car found = table.execute(TableOperation.retrieve(partition, "r", Car.class), options, null).getResultAsType();
        assertEquals(car.getEtag(), found.getEtag());
        assertEquals(Integer.MIN_VALUE, found.getDoors());
        assertEquals(Long.MAX_VALUE, found.getMileage());
        assertEquals(981.5, found.getWeight());
        assertTrue(found.getElectric());
        assertEquals(car.getId(), found.getId());
        assertEquals(car.getBuilt(), found.getBuilt());
        assertArrayEquals(car.getPhoto(), found.getPhoto());
        assertEquals("grün 🚃", found.getColour());
        assertEquals("it's mine", found.getOwner());
        assertNull(found.getNote());
        assertEquals(Set.of("Doors", "Mileage", "Weight", "Electric", "Id", "Built", "Photo", "Color", "Owner"), names());
    }

    private static void assertType(EdmType type, EntityProperty property) {
        assertEquals(type, property.getEdmType());
    }

    @ParameterizedTest
    @EnumSource(value = TablePayloadFormat.class, names = {"Json", "JsonFullMetadata"})
    void typesOfADynamicEntity(TablePayloadFormat format) throws Exception {
        table.execute(TableOperation.insert(newCar()));
        TableRequestOptions options = new TableRequestOptions();
        options.setTablePayloadFormat(format);
        DynamicTableEntity found =
            table.execute(TableOperation.retrieve(partition, "r", DynamicTableEntity.class), options, null).getResultAsType();
        Map<String, EntityProperty> properties = found.getProperties();
        assertType(EdmType.INT32, properties.get("Doors"));
        assertType(EdmType.INT64, properties.get("Mileage"));
        assertType(EdmType.DOUBLE, properties.get("Weight"));
        assertType(EdmType.BOOLEAN, properties.get("Electric"));
        assertType(EdmType.GUID, properties.get("Id"));
        assertType(EdmType.DATE_TIME, properties.get("Built"));
        assertType(EdmType.BINARY, properties.get("Photo"));
        assertType(EdmType.STRING, properties.get("Color"));
    }

    @Test
    void withoutMetadataAResolverGivesTheTypes() throws Exception {
        table.execute(TableOperation.insert(newCar()));
        TableRequestOptions options = new TableRequestOptions();
        options.setTablePayloadFormat(TablePayloadFormat.JsonNoMetadata);
        options.setPropertyResolver((pk, rk, name, value) -> switch (name) {
            case "Doors" -> EdmType.INT32;
            case "Mileage" -> EdmType.INT64;
            case "Weight" -> EdmType.DOUBLE;
            case "Electric" -> EdmType.BOOLEAN;
            case "Id" -> EdmType.GUID;
            case "Built" -> EdmType.DATE_TIME;
            case "Photo" -> EdmType.BINARY;
            default -> EdmType.STRING;
        });
        DynamicTableEntity found =
            table.execute(TableOperation.retrieve(partition, "r", DynamicTableEntity.class), options, null).getResultAsType();
        assertEquals(Long.MAX_VALUE, found.getProperties().get("Mileage").getValueAsLong());
        assertEquals(newCar().getId(), found.getProperties().get("Id").getValueAsUUID());
        assertEquals(newCar().getBuilt(), found.getProperties().get("Built").getValueAsDate());
        assertArrayEquals(newCar().getPhoto(), found.getProperties().get("Photo").getValueAsByteArray());
    }

    @Test
    void doublesThatJsonCannotShow() throws Exception {
        DynamicTableEntity entity = new DynamicTableEntity(partition, "r");
        Map<String, Double> values = Map.of("NaN", Double.NaN, "Plus", Double.POSITIVE_INFINITY, "Minus", Double.NEGATIVE_INFINITY,
            "Whole", 5.0, "Large", Double.MAX_VALUE, "Small", Double.MIN_VALUE);
        values.forEach((name, value) -> entity.getProperties().put(name, new EntityProperty(value)));
        table.execute(TableOperation.insert(entity));
        DynamicTableEntity found = get(DynamicTableEntity.class);
        values.forEach((name, value) -> assertEquals(value, found.getProperties().get(name).getValueAsDouble(), name));
    }

    @Test
    void anEntityResolverSeesWhatIsStored() throws Exception {
        Car car = newCar();
        table.execute(TableOperation.insert(car));
        TableOperation retrieve = TableOperation.retrieve(partition, "r",
            (pk, rk, time, properties, etag) -> pk + rk + properties.get("Weight").getValueAsDouble() + etag);
        assertEquals(partition + "r981.5" + car.getEtag(), table.execute(retrieve).getResultAsType());
    }

    @Test
    void insertWithAndWithoutEcho() throws Exception {
        TableResult silent = table.execute(TableOperation.insert(newCar(), false));
        assertEquals(204, silent.getHttpStatusCode());
        table.execute(TableOperation.delete(get(Car.class)));
        Car car = newCar();
        TableResult echo = table.execute(TableOperation.insert(car, true));
        assertEquals(201, echo.getHttpStatusCode());
        assertEquals(get(Car.class).getTimestamp(), car.getTimestamp());
        Storage.assertRefused(409, "EntityAlreadyExists", () -> table.execute(TableOperation.insert(newCar())));
    }

    @Test
    void mergeReplaceAndUpsert() throws Exception {
        DynamicTableEntity entity = new DynamicTableEntity(partition, "r");
        entity.getProperties().put("A", new EntityProperty(1));
        assertEquals(204, table.execute(TableOperation.insertOrMerge(entity)).getHttpStatusCode());
        DynamicTableEntity change = new DynamicTableEntity(partition, "r");
        change.getProperties().put("B", new EntityProperty(2));
        change.setEtag("*");
        table.execute(TableOperation.merge(change));
        assertEquals(Set.of("A", "B"), names());
        change.setEtag("*");
        table.execute(TableOperation.replace(change));
        assertEquals(Set.of("B"), names());
        table.execute(TableOperation.insertOrMerge(entity));
        assertEquals(Set.of("A", "B"), names());
        table.execute(TableOperation.insertOrReplace(entity));
        assertEquals(Set.of("A"), names());
    }

    @Test
    void conditions() throws Exception {
        table.execute(TableOperation.insert(newCar()));
        Car stale = get(Car.class);
        Car fresh = get(Car.class);
        fresh.setDoors(5);
        table.execute(TableOperation.replace(fresh));
        assertNotEquals(stale.getEtag(), fresh.getEtag());
        String code = "UpdateConditionNotSatisfied";
        Storage.assertRefused(412, code, () -> table.execute(TableOperation.replace(stale)));
        Storage.assertRefused(412, code, () -> table.execute(TableOperation.merge(stale)));
        Storage.assertRefused(412, code, () -> table.execute(TableOperation.delete(stale)));
        assertEquals(5, get(Car.class).getDoors());
        assertEquals(204, table.execute(TableOperation.delete(fresh)).getHttpStatusCode());
        assertNull(get(Car.class));
        Storage.assertRefused(404, "ResourceNotFound", () -> table.execute(TableOperation.delete(fresh)));
    }
}
