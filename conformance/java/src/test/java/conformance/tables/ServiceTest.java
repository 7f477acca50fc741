package conformance.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.models.TableServiceCorsRule;
import com.azure.data.tables.models.TableServiceGeoReplicationStatus;
import com.azure.data.tables.models.TableServiceLogging;
import com.azure.data.tables.models.TableServiceMetrics;
import com.azure.data.tables.models.TableServiceProperties;
import com.azure.data.tables.models.TableServiceRetentionPolicy;
import conformance.Target;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Service properties (which belong to the whole account, so each case restores them) and statistics. */
class ServiceTest {
    private final TableServiceClient service = Tables.serviceBuilder().credential(Tables.credential()).buildClient();
    private TableServiceProperties before;

    @BeforeEach
    void keep() {
        before = service.getProperties();
    }

    @AfterEach
    void restore() {
        service.setProperties(before);
    }

    @Test
    void propertiesThereAndBack() {
        TableServiceRetentionPolicy week = new TableServiceRetentionPolicy().setEnabled(true).setDaysToRetain(7);
        service.setProperties(new TableServiceProperties()
            .setLogging(new TableServiceLogging().setAnalyticsVersion("1.0").setDeleteLogged(true).setRetentionPolicy(week))
            .setHourMetrics(new TableServiceMetrics().setVersion("1.0").setEnabled(true).setIncludeApis(true).setRetentionPolicy(week))
            .setMinuteMetrics(new TableServiceMetrics().setVersion("1.0").setEnabled(false)
                .setRetentionPolicy(new TableServiceRetentionPolicy().setEnabled(false)))
            .setCorsRules(List.of(new TableServiceCorsRule().setAllowedOrigins("https://a.example,https://b.example")
                .setAllowedMethods("GET,PUT").setAllowedHeaders("x-ms-*").setExposedHeaders("*").setMaxAgeInSeconds(300))));

        TableServiceProperties now = service.getProperties();
        assertEquals("1.0", now.getLogging().getAnalyticsVersion());
        assertEquals(List.of(false, false, true),
            List.of(now.getLogging().isReadLogged(), now.getLogging().isWriteLogged(), now.getLogging().isDeleteLogged()));
        assertEquals(7, now.getLogging().getRetentionPolicy().getDaysToRetain());
        assertTrue(now.getHourMetrics().isEnabled() && now.getHourMetrics().isIncludeApis());
        assertEquals(7, now.getHourMetrics().getTableServiceRetentionPolicy().getDaysToRetain());
        assertEquals(false, now.getMinuteMetrics().isEnabled());
        TableServiceCorsRule rule = now.getCorsRules().get(0);
        assertEquals("https://a.example,https://b.example", rule.getAllowedOrigins());
        assertEquals(List.of("GET,PUT", "x-ms-*", "*"),
            List.of(rule.getAllowedMethods(), rule.getAllowedHeaders(), rule.getExposedHeaders()));
        assertEquals(300, rule.getMaxAgeInSeconds());
    }

    @Test
    void moreThanFiveRulesAreRefused() {
        TableServiceCorsRule rule = new TableServiceCorsRule().setAllowedOrigins("*").setAllowedMethods("GET")
            .setAllowedHeaders("").setExposedHeaders("").setMaxAgeInSeconds(1);
        Tables.assertRefused(400, "InvalidXmlDocument",
            () -> service.setProperties(new TableServiceProperties().setCorsRules(Collections.nCopies(6, rule))));
    }

    @Test
    void statisticsOfTheSecondaryEndpoint() {
        TableServiceClient secondary =
            Tables.serviceBuilder().endpoint(Target.SECONDARY).credential(Tables.credential()).buildClient();
        var replication = secondary.getStatistics().getGeoReplication();
        assertEquals(TableServiceGeoReplicationStatus.LIVE, replication.getStatus());
        assertNotNull(replication.getLastSyncTime());
    }
}
