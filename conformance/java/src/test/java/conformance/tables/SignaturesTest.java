package conformance.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.data.tables.TableClient;
import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.TableAccessPolicy;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableItem;
import com.azure.data.tables.models.TableSignedIdentifier;
import com.azure.data.tables.sas.TableAccountSasPermission;
import com.azure.data.tables.sas.TableAccountSasResourceType;
import com.azure.data.tables.sas.TableAccountSasService;
import com.azure.data.tables.sas.TableAccountSasSignatureValues;
import com.azure.data.tables.sas.TableSasPermission;
import com.azure.data.tables.sas.TableSasSignatureValues;
import conformance.Target;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Shared access signatures for tables and accounts, and stored access policies. */
class SignaturesTest {
    private static final OffsetDateTime NOW = OffsetDateTime.now(ZoneOffset.UTC).truncatedTo(ChronoUnit.SECONDS);
    private static final OffsetDateTime LATER = NOW.plusHours(1);

    @RegisterExtension
    static final Tables TABLE = new Tables();
    private static final TableServiceClient SERVICE = Tables.serviceBuilder().credential(Tables.credential()).buildClient();

    @BeforeAll
    static void fill() {
        List.of("a", "b", "c").forEach(partition -> List.of("1", "2").forEach(
            row -> TABLE.client.createEntity(new TableEntity(partition, row))));
    }

    private static TableClient with(TableSasSignatureValues values) {
        return Tables.tableBuilder(TABLE.name).sasToken(TABLE.client.generateSas(values)).buildClient();
    }

    private static TableSasSignatureValues values(OffsetDateTime expiry, String permissions) {
        return new TableSasSignatureValues(expiry, TableSasPermission.parse(permissions));
    }

    private static List<String> keys(TableClient client) {
        return client.listEntities().stream().map(found -> found.getPartitionKey() + found.getRowKey()).toList();
    }

    @Test
    void aReaderReadsAndDoesNotWrite() {
        TableClient reader = with(values(LATER, "r"));
        assertEquals(List.of("a1", "a2", "b1", "b2", "c1", "c2"), keys(reader));
        assertEquals("1", reader.getEntity("a", "1").getRowKey());
        TableEntity entity = new TableEntity("a", "1");
        String code = "AuthorizationPermissionMismatch";
        Tables.assertRefused(403, code, () -> reader.createEntity(new TableEntity("x", "1")));
        Tables.assertRefused(403, code, () -> reader.updateEntity(entity));
        Tables.assertRefused(403, code, () -> reader.upsertEntity(entity));
        Tables.assertRefused(403, code, () -> reader.deleteEntity(entity));
    }

    @Test
    void everyPermissionAlone() {
        TableEntity entity = new TableEntity("permissions", "1");
        with(values(LATER, "a")).createEntity(entity);
        with(values(LATER, "u")).updateEntity(entity);
        with(values(LATER, "au")).upsertEntity(entity);
        assertEquals(204, with(values(LATER, "d")).deleteEntityWithResponse(entity, false, null, null).getStatusCode());
    }

    @Test
    void aRangeOfKeys() {
        TableClient range = with(values(LATER, "raud")
            .setStartPartitionKey("a").setStartRowKey("2").setEndPartitionKey("b").setEndRowKey("1"));
        assertEquals(List.of("a2", "b1"), keys(range));
        assertEquals("2", range.getEntity("a", "2").getRowKey());
        Tables.assertRefused(404, "ResourceNotFound", () -> range.getEntity("c", "1"));
        Tables.assertRefused(403, "AuthorizationFailure", () -> range.createEntity(new TableEntity("c", "3")));
        range.upsertEntity(new TableEntity("a", "2"));
    }

    @Test
    void timesOfValidity() {
        assertEquals(6, keys(with(values(LATER, "r").setStartTime(NOW.minusHours(1)))).size());
        String code = "AuthenticationFailed";
        Tables.assertRefused(403, code, () -> keys(with(values(NOW.minusHours(1), "r"))));
        Tables.assertRefused(403, code, () -> keys(with(values(LATER.plusHours(1), "r").setStartTime(LATER))));
    }

    @Test
    void aSignatureForAnotherTable() {
        String token = TABLE.client.generateSas(values(LATER, "r"));
        String other = Target.newTableName();
        TableClient client = Tables.tableBuilder(other).sasToken(token).buildClient();
        Tables.assertRefused(403, "AuthorizationFailure", () -> keys(client));
    }

