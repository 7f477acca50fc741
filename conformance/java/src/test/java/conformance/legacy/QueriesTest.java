package conformance.legacy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.microsoft.azure.storage.ResultContinuation;
import com.microsoft.azure.storage.ResultSegment;
import com.microsoft.azure.storage.table.CloudTable;
import com.microsoft.azure.storage.table.DynamicTableEntity;
import com.microsoft.azure.storage.table.TableBatchOperation;
import com.microsoft.azure.storage.table.TableQuery;
import com.microsoft.azure.storage.table.TableQuery.Operators;
import com.microsoft.azure.storage.table.TableQuery.QueryComparisons;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Queries: conditions, selected properties, segments and continuation tokens. */
class QueriesTest {
    private static final int MANY = 1_100;
    private static final String PARTITION = "many";
    private static final Instant START = Instant.parse("2024-01-01T00:00:00Z");

    @RegisterExtension
    static final Storage STORAGE = new Storage();

    private final CloudTable table = STORAGE.table;

    private static String row(int number) {
        return String.format("%04d", number);
    }

    @BeforeAll
    static void fill() throws Exception {
        for (int start = 0; start < MANY; start += 100) {
            TableBatchOperation batch = new TableBatchOperation();
            for (int i = start; i < start + 100; i++) {
                Car car = new Car(PARTITION, row(i));
                car.setDoors(i);
                car.setMileage(i * 10_000_000_000L);
                car.setWeight(i + 0.5);
                car.setElectric(i % 2 == 0);
                car.setId(new UUID(0, i));
                car.setBuilt(Date.from(START.plusSeconds(i)));
                car.setPhoto(new byte[] {(byte) i});
                car.setColour(i == 7 ? "it's green" : "blue");
                batch.insert(car);
            }
            STORAGE.table.execute(batch);
        }
    }

    private List<String> found(String filter) {
        String all = TableQuery.combineFilters(Storage.inPartition(PARTITION), Operators.AND, filter);
        return Storage.rowKeys(table.execute(TableQuery.from(Car.class).where(all)));
    }

    @Test
    void conditionsOnEveryType() {
        String eq = QueryComparisons.EQUAL;
        assertEquals(List.of("0003"), found(TableQuery.generateFilterCondition("Doors", eq, 3)));
        assertEquals(List.of("0003"), found(TableQuery.generateFilterCondition("Mileage", eq, 30_000_000_000L)));
        assertEquals(List.of("0003"), found(TableQuery.generateFilterCondition("Weight", eq, 3.5)));
        assertEquals(MANY / 2, found(TableQuery.generateFilterCondition("Electric", eq, true)).size());
        assertEquals(List.of("0003"), found(TableQuery.generateFilterCondition("Id", eq, new UUID(0, 3))));
        assertEquals(List.of("0003"), found(TableQuery.generateFilterCondition("Built", eq, Date.from(START.plusSeconds(3)))));
        assertTrue(found(TableQuery.generateFilterCondition("Photo", eq, new byte[] {3})).contains("0003"));
        assertEquals(List.of("0007"), found(TableQuery.generateFilterCondition("Color", eq, "it's green")));
    }

    @Test
    void combinedConditions() {
        String low = TableQuery.generateFilterCondition("Doors", QueryComparisons.LESS_THAN, 10);
        String even = TableQuery.generateFilterCondition("Electric", QueryComparisons.EQUAL, true);
        String late = TableQuery.generateFilterCondition("RowKey", QueryComparisons.GREATER_THAN_OR_EQUAL, "1098");
        String both = TableQuery.combineFilters(low, Operators.AND, even);
        assertEquals(List.of("0000", "0002", "0004", "0006", "0008", "1098", "1099"),
            found(TableQuery.combineFilters(both, Operators.OR, late)));
        assertEquals(List.of(), found(TableQuery.combineFilters(low, Operators.AND, late)));
    }

    @Test
    void selectAndTake() throws Exception {
        TableQuery<DynamicTableEntity> query = TableQuery.from(DynamicTableEntity.class)
            .where(Storage.inPartition(PARTITION)).select(new String[] {"Doors", "Color"}).take(7);
        // `take` limits a segment; an iterator would continue.
        List<DynamicTableEntity> entities = table.executeSegmented(query, null).getResults();
        assertEquals(7, entities.size());
        assertEquals(Set.of("Doors", "Color"), entities.get(3).getProperties().keySet());
        assertEquals(3, entities.get(3).getProperties().get("Doors").getValueAsInteger());
    }

    @Test
    void anEntityResolver() {
        TableQuery<Car> query = TableQuery.from(Car.class).where(TableQuery.generateFilterCondition("Doors", "lt", 3));
        List<String> found = new ArrayList<>();
        table.execute(query, (pk, rk, time, properties, etag) -> rk + "=" + properties.get("Weight").getValueAsDouble())
            .forEach(found::add);
        assertEquals(List.of("0000=0.5", "0001=1.5", "0002=2.5"), found);
    }

    @Test
    void anIteratorCrossesSegments() {
        assertEquals(IntStream.range(0, MANY).mapToObj(QueriesTest::row).toList(),
            Storage.rowKeys(table.execute(TableQuery.from(Car.class).where(Storage.inPartition(PARTITION)))));
    }

    @Test
    void segments() throws Exception {
        TableQuery<Car> query = TableQuery.from(Car.class).where(Storage.inPartition(PARTITION));
        ResultSegment<Car> first = table.executeSegmented(query, null);
        assertEquals(1_000, first.getLength());
        assertTrue(first.getHasMoreResults());
        ResultContinuation token = first.getContinuationToken();
        assertNotNull(token.getNextPartitionKey());
        assertNotNull(token.getNextRowKey());
        ResultSegment<Car> second = table.executeSegmented(query, token);
        assertEquals(IntStream.range(1_000, MANY).mapToObj(QueriesTest::row).toList(), Storage.rowKeys(second.getResults()));
        assertFalse(second.getHasMoreResults());
        assertNull(second.getContinuationToken());
    }

    @Test
    void aMalformedFilter() {
        Storage.assertRefused(400, "InvalidInput",
            () -> table.execute(TableQuery.from(Car.class).where("Doors eq")).iterator().hasNext());
    }
}
