//! Tests of service properties: recorded XML, byte for byte, and every kind of rejected XML.

use super::*;
use proptest::prelude::*;

const DECLARED: &str = "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?>";
const OFF: &str = "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";
const NEW: &str = "2019-02-02";
const OLD: &str = "2012-02-12";

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

/// Returns the properties of a new account after a client has set `body`.
fn round_trip(body: &str, at: &str) -> Result<String, ServicePropertiesError> {
    let properties = ServiceProperties::default().updated(read(body.as_bytes(), version(at))?);
    Ok(String::from_utf8(write(&properties, version(at))).unwrap())
}

fn section(name: &str, content: &str) -> String {
    format!("<StorageServiceProperties><{name}>{content}</{name}></StorageServiceProperties>")
}

fn retention(content: &str) -> String {
    section(
        "HourMetrics",
        &format!("<Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy>{content}</RetentionPolicy>"),
    )
}

fn rule(content: &str) -> String {
    section("Cors", &format!("<CorsRule>{content}</CorsRule>"))
}

const RULE: &str = "<AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods><AllowedHeaders/><ExposedHeaders/><MaxAgeInSeconds>0</MaxAgeInSeconds>";

#[test]
fn a_document_of_2014_as_recorded() {
    // The children are in any order and the Booleans in any letter case. The response has the order of the service.
    let body = "<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceProperties><MinuteMetrics><Version>1.0</Version><RetentionPolicy><Enabled>False</Enabled></RetentionPolicy><Enabled>False</Enabled></MinuteMetrics><HourMetrics><Version>1.0</Version><RetentionPolicy><Days>2</Days><Enabled>True</Enabled></RetentionPolicy><IncludeAPIs>true</IncludeAPIs><Enabled>True</Enabled></HourMetrics><Logging><Version>1.0</Version><Delete>False</Delete><RetentionPolicy><Days>5</Days><Enabled>True</Enabled></RetentionPolicy><Read>False</Read><Write>False</Write></Logging></StorageServiceProperties>";
    let expected = format!(
        "{DECLARED}<StorageServiceProperties><Logging><Version>1.0</Version><Read>false</Read><Write>false</Write><Delete>false</Delete><RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy></Logging><HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>2</Days></RetentionPolicy></HourMetrics><MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled>{OFF}</MinuteMetrics><Cors /></StorageServiceProperties>"
    );
    assert_eq!(round_trip(body, "2014-02-14"), Ok(expected));
}

#[test]
fn cors_rules_as_recorded() {
    let body = section(
        "Cors",
        "<CorsRule><AllowedOrigins>www.xyz.com</AllowedOrigins><AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>0</MaxAgeInSeconds><ExposedHeaders /><AllowedHeaders /></CorsRule><CorsRule><AllowedOrigins>www.xyz.com,www.ab.com,www.bc.com</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods><MaxAgeInSeconds>500</MaxAgeInSeconds><ExposedHeaders>x-ms-meta-data*,x-ms-meta-source*,x-ms-meta-abc,x-ms-meta-bcd</ExposedHeaders><AllowedHeaders>x-ms-meta-data*,x-ms-meta-target*,x-ms-meta-xyz,x-ms-meta-foo</AllowedHeaders></CorsRule>",
    );
    let written = round_trip(&body, NEW).unwrap();
    let expected = "<Cors><CorsRule><AllowedMethods>GET</AllowedMethods><AllowedOrigins>www.xyz.com</AllowedOrigins><AllowedHeaders /><ExposedHeaders /><MaxAgeInSeconds>0</MaxAgeInSeconds></CorsRule><CorsRule><AllowedMethods>GET,PUT</AllowedMethods><AllowedOrigins>www.xyz.com,www.ab.com,www.bc.com</AllowedOrigins><AllowedHeaders>x-ms-meta-xyz,x-ms-meta-foo,x-ms-meta-data*,x-ms-meta-target*</AllowedHeaders><ExposedHeaders>x-ms-meta-abc,x-ms-meta-bcd,x-ms-meta-data*,x-ms-meta-source*</ExposedHeaders><MaxAgeInSeconds>500</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>";
    assert!(written.ends_with(expected), "{written}");
}

#[test]
fn a_document_of_2012_has_two_sections() {
    let logging = format!(
        "<Logging><Version>1.0</Version><Delete>true</Delete><Read>false</Read><Write>false</Write>{OFF}</Logging>"
    );
    let metrics = format!(
        "<Metrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>false</IncludeAPIs>{OFF}</Metrics>"
    );
    let document = |content: &str| format!("<StorageServiceProperties>{content}</StorageServiceProperties>");
    let expected = format!(
        "{DECLARED}<StorageServiceProperties><Logging><Version>1.0</Version><Read>false</Read><Write>false</Write><Delete>true</Delete>{OFF}</Logging>{metrics}</StorageServiceProperties>"
    );
    assert_eq!(round_trip(&document(&format!("{metrics}{logging}")), OLD), Ok(expected));
    assert_eq!(round_trip(&document(&logging), OLD), Err(ServicePropertiesError::Missing("Metrics")));
    assert_eq!(round_trip(&document(&metrics), OLD), Err(ServicePropertiesError::Missing("Logging")));
    let with_cors = document(&format!("{logging}{metrics}<Cors/>"));
    assert_eq!(round_trip(&with_cors, OLD), Err(ServicePropertiesError::Unexpected("Cors".into())));
    assert_eq!(round_trip(&document(&metrics), NEW), Err(ServicePropertiesError::Unexpected("Metrics".into())));
}

