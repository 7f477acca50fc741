//! Get Table Service Properties (10 §1).

use crate::Layer::FrontEnd;
use crate::{Server, check, get, put};

const PROPERTIES: &str = "/?restype=service&comp=properties";
const OFF: &str = "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";

fn logging() -> String {
    format!(
        "<Logging><Version>1.0</Version><Read>false</Read><Write>false</Write><Delete>false</Delete>{OFF}</Logging>"
    )
}

fn metrics(name: &str) -> String {
    format!("<{name}><Version>1.0</Version><Enabled>false</Enabled>{OFF}</{name}>")
}

#[test]
fn the_properties_of_a_new_account() {
    let root = |sections: &str| format!("<StorageServiceProperties>{sections}</StorageServiceProperties>");
    let all = root(&[logging(), metrics("HourMetrics"), metrics("MinuteMetrics"), "<Cors />".to_owned()].concat());
    let early = root(&(logging() + &metrics("Metrics")));
    check(
        &Server::start(),
        [
            get(PROPERTIES).ok(200).xml(&all),
            get("?comp=properties&restype=service&timeout=5").without("Accept").ok(200).xml(&all),
            get(PROPERTIES).version("2012-02-12").ok(200).xml(&early),
        ],
    );
    // A server that keeps metrics has them on, as the service (10 §1).
    let on = "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>7</Days></RetentionPolicy></HourMetrics>";
    let kept = all.replace(&metrics("HourMetrics"), on);
    check(&Server::with(|settings| settings.has_analytics = true), [get(PROPERTIES).ok(200).xml(&kept)]);
}

#[test]
fn addresses_and_methods_that_are_refused() {
    let query = |options: &str| get(&format!("/?{options}"));
    check(
        &Server::with_tables(&["cars"]),
        [
            query("restype=service").fails(400, "MissingRequiredQueryParameter", FrontEnd),
            query("comp=properties").fails(400, "MissingRequiredQueryParameter", FrontEnd),
            query("restype=service&comp=other").fails(400, "InvalidQueryParameterValue", FrontEnd),
            query("restype=other&comp=properties").fails(400, "InvalidQueryParameterValue", FrontEnd),
            crate::post(PROPERTIES, "").fails(405, "UnsupportedHttpVerb", FrontEnd),
            crate::delete(PROPERTIES).fails(405, "UnsupportedHttpVerb", FrontEnd),
            // A client whose endpoint ends with a table's name (02 §1)
            get("/cars/?restype=service&comp=properties").fails(400, "InvalidQueryParameterValue", FrontEnd),
            put("/?restype=service&comp=stats", "").fails(405, "UnsupportedHttpVerb", FrontEnd),
        ],
    );
}
