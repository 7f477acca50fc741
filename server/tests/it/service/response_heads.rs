//! The heads of responses that follow each other on one connection. The client fails if a name is not spelled as the
//! service spells it (02 §3), whatever the response before it was.

use crate::Server;
use test_support::head;

#[test]
fn responses_with_and_without_bodies_on_one_connection() {
    let server = Server::with_tables(&["tab"]);
    let entity = r#"{"PartitionKey":"p","RowKey":"r"}"#;
    let length = entity.len().to_string();
    let insert = |preference| {
        let headers = [("Content-Length", length.as_str()), ("Prefer", preference)];
        format!("{}{entity}", head("POST", "/tab", &headers))
    };
    let entity_path = "/tab(PartitionKey='p',RowKey='r')";
    let round = [
        (insert("return-no-content"), 204),
        (head("HEAD", entity_path, &[]), 405),
        (insert("return-content"), 409),
        (head("GET", entity_path, &[]), 200),
        (head("DELETE", entity_path, &[("If-Match", "*")]), 204),
        (head("GET", "/tab()?$filter=x%20eq", &[]), 400),
        (insert("return-content"), 201),
        (head("DELETE", entity_path, &[("If-Match", "*")]), 204),
        (head("OPTIONS", "/tab", &[]), 400),
    ];
    // One request at a time, and all at once.
    for is_pipelined in [false, true] {
        let mut client = server.client();
        if is_pipelined {
            client.send(round.iter().map(|(request, _)| request.as_str()).collect::<String>().as_bytes()).unwrap();
        }
        for (request, status) in &round {
            if !is_pipelined {
                client.send(request.as_bytes()).unwrap();
            }
            let is_head = request.starts_with("HEAD");
            let response = if is_head { client.receive_head() } else { client.receive() }.unwrap();
            assert_eq!(response.status, *status, "{request}");
            // 02 §3.
            let length = response.header("content-length").unwrap();
            assert_eq!(length == "0", *status == 204, "{request}: {length}");
        }
        // The HTTP library responds to it.
        client.send(b"GET / HTTP/1.1\r\nno header\r\n\r\n").unwrap();
        assert_eq!(client.receive().unwrap().status, 400);
    }
    server.assert_unharmed();
}
