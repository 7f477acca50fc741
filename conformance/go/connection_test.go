package conformance

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
)

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
			equal(t, answer.StatusCode, 403)
			if answer.Close {
				break
			}
		}
	}
}
