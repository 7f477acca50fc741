package conformance

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
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

// list returns the table names on all pages, and the number of names on each page.
func list(t *testing.T, service *aztables.ServiceClient, options *aztables.ListTablesOptions) ([]string, []int) {
	t.Helper()
	var names []string
	var pages []int
	for pager := service.NewListTablesPager(options); pager.More(); {
		page, err := pager.NextPage(context.Background())
		check(t, err)
		pages = append(pages, len(page.Tables))
		for _, table := range page.Tables {
			names = append(names, *table.Name)
		}
	}
	return names, pages
}

func TestTablesAreCreatedListedAndDeleted(t *testing.T) {
	service, name := newService(t), newName()
	_, err := service.CreateTable(context.Background(), name, nil)
	check(t, err)
	all, _ := list(t, service, nil)
	equal(t, slices.Contains(all, name), true)

	// Table names are unique regardless of case.
	_, err = service.CreateTable(context.Background(), strings.ToUpper(name), nil)
	refused(t, err, 409, "TableAlreadyExists")

	_, err = service.DeleteTable(context.Background(), name, nil)
	check(t, err)
	all, _ = list(t, service, nil)
	equal(t, slices.Contains(all, name), false)
	_, err = service.DeleteTable(context.Background(), name, nil)
	refused(t, err, 404, "ResourceNotFound")
}

func TestAListOfTablesHasFiltersAndPages(t *testing.T) {
	service, prefix := newService(t), newName()
	var names []string
	for _, end := range []string{"a", "b", "c", "d", "e"} {
		names = append(names, prefix+end)
		_, err := service.CreateTable(context.Background(), prefix+end, nil)
		check(t, err)
		t.Cleanup(func() {
			_, err := service.DeleteTable(context.Background(), prefix+end, nil)
			check(t, err)
		})
	}
	filter := "TableName ge '" + prefix + "' and TableName lt '" + prefix + "z'"
	found, pages := list(t, service, &aztables.ListTablesOptions{Filter: &filter})
	equal(t, strings.Join(found, " "), strings.Join(names, " "))
	equal(t, len(pages), 1)

	found, pages = list(t, service, &aztables.ListTablesOptions{Filter: &filter, Top: to.Ptr[int32](2)})
	equal(t, strings.Join(found, " "), strings.Join(names, " "))
	if pages[0] != 2 {
		t.Errorf("the first page should have two tables: %v", pages)
	}

	one := "TableName eq '" + names[3] + "'"
	found, _ = list(t, service, &aztables.ListTablesOptions{Filter: &one})
	equal(t, strings.Join(found, " "), names[3])
}

func TestNamesOfTablesAreChecked(t *testing.T) {
	service := newService(t)
	for name, code := range map[string]string{
		"1starts":               "InvalidResourceName",
		"with-hyphen":           "InvalidResourceName",
		"ab":                    "OutOfRangeInput",
		strings.Repeat("a", 64): "OutOfRangeInput",
	} {
		_, err := service.CreateTable(context.Background(), name, nil)
		refused(t, err, 400, code)
	}
}

// Clients send the head of a request and its body separately, and reuse the connection after the response. A server
// that refuses a request before it has read the body, and therefore closes the connection, must announce that.
// Otherwise, the next request on the connection fails without a visible reason.
func TestARefusalBeforeTheBodyLeavesTheConnectionUsable(t *testing.T) {
	address, err := url.Parse(endpoint)
	check(t, err)
	for range 20 {
		var connection net.Conn
		if address.Scheme == "https" {
			connection, err = tls.Dial("tcp", address.Host, nil)
		} else {
			connection, err = net.Dial("tcp", address.Host)
		}
		check(t, err)
		defer connection.Close()
		reader := bufio.NewReader(connection)
		head := "POST " + address.Path + "Tables HTTP/1.1\r\nHost: " + address.Host + "\r\n" +
			"Content-Type: application/json\r\nx-ms-version: 2019-02-02\r\nContent-Length: 19\r\n\r\n"
		for range 2 {
			for _, part := range []string{head, `{"TableName":"one"}`} {
				_, err = io.WriteString(connection, part)
				check(t, err)
			}
			answer, err := http.ReadResponse(reader, nil)
			check(t, err)
			_, err = io.Copy(io.Discard, answer.Body)
			check(t, err)
			equal(t, answer.StatusCode, 404)
			if answer.Close {
				break
			}
		}
	}
}
