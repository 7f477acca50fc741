using Azure.Data.Tables.Models;
using Conformance.Support;
using Xunit;

namespace Conformance.Tables;

/// <summary>Service properties and statistics.</summary>
public class ServiceTests(SharedServer server) : TablesTest(server)
{
    [Fact]
    public async Task PropertiesAreKept()
    {
        TableServiceProperties properties = await Service.GetPropertiesAsync();
        Assert.Empty(properties.Cors);
        properties.Logging = new("1.0", delete: true, read: false, write: true, new(true) { Days = 7 });
        properties.HourMetrics = new(true) { Version = "1.0", IncludeApis = true, RetentionPolicy = new(true) { Days = 3 } };
        properties.Cors.Add(new("https://app.example", "GET,PUT", "x-ms-*", "etag", 60));
        Assert.Equal(202, (await Service.SetPropertiesAsync(properties)).Status);
        TableServiceProperties stored = await Service.GetPropertiesAsync();
        Assert.Equal((true, false, true), (stored.Logging.Delete, stored.Logging.Read, stored.Logging.Write));
        Assert.Equal(7, stored.Logging.RetentionPolicy.Days);
        Assert.Equal((true, 3), (stored.HourMetrics.IncludeApis, stored.HourMetrics.RetentionPolicy.Days));
        Assert.False(stored.MinuteMetrics.Enabled);
        var rule = Assert.Single(stored.Cors);
        Assert.Equal(("https://app.example", "GET,PUT", 60), (rule.AllowedOrigins, rule.AllowedMethods, rule.MaxAgeInSeconds));
        Assert.Equal(("x-ms-*", "etag"), (rule.AllowedHeaders, rule.ExposedHeaders));
    }

    [Fact]
    public async Task InvalidPropertiesAreRefused()
    {
        TableServiceProperties properties = await Service.GetPropertiesAsync();
        properties.HourMetrics = new(true) { Version = "1.0", IncludeApis = true, RetentionPolicy = new(true) { Days = 366 } };
        var error = await Refusal.AssertAsync(400, null, () => Service.SetPropertiesAsync(properties));
        Assert.Contains("InvalidXml", error.Message);
    }

    /// <summary>The client reads statistics from the secondary endpoint.</summary>
    [Fact]
    public async Task StatisticsAreThere()
    {
        TableServiceStatistics statistics = await Service.GetStatisticsAsync();
        Assert.Equal(TableGeoReplicationStatus.Live, statistics.GeoReplication.Status);
        Assert.InRange(statistics.GeoReplication.LastSyncedOn, DateTimeOffset.UtcNow.AddHours(-1), DateTimeOffset.UtcNow.AddMinutes(1));
    }
}
