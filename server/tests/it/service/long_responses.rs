//! Bounds on the length of responses (04 §6).

use crate::Server;
use test_support::Client;

/// Reads all entities of a table, page by page. Returns their number and the length of the longest page.
fn read_all(client: &mut Client, query: &str, headers: &[(&str, &str)]) -> (usize, usize) {
    let (mut entities, mut longest, mut from) = (0, 0, String::new());
    loop {
        let page = client.request("GET", &format!("{query}{from}"), headers, b"");
        assert_eq!(page.status, 200, "{}", String::from_utf8_lossy(&page.body));
        entities += page.json()["value"].as_array().unwrap().len();
        longest = longest.max(page.body.len());
        let Some(row) = page.header("x-ms-continuation-nextrowkey") else { return (entities, longest) };
        let partition = page.header("x-ms-continuation-nextpartitionkey").unwrap();
        from = format!("&NextPartitionKey={partition}&NextRowKey={row}");
    }
}

#[test]
fn a_page_ends_before_its_body_is_too_long() {
    let server = Server::start();
    let mut client = server.client();
    let page_bytes_max = 4 * 1024 * 1024;
    for table in ["large", "small"] {
        let body = format!(r#"{{"TableName":"{table}"}}"#);
        assert_eq!(client.request("POST", "/Tables", &[], body.as_bytes()).status, 201);
    }
    let text = "x".repeat(32 * 1024 - 1);
    for row in 0..9 {
        let properties: Vec<String> = (0..15).map(|number| format!("\"P{number}\":\"{text}\"")).collect();
        let body = format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\",{}}}", properties.join(","));
        assert_eq!(client.request("POST", "/large", &[], body.as_bytes()).status, 201);
    }
    let first = client.request("GET", "/large()", &[], b"");
    assert_eq!(first.json()["value"].as_array().unwrap().len(), 8);
    assert!(first.body.len() < page_bytes_max && first.header("x-ms-continuation-nextrowkey").is_some());
    // Entities of a few bytes. In the response, every selected name has the value null, and every entity has
    // its URLs.
    let key = "\u{20AC}".repeat(500);
    for batch in 0..2 {
        let operation = |row| {
            let head = "--c\nContent-Type: application/http\n\nPOST /small HTTP/1.1";
            let entity = format!("{{\"PartitionKey\":\"{key}\",\"RowKey\":\"{key}{batch}{row:02}\"}}");
            format!("{head}\nPrefer: return-no-content\nContent-Type: application/json\n\n{entity}\n")
        };
        let operations: Vec<String> = (0..100).map(operation).collect();
        let start = "--b\nContent-Type: multipart/mixed; boundary=c\n\n";
        let body = format!("{start}{}--c--\n--b--\n", operations.concat());
        let batch = ("Content-Type", "multipart/mixed; boundary=b");
        assert_eq!(client.request("POST", "/$batch", &[batch], body.as_bytes()).status, 202);
    }
    let missing: Vec<String> = (0..200).map(|number| format!("{number:0>250}").replacen('0', "N", 1)).collect();
    let select = format!("/small()?$select={}", missing.join(","));
    let full = ("Accept", "application/json;odata=fullmetadata");
    for (query, headers) in [(select.as_str(), &[][..]), ("/small()?$top=1000", &[full][..])] {
        let (entities, longest) = read_all(&mut client, query, headers);
        assert_eq!(entities, 200);
        assert!((page_bytes_max / 2..=page_bytes_max).contains(&longest), "the longest page is {longest} bytes long");
    }
}
