package conformance.legacy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import com.microsoft.azure.storage.CorsHttpMethods;
import com.microsoft.azure.storage.CorsRule;
import com.microsoft.azure.storage.GeoReplicationStats;
import com.microsoft.azure.storage.GeoReplicationStatus;
import com.microsoft.azure.storage.LocationMode;
import com.microsoft.azure.storage.LoggingOperations;
import com.microsoft.azure.storage.MetricsLevel;
import com.microsoft.azure.storage.ServiceProperties;
import com.microsoft.azure.storage.StorageCredentialsAccountAndKey;
import com.microsoft.azure.storage.table.CloudTable;
import com.microsoft.azure.storage.table.CloudTableClient;
import com.microsoft.azure.storage.table.TableOperation;
import com.microsoft.azure.storage.table.TableRequestOptions;
import conformance.Target;
import java.util.EnumSet;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/**
 * Service properties (which belong to the whole account, so each case restores them), the secondary endpoint, and a
 * wrong key.
 */
class ServiceTest {
    @RegisterExtension
    static final Storage STORAGE = new Storage();

    private final CloudTableClient client = Storage.client();
    private ServiceProperties before;

    @BeforeEach
    void keep() throws Exception {
        before = client.downloadServiceProperties();
    }

    @AfterEach
    void restore() throws Exception {
        client.uploadServiceProperties(before);
    }

    @Test
    void propertiesThereAndBack() throws Exception {
        CorsRule rule = new CorsRule();
        rule.setAllowedOrigins(List.of("https://a.example", "https://b.example"));
        rule.setAllowedMethods(EnumSet.of(CorsHttpMethods.GET, CorsHttpMethods.MERGE));
        rule.setAllowedHeaders(List.of("x-ms-*"));
        rule.setExposedHeaders(List.of("*"));
        rule.setMaxAgeInSeconds(300);
        ServiceProperties properties = new ServiceProperties();
        properties.getLogging().setLogOperationTypes(EnumSet.of(LoggingOperations.READ, LoggingOperations.DELETE));
        properties.getLogging().setRetentionIntervalInDays(7);
        properties.getHourMetrics().setMetricsLevel(MetricsLevel.SERVICE_AND_API);
        properties.getHourMetrics().setRetentionIntervalInDays(8);
        properties.getMinuteMetrics().setMetricsLevel(MetricsLevel.DISABLED);
        properties.getCors().getCorsRules().add(rule);
        client.uploadServiceProperties(properties);

        ServiceProperties now = client.downloadServiceProperties();
        assertEquals(EnumSet.of(LoggingOperations.READ, LoggingOperations.DELETE), now.getLogging().getLogOperationTypes());
        assertEquals(7, now.getLogging().getRetentionIntervalInDays());
        assertEquals(MetricsLevel.SERVICE_AND_API, now.getHourMetrics().getMetricsLevel());
        assertEquals(8, now.getHourMetrics().getRetentionIntervalInDays());
        assertEquals(MetricsLevel.DISABLED, now.getMinuteMetrics().getMetricsLevel());
        CorsRule found = now.getCors().getCorsRules().get(0);
        assertEquals(rule.getAllowedOrigins(), found.getAllowedOrigins());
        assertEquals(rule.getAllowedMethods(), found.getAllowedMethods());
        assertEquals(rule.getAllowedHeaders(), found.getAllowedHeaders());
        assertEquals(300, found.getMaxAgeInSeconds());
    }

    @Test
    void everyMethodThatTheClientKnowsInARule() throws Exception {
        CorsRule rule = new CorsRule();
        rule.setAllowedOrigins(List.of("*"));
        rule.setAllowedMethods(EnumSet.allOf(CorsHttpMethods.class));
        ServiceProperties properties = new ServiceProperties();
        properties.getCors().getCorsRules().add(rule);
        client.uploadServiceProperties(properties);
        CorsRule found = client.downloadServiceProperties().getCors().getCorsRules().get(0);
        assertEquals(rule.getAllowedMethods(), found.getAllowedMethods());
    }

    private static TableRequestOptions secondaryOnly() {
        TableRequestOptions options = new TableRequestOptions();
        options.setLocationMode(LocationMode.SECONDARY_ONLY);
        return options;
    }

    @Test
    void statistics() throws Exception {
        GeoReplicationStats replication = client.getServiceStats(secondaryOnly(), null).getGeoReplication();
        assertEquals(GeoReplicationStatus.LIVE, replication.getStatus());
        assertNotNull(replication.getLastSyncTime());
    }

    @Test
    void theSecondaryEndpointReads() throws Exception {
        STORAGE.table.execute(TableOperation.insert(new Car("p", "r")));
        Car found = STORAGE.table.execute(TableOperation.retrieve("p", "r", Car.class), secondaryOnly(), null).getResultAsType();
        assertEquals("r", found.getRowKey());
    }

    @Test
    void aWrongKey() {
        CloudTable wrong = Storage.table(
            Storage.client(new StorageCredentialsAccountAndKey(Target.ACCOUNT, Target.WRONG_KEY)), STORAGE.table.getName());
        Storage.assertRefused(403, "AuthenticationFailed", () -> wrong.execute(TableOperation.insert(new Car("p", "x"))));
    }
}
