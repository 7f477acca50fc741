//! Set Table Service Properties (10 §1).

use crate::Layer::FrontEnd;
use crate::{Case, Server, check, get, put};

const PROPERTIES: &str = "/?restype=service&comp=properties";
const OFF: &str = "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";
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
    let metrics = |more: &str| format!("<HourMetrics><Version>1.0</Version>{more}</HourMetrics>");
    let days = |enabled: bool, days: &str| {
        metrics(&format!(
            "<Enabled>false</Enabled><RetentionPolicy><Enabled>{enabled}</Enabled>{days}</RetentionPolicy>"
        ))
    };
    let cors = |rules: &str| format!("<Cors>{rules}</Cors>");
    let origins = (0..65).map(|number| format!("https://{number}.example")).collect::<Vec<_>>().join(",");
    let server = Server::start();
    let refused = |code| move |sections: String| set(&sections).fails(400, code, FrontEnd);
    check(
        &server,
        [
            String::new(),
            "<Logging>".to_owned(),
            days(true, "<Days>366</Days>"),
            days(true, "<Days>0</Days>"),
            days(true, ""),
            days(false, "<Days>5</Days>"),
            metrics(&format!("<Enabled>true</Enabled>{OFF}")),
            metrics(&format!("<Enabled>maybe</Enabled>{OFF}")),
            days(true, "<Days>5</Days>").replace("1.0", "2.0"),
            cors(&RULE.repeat(6)),
            cors(&RULE.replace("<ExposedHeaders />", "")),
            "<Other/>".to_owned(),
        ]
        .map(refused("InvalidXmlDocument"))
        .map(|case| case.says("XML specified is not syntactically valid.")),
    );
    check(
        &server,
        [
            cors(&RULE.replace("https://a.example", &origins)),
            cors(&RULE.replace("GET,PUT", "FETCH")),
            cors(&RULE.replace("x-ms-*", "a*,b*,c*")),
        ]
        .map(refused("InvalidXmlNodeValue"))
        .map(|case| case.says("The value for one of the XML nodes is not in the correct format.")),
    );
    check(&server, [put(PROPERTIES, "").fails(400, "InvalidXmlDocument", FrontEnd)]);
    check(&server, [get(PROPERTIES).answers(200, None)]);
}
