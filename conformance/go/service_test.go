package conformance

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

// withBody replaces the body of requests.
type withBody string

func (body withBody) Do(request *http.Request) (*http.Response, error) {
	request.Body, request.ContentLength = io.NopCloser(strings.NewReader(string(body))), int64(len(body))
	return http.DefaultClient.Do(request)
}

// removeRules removes every CORS rule. The client cannot: it omits an empty list, which keeps the rules.
func removeRules(t *testing.T) {
	t.Helper()
	changed := options()
	changed.Transport = withBody("<StorageServiceProperties><Cors/></StorageServiceProperties>")
	service, err := aztables.NewServiceClientWithSharedKey(endpoint, credential(t), changed)
	check(t, err)
	_, err = service.SetProperties(context.Background(), aztables.ServiceProperties{}, nil)
	check(t, err)
	properties, err := service.GetProperties(context.Background(), nil)
	check(t, err)
	equal(t, len(properties.Cors), 0)
}

func TestServiceProperties(t *testing.T) {
	service := newService(t)
	before, err := service.GetProperties(context.Background(), nil)
	check(t, err)
	t.Cleanup(func() {
		_, err := service.SetProperties(context.Background(), before.ServiceProperties, nil)
		check(t, err)
		if len(before.Cors) == 0 {
			removeRules(t)
		}
	})

	version, days := to.Ptr("1.0"), &aztables.RetentionPolicy{Enabled: to.Ptr(true), Days: to.Ptr[int32](5)}
	wanted := aztables.ServiceProperties{
		Logging:       &aztables.Logging{Version: version, Delete: to.Ptr(true), Read: to.Ptr(false), Write: to.Ptr(true), RetentionPolicy: days},
		HourMetrics:   &aztables.Metrics{Version: version, Enabled: to.Ptr(true), IncludeAPIs: to.Ptr(true), RetentionPolicy: days},
		MinuteMetrics: &aztables.Metrics{Version: version, Enabled: to.Ptr(false), RetentionPolicy: &aztables.RetentionPolicy{Enabled: to.Ptr(false)}},
		Cors: []*aztables.CorsRule{{
			AllowedOrigins: to.Ptr("https://example.com,https://example.org"), AllowedMethods: to.Ptr("GET,PUT"),
			AllowedHeaders: to.Ptr("x-ms-*"), ExposedHeaders: to.Ptr("etag"), MaxAgeInSeconds: to.Ptr[int32](60),
		}},
	}
	_, err = service.SetProperties(context.Background(), wanted, nil)
	check(t, err)
	set, err := service.GetProperties(context.Background(), nil)
	check(t, err)
	equal(t, *set.Logging.Delete && !*set.Logging.Read && *set.Logging.Write, true)
	equal(t, *set.Logging.RetentionPolicy.Days, 5)
	equal(t, *set.HourMetrics.Enabled && *set.HourMetrics.IncludeAPIs, true)
	equal(t, *set.MinuteMetrics.Enabled, false)
	equal(t, len(set.Cors), 1)
	equal(t, *set.Cors[0].AllowedOrigins, *wanted.Cors[0].AllowedOrigins)
	equal(t, *set.Cors[0].MaxAgeInSeconds, 60)

	wanted.Logging.RetentionPolicy = &aztables.RetentionPolicy{Enabled: to.Ptr(true), Days: to.Ptr[int32](366)}
	_, err = service.SetProperties(context.Background(), wanted, nil)
	refused(t, err, 400, "InvalidXmlDocument")
}

func TestStatisticsComeFromTheSecondaryEndpoint(t *testing.T) {
	_, err := newService(t).GetStatistics(context.Background(), nil)
	refused(t, err, 400, "InvalidQueryParameterValue")

	secondary := strings.Replace(endpoint, "/"+account+"/", "/"+account+"-secondary/", 1)
	secondary = strings.Replace(secondary, "//"+account+".", "//"+account+"-secondary.", 1)
	service, err := aztables.NewServiceClientWithSharedKey(secondary, credential(t), options())
	check(t, err)
	statistics, err := service.GetStatistics(context.Background(), nil)
	check(t, err)
	equal(t, *statistics.GeoReplication.Status, aztables.GeoReplicationStatusLive)
	if statistics.GeoReplication.LastSyncTime == nil || statistics.GeoReplication.LastSyncTime.IsZero() {
		t.Error("the time of the last synchronisation is missing")
	}
}
