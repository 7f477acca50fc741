use crate::support::{customer, new_table};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The field with the thread that opened a span.
const THREAD: &str = "thread";

fn this_thread() -> String {
    format!("{:?}", std::thread::current().id())
}

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<BTreeMap<String, String>>>>);

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("rowhouse_client")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut spans = self.0.lock().unwrap();
        let mut fields = BTreeMap::from([("span".to_owned(), span.metadata().name().to_owned())]);
        fields.insert(THREAD.to_owned(), this_thread());
        span.record(&mut Fields(&mut fields));
        spans.push(fields);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut spans = self.0.lock().unwrap();
        let at = usize::try_from(span.into_u64()).unwrap() - 1;
        values.record(&mut Fields(&mut spans[at]));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn an_operation_is_a_span_without_secrets() {
    let (_account, table) = new_table().await;
    let spans = Spans::default();
    // While other threads register callsites, a subscriber of only one thread may miss spans.
    tracing::subscriber::set_global_default(spans.clone()).unwrap();
    table.insert(&customer("Turin", "1", 1)).await.unwrap();
    let error = table.with_client_request_id("visit-7").insert(&customer("Turin", "1", 1)).await.unwrap_err();
    let spans: Vec<_> = spans.0.lock().unwrap().iter().filter(|span| span[THREAD] == this_thread()).cloned().collect();
    let field = |at: usize, name: &str| spans[at].get(name).map_or("", String::as_str);
    assert_eq!(spans.len(), 2, "{spans:?}");
    assert_eq!(field(0, "span"), "table_operation");
    assert_eq!(field(0, "what"), format!("inserting an entity into the table '{}'", table.name()));
    assert_eq!((field(0, "attempts"), field(0, "status"), field(0, "code")), ("1", "204", ""));
    assert_eq!((field(1, "status"), field(1, "code")), ("409", "\"EntityAlreadyExists\""));
    assert!(!field(1, "request_id").is_empty());
    assert_eq!((field(1, "client_request_id"), error.client_request_id()), ("\"visit-7\"", Some("visit-7")));
    assert_eq!(field(0, "client_request_id").len(), 2 + 32, "a random id in quotes");
    let all = format!("{spans:?}");
    assert!(!all.contains("SharedKey") && !all.contains("Eby8"), "{all}");
}
