package conformance.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.credential.AzureNamedKeyCredential;
import com.azure.core.exception.HttpResponseException;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableErrorCode;
import com.azure.data.tables.models.TableServiceException;
import conformance.Target;
import java.time.OffsetDateTime;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Error codes and messages as an application sees them. */
class ErrorsTest {
    @RegisterExtension
    static final Tables TABLE = new Tables();

    private static TableEntity newEntity() {
        return new TableEntity(Target.newPartition(), "r");
    }

    @Test
    void codeAndMessage() {
        TableEntity entity = newEntity();
        TABLE.client.createEntity(entity);
        TableServiceException refusal =
            assertThrows(TableServiceException.class, () -> TABLE.client.createEntity(entity));
        assertEquals(409, refusal.getResponse().getStatusCode());
        assertEquals(TableErrorCode.ENTITY_ALREADY_EXISTS, refusal.getValue().getErrorCode());
        // The exception quotes the body.
        String id = refusal.getResponse().getHeaders().getValue("x-ms-request-id");
        String message = "\"The specified entity already exists.\\nRequestId:" + id + "\\nTime:";
        assertTrue(refusal.getMessage().contains(message), refusal.getMessage());
    }

    @Test
    void aTableThatDoesNotExist() {
        TableClient missing = Tables.tableBuilder(Target.newTableName()).credential(Tables.credential()).buildClient();
        Tables.assertRefused(404, "TableNotFound", () -> missing.createEntity(newEntity()));
        Tables.assertRefused(404, "TableNotFound", () -> missing.getEntity("p", "r"));
        Tables.assertRefused(404, "TableNotFound", () -> missing.upsertEntity(newEntity()));
        Tables.assertRefused(404, "TableNotFound", () -> missing.listEntities().stream().toList());
        Tables.assertRefused(404, "TableNotFound", missing::getAccessPolicies);
    }

    @Test
    void valuesAndNamesThatAreTooLong() {
        Tables.assertRefused(400, "PropertyValueTooLarge",
            () -> TABLE.client.createEntity(newEntity().addProperty("V", "x".repeat(32 * 1024 + 1))));
        Tables.assertRefused(400, "PropertyValueTooLarge",
            () -> TABLE.client.createEntity(newEntity().addProperty("V", new byte[64 * 1024 + 1])));
        Tables.assertRefused(400, "PropertyNameTooLong",
            () -> TABLE.client.createEntity(newEntity().addProperty("V".repeat(256), 1)));
        Tables.assertRefused(400, "PropertyNameInvalid", () -> TABLE.client.createEntity(newEntity().addProperty("a-b", 1)));
    }

    @Test
    void anEntityThatIsTooLarge() {
        TableEntity entity = newEntity();
        for (int i = 0; i < 17; i++) {
            entity.addProperty("V" + i, new byte[64 * 1024]);
        }
        Tables.assertRefused(400, "EntityTooLarge", () -> TABLE.client.createEntity(entity));
    }

    @Test
    void morePropertiesThanAnEntityMayHave() {
        TableEntity entity = newEntity();
        for (int i = 0; i < 252; i++) {
            entity.addProperty("V" + i, i);
        }
        TABLE.client.createEntity(entity);
        Tables.assertRefused(400, "TooManyProperties", () -> TABLE.client.upsertEntity(entity.addProperty("V252", 252)));
    }

    @Test
    void keysThatAreNotAllowed() {
        Tables.assertRefused(400, "OutOfRangeInput", () -> TABLE.client.createEntity(new TableEntity("a/b", "r")));
        Tables.assertRefused(400, "PropertyValueTooLarge", () -> TABLE.client.createEntity(new TableEntity("p", "r".repeat(513))));
    }

    @Test
    void timesThatCannotBeStored() {
        Tables.assertRefused(400, "OutOfRangeInput", () -> TABLE.client.createEntity(
            newEntity().addProperty("V", OffsetDateTime.parse("1600-12-31T23:59:59Z"))));
    }

    @Test
    void aWrongKey() {
        TableClient wrong = Tables.tableBuilder(TABLE.name)
            .credential(new AzureNamedKeyCredential(Target.ACCOUNT, Target.WRONG_KEY)).buildClient();
        HttpResponseException refusal = Tables.assertRefused(403, "AuthenticationFailed", () -> wrong.getEntity("p", "r"));
        assertTrue(refusal.getMessage().contains("\"Server failed to authenticate the request."), refusal.getMessage());
    }
}
