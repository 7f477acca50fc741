//! The properties and statistics of an account (10 §1, §6).

use crate::Layer::FrontEnd;
use crate::{Case, Server, check, delete, get, post, put};

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
            post(PROPERTIES, "").fails(405, "UnsupportedHttpVerb", FrontEnd),
            delete(PROPERTIES).fails(405, "UnsupportedHttpVerb", FrontEnd),
            // A client whose endpoint ends with a table's name (02 §1)
            get("/cars/?restype=service&comp=properties").fails(400, "InvalidQueryParameterValue", FrontEnd),
            put("/?restype=service&comp=stats", "").fails(405, "UnsupportedHttpVerb", FrontEnd),
        ],
    );
}

const RULE: &str = "<CorsRule><AllowedMethods>GET,PUT</AllowedMethods><AllowedOrigins>https://a.example</AllowedOrigins><AllowedHeaders>accept,x-ms-*</AllowedHeaders><ExposedHeaders /><MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule>";

fn set(sections: &str) -> Case {
    put(PROPERTIES, &format!("<StorageServiceProperties>{sections}</StorageServiceProperties>"))
}

fn done(case: Case) -> Case {
    case.ok(202).layer(FrontEnd)
}

#[test]
fn sections_that_are_given_are_replaced() {
    let stored = |sections: [&str; 4]| {
        let root = format!("<StorageServiceProperties>{}</StorageServiceProperties>", sections.concat());
        // Account with rules: `Vary` (10 §5)
        let case = get(PROPERTIES).ok(200).xml(&root);
        if sections[3] == "<Cors />" { case } else { case.header("vary", "Origin") }
    };
    let logging = |read| {
        format!(
            "<Logging><Version>1.0</Version><Read>{read}</Read><Write>false</Write><Delete>false</Delete>{OFF}</Logging>"
        )
    };
    let off = |name: &str| format!("<{name}><Version>1.0</Version><Enabled>false</Enabled>{OFF}</{name}>");
    let on = "<MinuteMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>false</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy></MinuteMetrics>";
    let (hour, minute, read) = (off("HourMetrics"), off("MinuteMetrics"), logging("true"));
    let cors = format!("<Cors>{RULE}</Cors>");
    // Children in any order, any letter case of Booleans (10 §1).
    let shuffled = format!(
        "<Logging>{OFF}<Delete> False </Delete><Read>TRUE</Read><Write>false</Write><Version>1.0</Version></Logging>"
    );
    let five = format!("<Cors>{}</Cors>", RULE.repeat(5));
    check(
        &Server::start(),
        [
            done(set(&shuffled).with("Content-Type", "application/atom+xml")),
            stored([&read, &hour, &minute, "<Cors />"]),
            done(set(on)),
            stored([&read, &hour, on, "<Cors />"]),
            done(set(&cors)),
            stored([&read, &hour, on, &cors]),
            done(set(&minute)),
            stored([&read, &hour, &minute, &cors]),
            done(set(&five)),
            done(set("<Cors/>")),
            stored([&read, &hour, &minute, "<Cors />"]),
            // Before 2013-08-15, both sections are required (10 §1).
            done(set(&(logging("false") + &off("Metrics"))).version("2012-02-12")),
            set(&logging("true")).version("2012-02-12").fails(400, "InvalidXmlDocument", FrontEnd),
            stored([&logging("false"), &hour, &minute, "<Cors />"]),
        ],
    );
}

#[test]
fn sections_that_are_refused() {
    let xml = "XML specified is not syntactically valid.";
    let value = "The value for one of the XML nodes is not in the correct format.";
    let cors = |rule: &str| set(&format!("<Cors>{rule}</Cors>"));
    check(
        &Server::start(),
        [
            put(PROPERTIES, "").fails(400, "InvalidXmlDocument", FrontEnd),
            set("<Other/>").fails(400, "InvalidXmlDocument", FrontEnd).says(xml),
            cors(&RULE.repeat(6)).fails(400, "InvalidXmlDocument", FrontEnd).says(xml),
            cors(&RULE.replace("GET,PUT", "FETCH")).fails(400, "InvalidXmlNodeValue", FrontEnd).says(value),
            cors(&RULE.replace("x-ms-*", "a*,b*,c*")).fails(400, "InvalidXmlNodeValue", FrontEnd).says(value),
            get(PROPERTIES).answers(200, None),
        ],
    );
}

const STATS: &str = "/?restype=service&comp=stats";
const LIVE: &str = "<StorageServiceStats><GeoReplication><Status>live</Status><LastSyncTime>Fri, 14 Mar 2031 08:15:30 GMT</LastSyncTime></GeoReplication></StorageServiceStats>";

#[test]
fn only_the_secondary_endpoint_has_statistics() {
    let secondary = format!("-secondary{STATS}");
    check(
        &Server::start(),
        [
            get(&secondary).ok(200).xml(LIVE),
            get(&secondary).without("Accept").ok(200).xml(LIVE),
            get(STATS).fails(400, "InvalidQueryParameterValue", FrontEnd),
            Case::new("HEAD", &secondary, "").answers(405, "UnsupportedHttpVerb"),
        ],
    );
    // A setting allows it on the primary endpoint in path style, because the JavaScript client asks there.
    let server = Server::with(|settings| settings.stats_on_primary = true);
    check(&server, [get(STATS).ok(200).xml(LIVE), get(&secondary).ok(200).xml(LIVE)]);
}
