package conformance.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import com.azure.core.http.rest.PagedResponse;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import conformance.Target;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Filters, selected properties and pages. */
class QueriesTest {
    private static final int MANY = 1_250;
    private static final String PARTITION = "many";
    private static final String TYPES = "types";

    @RegisterExtension
    static final Tables TABLE = new Tables();

    private static String row(int number) {
        return String.format("%04d", number);
    }

    @BeforeAll
    static void fill() {
        for (int start = 0; start < MANY; start += 100) {
            TABLE.client.submitTransaction(IntStream.range(start, Math.min(start + 100, MANY))
                .mapToObj(i -> new TableEntity(PARTITION, row(i)).addProperty("N", i).addProperty("Even", i % 2 == 0))
                .map(entity -> new TableTransactionAction(TableTransactionActionType.CREATE, entity)).toList());
        }
        TABLE.client.createEntity(new TableEntity(TYPES, "a")
            .addProperty("Int32", -5).addProperty("Int64", 9_000_000_000L).addProperty("Double", 2.5).addProperty("Boolean", true)
            .addProperty("Guid", UUID.fromString("01234567-89ab-cdef-0123-456789abcdef")).addProperty("Text", "it's")
            .addProperty("Time", OffsetDateTime.parse("2024-02-29T12:00:00Z")).addProperty("Bytes", new byte[] {1, (byte) 0xAB}));
        TABLE.client.createEntity(new TableEntity(TYPES, "b")
            .addProperty("Int32", 5).addProperty("Int64", -1L).addProperty("Double", -2.5).addProperty("Boolean", false)
            .addProperty("Guid", new UUID(0, 0)).addProperty("Text", "Grüße")
            .addProperty("Time", OffsetDateTime.parse("2023-01-01T00:00:00Z")).addProperty("Bytes", new byte[] {0}));
    }

    private static Stream<PagedResponse<TableEntity>> pages(ListEntitiesOptions options) {
        return TABLE.client.listEntities(options, null, null).streamByPage();
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '`', value = {
        "Int32 lt 0|a", "Int32 ge 5|b", "Int64 eq 9000000000L|a", "Double gt 2.4|a", "Boolean eq false|b", "not Boolean|b",
        "Guid eq guid'01234567-89ab-cdef-0123-456789abcdef'|a", "Text eq 'it''s'|a", "Text eq 'Grüße'|b",
        "Time gt datetime'2024-01-01T00:00:00Z'|a", "Bytes eq X'01ab'|a", "Bytes eq binary'01AB'|a",
        "Int32 eq 5 and Double lt 0.0|b", "Int32 eq -5 or Text eq 'Grüße'|a,b", "not (Int32 eq 5)|a", "RowKey ne 'a'|b"})
    void filters(String filter, String rows) {
        List<String> expected = List.of(rows.split(","));
        assertEquals(expected, TABLE.rowKeys("PartitionKey eq '" + TYPES + "' and (" + filter + ")"));
    }

    @Test
    void selectedProperties() {
        ListEntitiesOptions options = new ListEntitiesOptions().setFilter("PartitionKey eq 'types' and RowKey eq 'a'")
            .setSelect(List.of("Int32", "Text", "Missing"));
        TableEntity found = TABLE.client.listEntities(options, null, null).iterator().next();
        assertEquals(-5, found.getProperty("Int32"));
        assertEquals("it's", found.getProperty("Text"));
        assertNull(found.getProperty("Missing"));
        assertNull(found.getProperty("Double"));
        TableEntity one = TABLE.client.getEntityWithResponse(TYPES, "a", List.of("Boolean"), null, null).getValue();
        assertEquals(Map.of("Boolean", true), Tables.properties(one));
    }

    @Test
    void moreThanAThousandComeInPages() {
        List<PagedResponse<TableEntity>> pages = pages(new ListEntitiesOptions().setFilter("PartitionKey eq 'many'")).toList();
        assertEquals(List.of(1_000, 250), pages.stream().map(page -> page.getValue().size()).toList());
        assertEquals(IntStream.range(0, MANY).mapToObj(QueriesTest::row).toList(),
            pages.stream().flatMap(page -> page.getValue().stream()).map(TableEntity::getRowKey).toList());
        assertNull(pages.get(1).getContinuationToken());
    }

    @Test
    void topIsTheSizeOfAPage() {
        ListEntitiesOptions options = new ListEntitiesOptions().setFilter("PartitionKey eq 'many' and Even").setTop(300);
        assertEquals(List.of(300, 300, 25), pages(options).map(page -> page.getValue().size()).toList());
    }

    @Test
    void anotherClientGoesOnFromAContinuationToken() {
        ListEntitiesOptions options = new ListEntitiesOptions().setFilter("PartitionKey eq 'many'").setTop(500);
        PagedResponse<TableEntity> first = pages(options).findFirst().orElseThrow();
        assertNotNull(first.getContinuationToken());
        var other = Tables.tableBuilder(TABLE.name).credential(Tables.credential()).buildClient();
        List<String> rest = new ArrayList<>();
        for (var page : other.listEntities(options, null, null).iterableByPage(first.getContinuationToken())) {
            page.getValue().forEach(entity -> rest.add(entity.getRowKey()));
        }
        assertEquals(IntStream.range(500, MANY).mapToObj(QueriesTest::row).toList(), rest);
    }

    @Test
    void aTokenOfKeysThatNeedEncoding() {
        String partition = Target.newPartition() + " ключ+'%";
        List<String> rows = List.of("a b", "c'd", "e%2f", "ы");
        rows.forEach(row -> TABLE.client.createEntity(new TableEntity(partition, row)));
        String filter = "PartitionKey eq '" + partition.replace("'", "''") + "'";
        List<PagedResponse<TableEntity>> pages = pages(new ListEntitiesOptions().setFilter(filter).setTop(1)).toList();
        assertEquals(rows, pages.stream().flatMap(page -> page.getValue().stream()).map(TableEntity::getRowKey).toList());
    }

    @Test
    void nothingFound() {
        assertEquals(List.of(), TABLE.rowKeys("PartitionKey eq 'nothing'"));
    }

    @Test
    void aMalformedFilter() {
        Tables.assertRefused(400, "InvalidInput", () -> TABLE.rowKeys("PartitionKey eq"));
    }
}
