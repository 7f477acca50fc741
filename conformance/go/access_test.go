package conformance

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

var (
	anHourAgo = time.Now().UTC().Add(-time.Hour)
	tomorrow  = time.Now().UTC().Add(24 * time.Hour)
)

// withSignature creates a client for a table that uses a shared access signature instead of the key.
func withSignature(t *testing.T, name string, values aztables.SASSignatureValues) *aztables.Client {
	t.Helper()
	values.TableName = name
	signature, err := values.Sign(credential(t))
	check(t, err)
	// The client signs the key range but omits it from the query.
	query, err := url.ParseQuery(signature)
	check(t, err)
	for parameter, value := range map[string]string{
		"spk": values.StartPartitionKey, "srk": values.StartRowKey, "epk": values.EndPartitionKey, "erk": values.EndRowKey,
	} {
		if value != "" {
			query.Set(parameter, value)
		}
	}
	table, err := aztables.NewClientWithNoCredential(endpoint+name+"?"+query.Encode(), options())
	check(t, err)
	return table
}

func TestAReaderOfATableDoesNotWrite(t *testing.T) {
	table, name := newTable(t)
	add(t, table, "p", "r", nil)
	reader := withSignature(t, name, aztables.SASSignatureValues{Permissions: "r", StartTime: anHourAgo, ExpiryTime: tomorrow})
	found, _ := query(t, reader, nil)
	equal(t, keys(found), "p/r")
	equal(t, get(t, reader, "p", "r").RowKey, "r")

	_, err := reader.AddEntity(context.Background(), encode(t, "p", "new", nil), nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
	_, err = reader.UpdateEntity(context.Background(), encode(t, "p", "r", nil), nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
	_, err = reader.DeleteEntity(context.Background(), "p", "r", nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
	// A table signature covers neither the table itself nor its policies, whatever its permissions.
	_, err = reader.Delete(context.Background(), nil)
	refused(t, err, 403, "AuthorizationFailure")
}

func TestTheSignatureThatTheClientMakesItself(t *testing.T) {
	table, _ := newTable(t)
	address, err := table.GetTableSASURL(aztables.SASPermissions{Add: true}, anHourAgo, tomorrow)
	check(t, err)
	writer, err := aztables.NewClientWithNoCredential(address, options())
	check(t, err)
	add(t, writer, "p", "r", nil)
	_, err = writer.GetEntity(context.Background(), "p", "r", nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
	equal(t, get(t, table, "p", "r").RowKey, "r")
}

func TestASignatureHasAKeyRange(t *testing.T) {
	table, name := newTable(t)
	for _, partition := range []string{"a", "b", "c"} {
		add(t, table, partition, "1", nil)
		add(t, table, partition, "2", nil)
	}
	ranged := withSignature(t, name, aztables.SASSignatureValues{
		Permissions: "rau", ExpiryTime: tomorrow,
		StartPartitionKey: "a", StartRowKey: "2", EndPartitionKey: "b", EndRowKey: "1",
	})
	found, _ := query(t, ranged, nil)
	equal(t, keys(found), "a/2 b/1")
	_, err := ranged.GetEntity(context.Background(), "a", "1", nil)
	refused(t, err, 404, "ResourceNotFound")
	_, err = ranged.UpdateEntity(context.Background(), encode(t, "b", "1", nil), nil)
	check(t, err)
	_, err = ranged.AddEntity(context.Background(), encode(t, "c", "3", nil), nil)
	refused(t, err, 403, "AuthorizationFailure")
}

func TestASignatureIsValidForATimeAndAKey(t *testing.T) {
	_, name := newTable(t)
	for _, values := range []aztables.SASSignatureValues{
		{Permissions: "r", ExpiryTime: anHourAgo},
		{Permissions: "r", StartTime: tomorrow, ExpiryTime: tomorrow.Add(time.Hour)},
	} {
		_, err := withSignature(t, name, values).GetEntity(context.Background(), "p", "r", nil)
		refused(t, err, 403, "AuthenticationFailed")
	}
	forged, err := aztables.NewClientWithNoCredential(endpoint+name+"?sv=2019-02-02&tn="+name+"&sp=r&se=2099-01-01T00%3A00%3A00Z&sig=AAAA", options())
	check(t, err)
	_, err = forged.GetEntity(context.Background(), "p", "r", nil)
	refused(t, err, 403, "AuthenticationFailed")
}

func TestStoredAccessPolicies(t *testing.T) {
	table, name := newTable(t)
	start, expiry := anHourAgo.Truncate(time.Second), tomorrow.Truncate(time.Second)
	_, err := table.SetAccessPolicy(context.Background(), &aztables.SetAccessPolicyOptions{TableACL: []*aztables.SignedIdentifier{
		{ID: to.Ptr("readers"), AccessPolicy: &aztables.AccessPolicy{Start: &start, Expiry: &expiry, Permission: to.Ptr("r")}},
		{ID: to.Ptr("open"), AccessPolicy: &aztables.AccessPolicy{Permission: to.Ptr("ad")}},
	}})
	check(t, err)
	stored, err := table.GetAccessPolicy(context.Background(), nil)
	check(t, err)
	equal(t, len(stored.SignedIdentifiers), 2)
	readers, open := stored.SignedIdentifiers[0], stored.SignedIdentifiers[1]
	equal(t, *readers.ID+" "+*open.ID, "readers open")
	equal(t, *readers.AccessPolicy.Permission+" "+*open.AccessPolicy.Permission, "r ad")
	equal(t, readers.AccessPolicy.Start.Equal(start) && readers.AccessPolicy.Expiry.Equal(expiry), true)

	add(t, table, "p", "r", nil)
	reader := withSignature(t, name, aztables.SASSignatureValues{Identifier: "readers"})
	equal(t, get(t, reader, "p", "r").RowKey, "r")
	_, err = reader.AddEntity(context.Background(), encode(t, "p", "new", nil), nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
	writer := withSignature(t, name, aztables.SASSignatureValues{Identifier: "open", ExpiryTime: tomorrow})
	add(t, writer, "p", "new", nil)

	// Without the policy, the signature is invalid.
	_, err = table.SetAccessPolicy(context.Background(), nil)
	check(t, err)
	stored, err = table.GetAccessPolicy(context.Background(), nil)
	check(t, err)
	equal(t, len(stored.SignedIdentifiers), 0)
	_, err = reader.GetEntity(context.Background(), "p", "r", nil)
	refused(t, err, 403, "AuthenticationFailed")
}

// withAccountSignature creates a client for the account that uses an account signature instead of the key.
func withAccountSignature(t *testing.T, permissions, resourceTypes string) *aztables.ServiceClient {
	t.Helper()
	signature, err := aztables.AccountSASSignatureValues{
		Protocol: aztables.SASProtocolHTTPSandHTTP, StartTime: anHourAgo, ExpiryTime: tomorrow,
		Permissions: permissions, Services: "t", ResourceTypes: resourceTypes,
	}.Sign(credential(t))
	check(t, err)
	service, err := aztables.NewServiceClientWithNoCredential(endpoint+"?"+signature.Encode(), options())
	check(t, err)
	return service
}

func TestAnAccountSignature(t *testing.T) {
	table, name := newTable(t)
	add(t, table, "p", "r", nil)

	reader := withAccountSignature(t, "rl", "sco")
	equal(t, get(t, reader.NewClient(name), "p", "r").RowKey, "r")
	names, _ := list(t, reader, &aztables.ListTablesOptions{Filter: to.Ptr("TableName eq '" + name + "'")})
	equal(t, len(names), 1)
	_, err := reader.GetProperties(context.Background(), nil)
	check(t, err)
	_, err = reader.NewClient(name).AddEntity(context.Background(), encode(t, "p", "new", nil), nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")
	_, err = reader.CreateTable(context.Background(), newName(), nil)
	refused(t, err, 403, "AuthorizationPermissionMismatch")

	writer := withAccountSignature(t, "raud", "o")
	add(t, writer.NewClient(name), "p", "new", nil)
	_, err = writer.GetProperties(context.Background(), nil)
	refused(t, err, 403, "AuthorizationResourceTypeMismatch")

	owner, other := withAccountSignature(t, "rwdlacu", "co"), newName()
	_, err = owner.CreateTable(context.Background(), other, nil)
	check(t, err)
	_, err = owner.DeleteTable(context.Background(), other, nil)
	check(t, err)
}