#[test]
fn an_empty_cors_section_is_not_an_absent_one() {
    let cors = |body: &str| read(body.as_bytes(), version(NEW)).unwrap().cors;
    for present in ["<Cors/>", "<Cors></Cors>", "<Cors>\n  <!-- none -->\n</Cors>"] {
        let document = format!("<StorageServiceProperties>{present}</StorageServiceProperties>");
        assert_eq!(cors(&document), Some(CorsRules::default()), "{present}");
    }
    assert_eq!(cors(&retention("<Enabled>false</Enabled>")), None);
}

#[test]
fn what_clients_put_around_a_document_is_accepted() {
    let content = "<StorageServiceProperties>\r\n <Cors /> <!-- no rules -->\n</StorageServiceProperties>\n";
    for before in
        ["", "\u{FEFF}", "<?xml version='1.0' encoding='utf-8'?>\n", "\u{FEFF}<?xml version=\"1.0\"?><!-- c -->"]
    {
        assert!(read(format!("{before}{content}").as_bytes(), version(NEW)).is_ok(), "{before}");
    }
    let blanks = retention("<Enabled> true\n</Enabled><Days>\t7 </Days>");
    assert!(round_trip(&blanks, NEW).unwrap().contains("<Days>7</Days>"));
}

#[test]
fn what_is_incomplete_or_out_of_bounds_is_refused() {
    let value = |name| Err(ServicePropertiesError::Value(name));
    let malformed = |body: &str| Element::parse(body.as_bytes()).map(|_| ()).map_err(ServicePropertiesError::from);
    let doctype = "<!DOCTYPE x><StorageServiceProperties><Cors/></StorageServiceProperties>";
    let logging = |version: &str| {
        section(
            "Logging",
            &format!("<Version>{version}</Version><Delete>true</Delete><Read>true</Read><Write>true</Write>{OFF}"),
        )
    };
    let metrics = |content: &str| section("MinuteMetrics", &format!("{content}{OFF}"));
    let six = section("Cors", &format!("<CorsRule>{RULE}</CorsRule>").repeat(6));
    for (body, expected) in [
        (String::new(), malformed("")),
        ("<StorageServiceProperties>".into(), malformed("<StorageServiceProperties>")),
        (doctype.into(), malformed(doctype)),
        ("<StorageServiceProperties/>".into(), Err(ServicePropertiesError::Empty)),
        ("<Properties><Cors/></Properties>".into(), Err(ServicePropertiesError::Unexpected("Properties".into()))),
        (
            "<StorageServiceProperties>x<Cors/></StorageServiceProperties>".into(),
            Err(ServicePropertiesError::Unexpected("StorageServiceProperties".into())),
        ),
        (
            "<StorageServiceProperties><Cors/><Cors/></StorageServiceProperties>".into(),
            Err(ServicePropertiesError::Unexpected("Cors".into())),
        ),
        (
            section("DefaultServiceVersion", "2014-02-14"),
            Err(ServicePropertiesError::Unexpected("DefaultServiceVersion".into())),
        ),
        (logging("1.0"), Ok(())),
        (logging("2.0"), value("Version")),
        (logging("3.0"), value("Version")),
        (section("Logging", ""), Err(ServicePropertiesError::Missing("Version"))),
        (
            section("Logging", "<Version>1.0</Version><Delete>true</Delete><Read>true</Read>"),
            Err(ServicePropertiesError::Missing("Write")),
        ),
        (logging("1.0").replace(OFF, ""), Err(ServicePropertiesError::Missing("RetentionPolicy"))),
        (metrics("<Version>1.0</Version><Enabled>false</Enabled>"), Ok(())),
        (metrics("<Version>1.0</Version><Enabled>false</Enabled><IncludeAPIs>true</IncludeAPIs>"), Ok(())),
        (metrics("<Version>1.0</Version><Enabled>false</Enabled><IncludeAPIs>x</IncludeAPIs>"), value("IncludeAPIs")),
        (metrics("<Version>1.0</Version><Enabled>true</Enabled>"), Err(ServicePropertiesError::Missing("IncludeAPIs"))),
        (metrics("<Version>2.0</Version><Enabled>false</Enabled>"), value("Version")),
        (metrics("<Version>1.0</Version><Enabled>1</Enabled>"), value("Enabled")),
        (
            metrics("<Version>1.0</Version><Enabled><b/></Enabled>"),
            Err(ServicePropertiesError::Unexpected("Enabled".into())),
        ),
        (metrics("<Version>1.0</Version>"), Err(ServicePropertiesError::Missing("Enabled"))),
        (retention("<Enabled>true</Enabled><Days>1</Days>"), Ok(())),
        (retention("<Enabled>true</Enabled><Days>365</Days>"), Ok(())),
        (retention("<Enabled>true</Enabled><Days>366</Days>"), value("Days")),
        (retention("<Enabled>true</Enabled><Days>0</Days>"), value("Days")),
        (retention("<Enabled>true</Enabled><Days>-1</Days>"), value("Days")),
        (retention("<Enabled>true</Enabled><Days>+1</Days>"), value("Days")),
        (retention("<Enabled>true</Enabled><Days/>"), value("Days")),
        (retention("<Enabled>true</Enabled><Days>65537</Days>"), value("Days")),
        (retention("<Enabled>true</Enabled>"), Err(ServicePropertiesError::Missing("Days"))),
        (retention("<Enabled>false</Enabled><Days>5</Days>"), Err(ServicePropertiesError::DaysWithoutRetention)),
        (retention(""), Err(ServicePropertiesError::Missing("Enabled"))),
        (rule(RULE), Ok(())),
        (six, Err(ServicePropertiesError::Cors(CorsError::TooManyRules))),
        (section("Cors", "<Rule/>"), Err(ServicePropertiesError::Unexpected("Rule".into()))),
        (section("Cors", "x"), Err(ServicePropertiesError::Unexpected("Cors".into()))),
        (rule(&RULE.replace("<AllowedHeaders/>", "")), Err(ServicePropertiesError::Missing("AllowedHeaders"))),
        (rule(&RULE.replace("<ExposedHeaders/>", "")), Err(ServicePropertiesError::Missing("ExposedHeaders"))),
        (rule(&RULE.replace(">0<", "><")), value("MaxAgeInSeconds")),
        (rule(&RULE.replace(">0<", ">-1<")), value("MaxAgeInSeconds")),
        (rule(&RULE.replace(">0<", ">4294967296<")), value("MaxAgeInSeconds")),
        (rule(&RULE.replace(">0<", ">2147483648<")), Err(ServicePropertiesError::Cors(CorsError::MaxAge))),
        (rule(&RULE.replace('*', "")), Err(ServicePropertiesError::Cors(CorsError::Origins))),
        (rule(&RULE.replace("GET", "BREW")), Err(ServicePropertiesError::Cors(CorsError::Methods))),
    ] {
        assert_eq!(read(body.as_bytes(), version(NEW)).map(|_| ()), expected, "{body}");
    }
}

