package conformance.tables;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import com.azure.data.tables.models.TableEntity;
import conformance.Target;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Random;
import java.util.UUID;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Round trips of every EDM type at its limits. */
class TypesTest {
    @RegisterExtension
    static final Tables TABLE = new Tables();

    private static TableEntity thereAndBack(TableEntity entity) {
        TABLE.client.createEntity(entity);
        return TABLE.get(entity.getPartitionKey(), entity.getRowKey());
    }

    private static TableEntity newEntity() {
        return new TableEntity(Target.newPartition(), "r");
    }

    /**
     * Returns values, each with its type annotation at full metadata, or null for the types that are evident in JSON.
     */
    static Stream<Arguments> values() {
        return Stream.of(
            arguments(Integer.MIN_VALUE, null), arguments(Integer.MAX_VALUE, null), arguments(0, null),
            arguments(Long.MIN_VALUE, "Edm.Int64"), arguments(Long.MAX_VALUE, "Edm.Int64"), arguments(0L, "Edm.Int64"),
            arguments(true, null), arguments(false, null),
            arguments(0.1, null), arguments(5.0, null), arguments(Double.MAX_VALUE, null),
            arguments(-Double.MAX_VALUE, null), arguments(Double.MIN_NORMAL, null),
            arguments(Double.MIN_VALUE, null),
            arguments(new UUID(0, 0), "Edm.Guid"), arguments(new UUID(-1, -1), "Edm.Guid"),
            arguments(UUID.fromString("01234567-89ab-cdef-0123-456789abcdef"), "Edm.Guid"),
            arguments(OffsetDateTime.parse("1601-01-01T00:00:00Z"), "Edm.DateTime"),
            arguments(OffsetDateTime.parse("2024-02-29T23:59:59.1234567Z"), "Edm.DateTime"),
            arguments(OffsetDateTime.parse("9999-12-31T23:59:59.9999999Z"), "Edm.DateTime"),
            arguments("", null), arguments(" blanks around ", null), arguments("line\r\nbreaks\tand \"quotes\" \\ /", null),
            arguments("Grüße, 世界, שלום, 🚃, \u0001", null), arguments("x".repeat(32 * 1024), null),
            arguments("🚃".repeat(16 * 1024), null));
    }

    @ParameterizedTest
    @MethodSource("values")
    void thereAndBack(Object value, String type) {
        TableEntity found = thereAndBack(newEntity().addProperty("V", value));
        assertEquals(value, found.getProperty("V"));
        assertEquals(type, found.getProperty("V@odata.type"));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 3, 64 * 1024})
    void binary(int length) {
        byte[] value = new byte[length];
        new Random(length).nextBytes(value);
        TableEntity found = thereAndBack(newEntity().addProperty("V", value));
        assertArrayEquals(value, (byte[]) found.getProperty("V"));
        assertEquals("Edm.Binary", found.getProperty("V@odata.type"));
    }

    @ParameterizedTest
    @ValueSource(doubles = {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY})
    void doublesThatJsonCannotShow(double value) {
        // The client writes only the string, so the application adds the type annotation.
        TableEntity entity = newEntity().addProperty("V", value).addProperty("V@odata.type", "Edm.Double");
        TableEntity found = thereAndBack(entity);
        assertEquals(value, found.getProperty("V"));
        assertEquals("Edm.Double", found.getProperty("V@odata.type"));
    }

    @Test
    void timesInOtherZonesAndClasses() {
        OffsetDateTime time = OffsetDateTime.parse("2024-05-06T07:08:09+02:00");
        TableEntity found = thereAndBack(newEntity()
            .addProperty("Offset", time)
            .addProperty("Instant", Instant.from(time))
            .addProperty("Zoned", time.atZoneSameInstant(ZoneOffset.ofHours(-7))));
        OffsetDateTime expected = time.withOffsetSameInstant(ZoneOffset.UTC);
        assertEquals(expected, found.getProperty("Offset"));
        assertEquals(expected, found.getProperty("Instant"));
        assertEquals(expected, found.getProperty("Zoned"));
    }

    @Test
    void nanosecondsBecomeTicks() {
        TableEntity found = thereAndBack(newEntity().addProperty("V", OffsetDateTime.parse("2023-04-11T21:16:40.331047814Z")));
        assertEquals(OffsetDateTime.parse("2023-04-11T21:16:40.3310478Z"), found.getProperty("V"));
    }

    @Test
    void aTimeWithoutAnOffsetIsInUniversalTime() {
        TableEntity found = thereAndBack(newEntity().addProperty("V", LocalDateTime.parse("2024-05-06T07:08:09")));
        assertEquals(OffsetDateTime.parse("2024-05-06T07:08:09Z"), found.getProperty("V"));
    }

    @Test
    void textThatLooksLikeAnotherType() {
        TableEntity found = thereAndBack(newEntity()
            .addProperty("Number", "5").addProperty("Truth", "true").addProperty("Time", "2024-01-01T00:00:00Z"));
        assertEquals("5", found.getProperty("Number"));
        assertEquals("true", found.getProperty("Truth"));
        assertEquals("2024-01-01T00:00:00Z", found.getProperty("Time"));
    }

    @Test
    void aPropertyWithoutAValueIsNotStored() {
        TableEntity found = thereAndBack(newEntity().addProperty("V", null).addProperty("W", 1));
        assertFalse(found.getProperties().containsKey("V"));
        assertEquals(1, found.getProperty("W"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", " ", "it's", "a+b", "100%", "ключ 🚃", "(1,2)", "a&b=c", "~!@$^*[]{};:\"<>,.`|"})
    void keys(String key) {
        String partition = Target.newPartition() + key;
        TableEntity found = thereAndBack(new TableEntity(partition, key).addProperty("V", 1));
        assertEquals(partition, found.getPartitionKey());
        assertEquals(key, found.getRowKey());
        TABLE.client.deleteEntity(partition, key);
        Tables.assertRefused(404, "ResourceNotFound", () -> TABLE.get(partition, key));
    }
}