    @Test
    void storedAccessPolicies() {
        TableAccessPolicy reader = new TableAccessPolicy().setPermissions("r").setStartsOn(NOW.minusHours(1)).setExpiresOn(LATER);
        TABLE.client.setAccessPolicies(List.of(
            new TableSignedIdentifier("reader").setAccessPolicy(reader),
            new TableSignedIdentifier("template").setAccessPolicy(new TableAccessPolicy().setPermissions("raud"))));
        try {
            var stored = TABLE.client.getAccessPolicies().getIdentifiers();
            assertEquals(List.of("reader", "template"), stored.stream().map(TableSignedIdentifier::getId).toList());
            assertEquals("r", stored.get(0).getAccessPolicy().getPermissions());
            assertEquals(NOW.minusHours(1), stored.get(0).getAccessPolicy().getStartsOn());
            assertEquals(LATER, stored.get(0).getAccessPolicy().getExpiresOn());

            TableClient client = with(new TableSasSignatureValues("reader"));
            assertEquals(6, keys(client).size());
            Tables.assertRefused(403, "AuthorizationPermissionMismatch", () -> client.createEntity(new TableEntity("x", "1")));
            // The signature specifies the fields that the policy leaves open.
            TableSasSignatureValues rest = new TableSasSignatureValues("template").setExpiryTime(LATER);
            assertEquals(6, keys(with(rest)).size());

            TABLE.client.setAccessPolicies(List.of());
            assertNull(TABLE.client.getAccessPolicies().getIdentifiers());
            Tables.assertRefused(403, "AuthenticationFailed", () -> keys(client));
        } finally {
            TABLE.client.setAccessPolicies(List.of());
        }
    }

    private static String accountToken(OffsetDateTime expiry, String permissions, String resourceTypes) {
        return SERVICE.generateAccountSas(new TableAccountSasSignatureValues(expiry, TableAccountSasPermission.parse(permissions),
            TableAccountSasService.parse("t"), TableAccountSasResourceType.parse(resourceTypes)));
    }

    @Test
    void aReaderOfTheAccount() {
        String token = accountToken(LATER, "rl", "co");
        TableServiceClient service = Tables.serviceBuilder().sasToken(token).buildClient();
        assertTrue(service.listTables().stream().map(TableItem::getName).toList().contains(TABLE.name));
        TableClient table = service.getTableClient(TABLE.name);
        assertEquals(2, table.listEntities(new ListEntitiesOptions().setFilter("PartitionKey eq 'a'"), null, null).stream().count());
        String code = "AuthorizationPermissionMismatch";
        Tables.assertRefused(403, code, () -> table.createEntity(new TableEntity("x", "1")));
        Tables.assertRefused(403, code, () -> service.createTable(Target.newTableName()));
        Tables.assertRefused(403, code, () -> service.deleteTable(TABLE.name));
    }

    @Test
    void anAccountSignatureMakesAndDeletesTables() {
        TableServiceClient service = Tables.serviceBuilder().sasToken(accountToken(LATER, "rwdlacu", "sco")).buildClient();
        TableClient table = service.createTable(Target.newTableName());
        try {
            table.createEntity(new TableEntity("p", "r"));
            assertEquals(List.of("pr"), keys(table));
        } finally {
            assertEquals(204, table.deleteTableWithResponse(null, null).getStatusCode());
        }
    }

    @Test
    void otherResourcesThanThoseSigned() {
        TableServiceClient service = Tables.serviceBuilder().sasToken(accountToken(LATER, "rwdlacu", "o")).buildClient();
        String code = "AuthorizationResourceTypeMismatch";
        Tables.assertRefused(403, code, () -> service.createTable(Target.newTableName()));
        Tables.assertRefused(403, code, service::getProperties);
        assertEquals("1", service.getTableClient(TABLE.name).getEntity("a", "1").getRowKey());
    }

    @Test
    void anAccountSignatureThatExpired() {
        TableServiceClient service = Tables.serviceBuilder().sasToken(accountToken(NOW.minusHours(1), "rl", "sco")).buildClient();
        Tables.assertRefused(403, "AuthenticationFailed", () -> service.listTables().stream().toList());
    }
}