fn any_days() -> impl Strategy<Value = Option<RetentionDays>> {
    proptest::option::of((1..=365u16).prop_map(|days| RetentionDays::new(days).unwrap()))
}

fn any_metrics() -> impl Strategy<Value = Metrics> {
    let level = proptest::sample::select(vec![MetricsLevel::Off, MetricsLevel::Service, MetricsLevel::ServiceAndApi]);
    (level, any_days()).prop_map(|(level, retention)| Metrics { level, retention })
}

prop_compose! {
    fn any_rule()(
        origins in "[a-z&<>*é]{1,9}(,[a-z:/.]{1,9}){0,3}",
        methods in "(GET|put|MERGE)(,(PATCH|delete)){0,2}",
        allowed in "(x-[a-z]{1,5}(,x-[a-z]{1,5}){0,2})?",
        exposed in "([a-z]{1,5}\\*|\\*)?",
        age in 0..=i32::MAX as u32,
    ) -> CorsRule {
        CorsRule::new(&origins, &methods, &allowed, &exposed, age).unwrap()
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        logging in (any::<bool>(), any::<bool>(), any::<bool>(), any_days()),
        hour_metrics in any_metrics(),
        minute_metrics in any_metrics(),
        rules in proptest::collection::vec(any_rule(), 0..=5),
    ) {
        let (read, write, delete, retention) = logging;
        let logging = Logging { read, write, delete, retention };
        let cors = CorsRules::new(rules).unwrap();
        let properties = ServiceProperties { logging, hour_metrics, minute_metrics, cors };
        let document = super::write(&properties, version(NEW));
        let update = super::read(&document, version(NEW)).unwrap();
        prop_assert_eq!(ServiceProperties::default().updated(update), properties);
    }

    #[test]
    fn no_document_causes_a_panic(
        content in "(<(Logging|Cors|CorsRule|HourMetrics|Days|Enabled|AllowedOrigins)>|</(Logging|Cors|CorsRule|Days)>|<Cors/>|&#x?[0-9]{0,9};|true|1.0|é){0,12}",
    ) {
        for at in [OLD, NEW] {
            let _ = read(format!("<StorageServiceProperties>{content}</StorageServiceProperties>").as_bytes(), version(at));
        }
    }
}
