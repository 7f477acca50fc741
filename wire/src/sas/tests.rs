use super::*;
use crate::uri::encode_component;
use model::grant::ResourceTypes;
use model::roles::RoleScope;
use model::{DateTime, Denial, KeyRange, Permissions, Scope, StoredAccessPolicies, StoredAccessPolicy};
use proptest::prelude::*;
use std::net::IpAddr;

const KEY1: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==";
const KEY2: &str = "QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl9gYWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1+fw==";
const ACCOUNT: &str = "orchardacct";

fn keys() -> [AccountKey; 2] {
    [AccountKey::parse(KEY2).unwrap(), AccountKey::parse(KEY1).unwrap()]
}

fn used(now: &str) -> SasContext {
    SasContext { now: parse_time(now).unwrap(), source: "203.0.113.5".parse().unwrap(), is_https: false }
}

/// Returns the scope of a token on 14 March 2031 with the given policies.
fn scope(token: &str, policies: Vec<StoredAccessPolicy>) -> Result<Scope, SasError> {
    let policies = StoredAccessPolicies::new(policies).unwrap();
    verify(token, ACCOUNT, &keys())?.scope(&policies, used("2031-03-14"))
}

fn token(fields: &str) -> String {
    let (fields, _) = Fields::parse(fields, false).unwrap();
    fields.sign(ACCOUNT, &keys()[1]).unwrap()
}

fn policy(id: &str, start: &str, expiry: &str, permissions: &str) -> StoredAccessPolicy {
    let mut policy = StoredAccessPolicy::new(id).unwrap();
    policy.start = parse_time(start);
    policy.expiry = parse_time(expiry);
    policy.permissions = (!permissions.is_empty()).then(|| Permissions::parse_table(permissions).unwrap());
    policy
}

/// Name, token and string to sign. S1 to S7 are from 08 §13 and were created by official clients. S8 to S11 were
/// derived from the documented algorithm.
const WORKED_EXAMPLES: [(&str, &str, &str); 11] = [
    (
        "S1",
        "se=2031-04-01T06%3A30%3A00Z&sp=raud&sv=2019-02-02&tn=Harvest&sig=579VRfdAmuNz3Nitf%2B8SjqrvRTW2ZiiMlE68B0EHUxQ%3D",
        "raud\n\n2031-04-01T06:30:00Z\n/table/orchardacct/harvest\n\n\n\n2019-02-02\n\n\n\n",
    ),
    (
        "S2",
        "st=2031-03-01T00%3A00%3A00Z&se=2031-04-01T06%3A30%3A00Z&sp=ra&sip=203.0.113.4-203.0.113.9&spr=https%2Chttp&sv=2019-02-02&tn=Harvest&spk=north&srk=001&epk=north&erk=050&sig=A5Xvt65220LJhN2dKge%2BDSfXlxLBqd4iM8441p7lf9U%3D",
        "ra\n2031-03-01T00:00:00Z\n2031-04-01T06:30:00Z\n/table/orchardacct/harvest\n\n203.0.113.4-203.0.113.9\nhttps,http\n2019-02-02\nnorth\n001\nnorth\n050",
    ),
    (
        "S3",
        "sv=2019-02-02&si=pol-1&tn=Harvest&sig=ifdxon%2BCQw3OGIDqTglNmxjGOCzVrcHnyIw5opaekzk%3D",
        "\n\n\n/table/orchardacct/harvest\npol-1\n\n\n2019-02-02\n\n\n\n",
    ),
    (
        "S4",
        "sv=2019-02-02&si=pol-1&tn=Harvest&spk=O%27Neil%20%26%20S%C3%B6hne&epk=p%2Bq/r&sig=kYazptWJj4kvJ9%2B4D7zzvOwNp66Wu1T3/RdbW6c%2B1po%3D",
        "\n\n\n/table/orchardacct/harvest\npol-1\n\n\n2019-02-02\nO'Neil & Söhne\n\np+q/r\n",
    ),
    (
        "S5",
        "st=2031-03-01T00%3A00%3A00Z&se=2031-04-01T06%3A30%3A00Z&sp=rwdlacu&spr=https&sv=2019-02-02&ss=t&srt=soc&sig=qJVLGqv0WeY%2BTiBhfZsChpdrMILaiX1rNTqU68UWGjc%3D",
        "orchardacct\nrwdlacu\nt\nsoc\n2031-03-01T00:00:00Z\n2031-04-01T06:30:00Z\n\nhttps\n2019-02-02\n",
    ),
    (
        "S6",
        "se=2031-04-01T06%3A30%3A00Z&sp=rau&sv=2019-02-02&ss=t&srt=o&sig=0/iJDSGWsvCqfyt/kdBRhXsInlDLvRU354TfafWWbdo%3D",
        "orchardacct\nrau\nt\no\n\n2031-04-01T06:30:00Z\n\n\n2019-02-02\n",
    ),
    (
        "S7",
        "sv=2019-02-02&ss=t&srt=sco&se=2031-04-01T06%3A30%3A00Z&sp=rla&sig=auQZW6%2FaNC35xLr6LMTDZoia%2FTZSTUnC5isMmNlB8dM%3D",
        "orchardacct\nrla\nt\nsco\n\n2031-04-01T06:30:00Z\n\n\n2019-02-02\n",
    ),
    (
        "S8",
        "sp=rwdlacu&ss=t&srt=sco&st=2031-03-01T00:00:00Z&se=2031-04-01T06:30:00Z&spr=https&sv=2021-12-02&sig=VhY362flJ9AH419lz8yU/FKKvRCRurLUhN6629JBews=",
        "orchardacct\nrwdlacu\nt\nsco\n2031-03-01T00:00:00Z\n2031-04-01T06:30:00Z\n\nhttps\n2021-12-02\n\n",
    ),
    (
        "S9",
        "sp=raud&se=2031-04-01T06:30:00Z&tn=Harvest&sv=2015-02-21&sig=Felq9MgGCaJPRI36ktorByeTSpV%2B5GoPns8JgBhc0FU=",
        "raud\n\n2031-04-01T06:30:00Z\n/table/orchardacct/harvest\n\n2015-02-21\n\n\n\n",
    ),
    (
        "S10",
        "sp=raud&se=2031-04-01T06:30:00Z&tn=Harvest&sv=2014-02-14&sig=ji/4tWur5Aw8z9ZnH3EinwFuxB9o8NYiDANXF/cMics=",
        "raud\n\n2031-04-01T06:30:00Z\n/orchardacct/harvest\n\n2014-02-14\n\n\n\n",
    ),
    (
        "S11",
        "sp=raud&se=2031-04-01T06:30:00Z&tn=Harvest&sv=2012-02-12&sig=rnBv3OVI7ActkSiGCbBZsBdqwr60IDkrQoczfs0XsfU=",
        "raud\n\n2031-04-01T06:30:00Z\n/orchardacct/harvest\n\n2012-02-12\n\n\n\n",
    ),
];

#[test]
fn worked_examples() {
    for (name, token, text) in WORKED_EXAMPLES {
        let (fields, _) = Fields::parse(token, true).unwrap();
        assert_eq!(fields.strings_to_sign(ACCOUNT).unwrap()[0], text, "{name}");
        assert!(verify(token, ACCOUNT, &keys()).is_ok(), "{name}");
        assert!(verify(token, ACCOUNT, &keys()[..1]).is_err(), "{name} with only the other key");
        assert!(verify(token, "otheracct", &keys()).is_err(), "{name} on another account");
        let made = fields.sign(ACCOUNT, &keys()[1]).unwrap();
        assert_eq!(Fields::parse(&made, true), Fields::parse(token, true), "{name} made again");
    }
}

#[test]
fn every_changed_field_is_noticed() {
    for (name, token, _) in WORKED_EXAMPLES {
        for (index, pair) in token.split('&').enumerate() {
            let changed: Vec<String> = token
                .split('&')
                .enumerate()
                .map(|(i, pair)| if i == index { pair.replacen('=', "=1", 1) } else { pair.to_owned() })
                .collect();
            assert!(verify(&changed.join("&"), ACCOUNT, &keys()).is_err(), "{name} with a changed {pair}");
        }
    }
}

#[test]
fn every_added_field_is_noticed() {
    let (_, s1, _) = WORKED_EXAMPLES[0];
    for added in ["st=2031-03-01", "spk=a", "srk=a", "epk=a", "erk=a", "si=a", "sip=203.0.113.5", "spr=https"] {
        assert!(verify(&format!("{s1}&{added}"), ACCOUNT, &keys()).is_err(), "{added}");
    }
}

#[test]
fn names_and_the_table_may_be_in_any_case() {
    let (_, s1, _) = WORKED_EXAMPLES[0];
    for same in [
        s1.replace("tn=Harvest", "tn=HARVEST"),
        s1.replace("se=", "SE=").replace("sig=", "Sig="),
        format!("$filter=a%20eq%201&{s1}&timeout=5&spk="),
        s1.replace("%2B", "+"),
    ] {
        assert!(verify(&same, ACCOUNT, &keys()).is_ok(), "{same}");
    }
}

#[test]
fn a_field_that_is_given_twice_is_refused() {
    let (_, s1, _) = WORKED_EXAMPLES[0];
    let fields: Vec<&str> = s1.split('&').collect();
    for field in &fields {
        let name = field.split('=').next().unwrap();
        for again in [(*field).to_owned(), format!("{name}="), format!("{}=x", name.to_uppercase())] {
            for both in [format!("{s1}&{again}"), format!("{again}&{s1}")] {
                assert_eq!(verify(&both, ACCOUNT, &keys()).unwrap_err().to_string(), refusal(name), "{both}");
            }
        }
    }
    let policies = format!("{s1}&si=&si=");
    assert_eq!(verify(&policies, ACCOUNT, &keys()).unwrap_err(), SasError::Repeated("si"));
}

fn refusal(name: &str) -> String {
    format!("the field {name} of the shared access signature is given twice; specify it only once")
}

#[test]
fn a_raw_plus_is_a_space_or_a_plus_as_the_signature_says() {
    for (text, key) in [("a%20b", "a b"), ("a%2Bb", "a+b")] {
        let signed = token(&format!("sv=2019-02-02&tn=t1t&sp=r&se=2032-01-01&spk={text}&epk={text}"));
        let raw = signed.replace(text, "a+b");
        assert_ne!(raw, signed);
        let Scope::Table { range, .. } = scope(&raw, vec![]).unwrap() else { panic!("expected a table SAS") };
        assert_eq!(range, KeyRange::pairs(Some((key, None)), Some((key, None))));
    }
}

#[test]
fn what_tokens_allow() {
    let table = |letters, range| {
        Ok(Scope::Table { table: "Harvest".into(), permissions: Permissions::parse_table(letters).unwrap(), range })
    };
    assert_eq!(scope(WORKED_EXAMPLES[0].1, vec![]), table("raud", KeyRange::all()));
    let range = KeyRange::pairs(Some(("north", Some("001"))), Some(("north", Some("050"))));
    assert_eq!(scope(WORKED_EXAMPLES[1].1, vec![]), table("ra", range));
    let entities = ResourceTypes { object: true, ..ResourceTypes::default() };
    let permissions = Permissions::parse_table("rau").unwrap();
    assert_eq!(scope(WORKED_EXAMPLES[5].1, vec![]), Ok(Scope::Account { resources: entities, permissions }));
    assert_eq!(scope(WORKED_EXAMPLES[4].1, vec![]), Ok(Scope::Nothing(Denial::Protocol)), "HTTPS is required");
    let other_services = token("sv=2019-02-02&ss=bqf&srt=o&sp=r&se=2032-01-01");
    assert_eq!(scope(&other_services, vec![]), Ok(Scope::Nothing(Denial::Service)));
}

#[test]
fn policies_fill_in_what_the_token_leaves_open() {
    let by_policy = WORKED_EXAMPLES[2].1;
    let full = policy("pol-1", "2031-03-01", "2031-04-01", "ra");
    assert!(matches!(scope(by_policy, vec![full.clone()]), Ok(Scope::Table { .. })));
    assert_eq!(scope(by_policy, vec![]), Err(SasError::UnknownPolicy));
    assert_eq!(scope(by_policy, vec![policy("POL-1", "", "2032-01-01", "r")]), Err(SasError::UnknownPolicy));
    assert_eq!(scope(by_policy, vec![policy("pol-1", "", "2032-01-01", "")]), Err(SasError::Missing("sp")));
    assert_eq!(scope(by_policy, vec![policy("pol-1", "", "", "r")]), Err(SasError::Missing("se")));
    let expired = policy("pol-1", "", "2031-03-13", "r");
    assert!(matches!(scope(by_policy, vec![expired]), Err(SasError::Time { .. })));
    let later = policy("pol-1", "2031-03-15", "2032-03-13", "r");
    assert!(matches!(scope(by_policy, vec![later]), Err(SasError::Time { .. })));
    // Each field comes from exactly one of the two, even if both have the same value.
    let with_permissions = token("sv=2019-02-02&tn=Harvest&si=pol-1&sp=r");
    assert!(scope(&with_permissions, vec![policy("pol-1", "", "2032-01-01", "")]).is_ok());
    assert_eq!(scope(&with_permissions, vec![full]), Err(SasError::PolicyClash("sp")));
    for (field, name) in [("st=2031-03-01", "st"), ("se=2031-04-01", "se")] {
        let clash = token(&format!("sv=2019-02-02&tn=Harvest&si=pol-1&{field}"));
        let full = policy("pol-1", "2031-03-01", "2031-04-01", "ra");
        assert_eq!(scope(&clash, vec![full]), Err(SasError::PolicyClash(name)));
    }
}

#[test]
fn tokens_that_are_signed_and_wrong() {
    for (fields, expected) in [
        ("tn=t1t&sp=r&se=2032-01-01", SasError::Kind),
        ("sv=2019-02-02&sp=r&se=2032-01-01", SasError::Kind),
        ("sv=2019-02-02&tn=t1t&ss=t&sp=r&se=2032-01-01", SasError::Kind),
        ("sv=2019-02-02&tn=t1t&skoid=x&sp=r&se=2032-01-01", SasError::Field("sv")),
        ("sv=2025-05-05&tn=t1t&skoid=x&sp=r&se=2032-01-01", SasError::Field("sv")),
        ("sv=2025-07-05&skoid=x&sp=r&se=2032-01-01", SasError::Kind),
        ("sv=2009-09-19&tn=t1t&sp=r&se=2032-01-01", SasError::Field("sv")),
        ("sv=2013-01-01&tn=t1t&sp=r&se=2032-01-01", SasError::Field("sv")),
        ("sv=2014-02-14&ss=t&srt=o&sp=r&se=2032-01-01", SasError::Field("sv")),
    ] {
        let (fields, _) = Fields::parse(fields, false).unwrap();
        assert_eq!(fields.sign(ACCOUNT, &keys()[0]), Err(expected.clone()));
    }
    for (fields, expected) in [
        ("sv=2019-02-02&tn=t1t&sp=r", SasError::Missing("se")),
        ("sv=2019-02-02&tn=t1t&se=2032-01-01", SasError::Missing("sp")),
        ("sv=2019-02-02&tn=t1t&se=2032-01-01&sp=rl", SasError::Field("sp")),
        ("sv=2019-02-02&tn=t1t&se=soon&sp=r", SasError::Field("se")),
        ("sv=2019-02-02&tn=t1t&se=2032-01-01T00:00:00&sp=r", SasError::Field("se")),
        ("sv=2019-02-02&tn=t1t&se=2032-01-01&st=x&sp=r", SasError::Field("st")),
        ("sv=2019-02-02&tn=t1t&se=2032-01-01&sp=r&srk=a", SasError::Field("srk")),
        ("sv=2019-02-02&tn=t1t&se=2032-01-01&sp=r&spk=a&erk=a", SasError::Field("erk")),
        ("sv=2019-02-02&tn=t1t&se=2032-01-01&sp=r&spr=http", SasError::Field("spr")),
        ("sv=2019-02-02&tn=t1t&se=2032-01-01&sp=r&sip=1.2.3", SasError::Field("sip")),
        ("sv=2014-02-14&tn=t1t&se=2032-01-01&sp=r&sip=1.2.3.4", SasError::Field("sip")),
        ("sv=2014-02-14&tn=t1t&se=2032-01-01&sp=r&spr=https", SasError::Field("spr")),
        ("sv=2019-02-02&ss=t&srt=o&sp=r", SasError::Missing("se")),
        ("sv=2019-02-02&ss=t&srt=o&se=2032-01-01", SasError::Missing("sp")),
        ("sv=2019-02-02&ss=x&srt=o&se=2032-01-01&sp=r", SasError::Field("ss")),
        ("sv=2019-02-02&ss=t&srt=x&se=2032-01-01&sp=r", SasError::Field("srt")),
        ("sv=2019-02-02&ss=t&srt=o&se=2032-01-01&sp=z", SasError::Field("sp")),
        ("sv=2019-02-02&ss=t&srt=o&se=2032-01-01&sp=r&si=pol", SasError::Field("si")),
        ("sv=2019-02-02&ss=t&srt=o&se=2032-01-01&sp=r&ses=x", SasError::Field("ses")),
    ] {
        assert_eq!(scope(&token(fields), vec![]), Err(expected), "{fields}");
    }
}

/// A token tells what is wrong with it, whether or not its signature is right.
#[test]
fn defects_depend_on_the_fields_alone() {
    let signature = keys()[0].sign("another text").replace('+', "%2B");
    let signature = format!("&sig={signature}");
    for (fields, expected) in [
        ("sv=2019-02-02&tn=t1t&sp=r&se=2032-01-01", None),
        ("sv=2019-02-02&tn=t1t&si=pol", None),
        ("tn=t1t&sp=r&se=2032-01-01", Some("sas-incomplete: The field sv is missing")),
        ("sv=2019-02-02&sp=r&se=2032-01-01", Some("sas-incomplete: The shared access signature has neither tn")),
        ("sv=2019-02-02&ss=t&sp=r&se=2032-01-01", Some("sas-incomplete: The shared access signature has ss, but srt")),
        ("sv=2013-01-01&tn=t1t&sp=r&se=2032-01-01", Some("sas-field: The field sv ")),
        ("sv=2019-02-02&tn=t1t&sp=r", Some("sas-field: The field se is missing")),
        ("sv=2019-02-02&tn=t1t&se=2032-01-01", Some("sas-field: The field sp is missing")),
        ("sv=2019-02-02&tn=t1t&se=2032-01-01&sp=rl", Some("sas-field: The field sp ")),
        (
            "sv=2019-02-02&tn=t1t&tn=t1t&se=2032-01-01&sp=r",
            Some("sas-field: The field tn of the shared access signature is given twice"),
        ),
        ("sv=2019-02-02&tn=t1t&se=2032-01-01&sp=r&srk=secret", Some("sas-field: The field srk ")),
        (
            "sv=2019-02-02&tn=t1t&se=2031-02-26&sp=r",
            Some("sas-expired: The shared access signature expired 3 days ago"),
        ),
        (
            "sv=2019-02-02&tn=t1t&st=2031-03-01T00:30Z&se=2032-01-01&sp=r",
            Some("sas-not-yet-valid: The shared access signature becomes valid in 30 minutes (st="),
        ),
        ("sv=2019-02-02&tn=t1t&st=2032-03-01&se=2032-01-01&sp=r", Some("sas-not-yet-valid: ")),
        ("sv=2019-02-02&tn=t1t&st=2031-02-28&se=2031-02-28&sp=r", Some("sas-expired: ")),
        (
            "sv=2025-07-05&tn=t1t&sp=r&se=2032-01-01&skoid=o&skt=2031-01-01&ske=2031-02-01",
            Some("sas-expired: The shared access signature expired 28 days ago (ske="),
        ),
    ] {
        let found = defect(&format!("{fields}{signature}"), parse_time("2031-03-01").unwrap());
        let line = found.map(|reason| {
            assert!(reason.kind.is_of_request_alone(), "{fields}");
            reason.line(true)
        });
        let is_expected = match (&line, expected) {
            (Some(line), Some(expected)) => line.starts_with(expected) && !line.contains("secret"),
            (line, expected) => line.is_none() && expected.is_none(),
        };
        assert!(is_expected, "{fields}: {line:?}");
    }
    for (end, expected) in [("", "sas-incomplete"), ("&sig=x", "signature-malformed")] {
        let query = format!("sv=2019-02-02&tn=t1t&sp=r&se=2032-01-01{end}");
        assert_eq!(defect(&query, parse_time("2031-03-01").unwrap()).unwrap().kind.name(), expected);
    }
    for error in [SasError::UnknownPolicy, SasError::PolicyClash("se"), SasError::Missing("se"), SasError::Kind] {
        assert!(!error.reason().kind.is_of_request_alone(), "{error:?}");
    }
}

#[test]
fn a_new_account_sas_may_be_signed_in_either_form() {
    let fields = "sv=2021-12-02&ss=t&srt=o&sp=r&se=2032-01-01";
    let short = keys()[0].sign("orchardacct\nr\nt\no\n\n2032-01-01\n\n\n2021-12-02\n");
    let long = keys()[0].sign("orchardacct\nr\nt\no\n\n2032-01-01\n\n\n2021-12-02\n\n");
    for signature in [short, long] {
        let signature = signature.replace('+', "%2B");
        assert!(verify(&format!("{fields}&sig={signature}"), ACCOUNT, &keys()).is_ok());
    }
    let scoped = keys()[0].sign("orchardacct\nr\nt\no\n\n2032-01-01\n\n\n2021-12-02\nx\n").replace('+', "%2B");
    assert!(verify(&format!("{fields}&ses=x&sig={scoped}"), ACCOUNT, &keys()).is_ok());
}

#[test]
fn times() {
    for (text, expected) in [
        ("2031-04-01", Some("2031-04-01T00:00:00Z")),
        ("2031-04-01T06:30Z", Some("2031-04-01T06:30:00Z")),
        ("2031-04-01T06:30:15Z", Some("2031-04-01T06:30:15Z")),
        ("2031-04-01T06:30:15.1234567Z", Some("2031-04-01T06:30:15.1234567Z")),
        ("2031-04-01T06:30+02:00", Some("2031-04-01T04:30:00Z")),
        ("2031-04-01T06:30:15-01:00", Some("2031-04-01T07:30:15Z")),
        ("2031-04-01T06:30", None),
        ("2031-04-01T06:30:15", None),
        ("2031-04-01T06:30:15.12345678Z", None),
        ("2031-04-01Z", None),
        ("2031-13-01", None),
        ("é031-04-1", None),
        ("", None),
    ] {
        assert_eq!(parse_time(text).map(|time| time.to_string()).as_deref(), expected, "{text}");
    }
    let token = token("sv=2019-02-02&tn=t1t&st=2031-03-01&se=2031-03-02T06:30Z&sp=r");
    for (now, is_valid) in [
        ("2031-02-28T23:59:59.9999999Z", false),
        ("2031-03-01", true),
        ("2031-03-02T06:30:00Z", true),
        ("2031-03-02T06:30:00.0000001Z", false),
    ] {
        let result = verify(&token, ACCOUNT, &keys()).unwrap().scope(&StoredAccessPolicies::default(), used(now));
        assert_eq!(result.is_ok(), is_valid, "{now}");
    }
    let backwards = self::token("sv=2019-02-02&tn=t1t&st=2031-03-14&se=2031-03-14&sp=r");
    assert!(matches!(scope(&backwards, vec![]), Err(SasError::Time { .. })), "a start equal to the expiry");
}

#[test]
fn addresses_and_protocols() {
    let with = |fields: &str, source: &str, is_https| {
        let token = token(&format!("sv=2019-02-02&tn=t1t&se=2032-01-01&sp=r&{fields}"));
        let source: IpAddr = source.parse().unwrap();
        let used = SasContext { now: parse_time("2031-03-14").unwrap(), source, is_https };
        match verify(&token, ACCOUNT, &keys()).unwrap().scope(&StoredAccessPolicies::default(), used).unwrap() {
            Scope::Nothing(denial) => Some(denial),
            _ => None,
        }
    };
    let denied = |source: &str| Some(Denial::Source(source.parse().unwrap()));
    assert_eq!(with("sip=203.0.113.4-203.0.113.9", "203.0.113.9", false), None);
    assert_eq!(with("sip=203.0.113.4-203.0.113.9", "::ffff:203.0.113.4", false), None);
    assert_eq!(with("sip=203.0.113.4-203.0.113.9", "203.0.113.10", false), denied("203.0.113.10"));
    assert_eq!(with("sip=203.0.113.4", "203.0.113.5", false), denied("203.0.113.5"));
    assert_eq!(with("sip=203.0.113.4", "::ffff:203.0.113.5", false), denied("203.0.113.5"));
    assert_eq!(with("sip=0.0.0.0-255.255.255.255", "2001:db8::1", false), denied("2001:db8::1"));
    assert_eq!(with("sip=2001:db8::1", "2001:db8::1", false), None);
    assert_eq!(with("spr=https", "203.0.113.4", false), Some(Denial::Protocol));
    assert_eq!(with("spr=https", "203.0.113.4", true), None);
    assert_eq!(with("spr=http,https", "203.0.113.4", false), None);
    assert_eq!(
        with("sip=203.0.113.4&spr=https", "203.0.113.5", false),
        denied("203.0.113.5"),
        "the address is checked first"
    );
}

proptest! {
    #[test]
    fn no_query_string_causes_a_panic(query in "((sv|tn|sig|ss|srt|sp|se|spk|sip|skoid|skt|ske|x)=(2019-02-02|2025-07-05|[%+a-zé0-9]{0,6})&?){0,10}") {
        let _ = verify_delegated(&query, ACCOUNT, &keys(), |_| keys().to_vec());
    }

    #[test]
    fn a_token_that_is_made_verifies(partition in "\\PC{1,6}", row in "\\PC{0,6}", id in "\\PC{0,6}") {
        let fields = Fields {
            version: "2019-02-02".into(),
            table: "Harvest".into(),
            permissions: "r".into(),
            expiry: "2032-01-01".into(),
            start_partition: partition.clone().into(),
            start_row: row.clone().into(),
            policy: id.clone().into(),
            ..Fields::default()
        };
        let token = fields.sign(ACCOUNT, &keys()[0]).unwrap();
        let sas = verify(&token, ACCOUNT, &keys()).unwrap();
        let policies = if id.is_empty() { vec![] } else { vec![StoredAccessPolicy::new(&id).unwrap()] };
        let scope = sas.scope(&StoredAccessPolicies::new(policies).unwrap(), used("2031-03-14")).unwrap();
        let range = KeyRange::pairs(Some((&partition, Some(row.as_str()).filter(|row| !row.is_empty()))), None);
        prop_assert_eq!(scope, Scope::Table { table: "Harvest".into(), permissions: Permissions::READ, range });
    }
}

#[test]
fn a_time_before_the_first_is_no_time() {
    assert_eq!(parse_time("1600-01-01"), None);
    assert_eq!(parse_time("1601-01-01"), Some(DateTime::MIN));
}

/// The four keys contain five lines. Without the rule, one signature would be valid for every distribution of the lines
/// among the keys.
#[test]
fn one_signature_is_not_for_two_ranges() {
    let lines = "r\n\n2031-04-01\n/table/orchardacct/harvest\n\n\n\n2019-02-02\na\nb\nc\nd\ne";
    let signature = encode_component(&keys()[1].sign(lines));
    for range in [
        "spk=a%0Ab&srk=c&epk=d&erk=e",
        "spk=a&srk=b%0Ac&epk=d&erk=e",
        "spk=a&srk=b&epk=c%0Ad&erk=e",
        "spk=a&srk=b&epk=c&erk=d%0ae",
    ] {
        let token = format!("sv=2019-02-02&tn=Harvest&sp=r&se=2031-04-01&{range}&sig={signature}");
        let refused = verify(&token, ACCOUNT, &keys()).map(drop);
        assert!(matches!(refused, Err(SasError::ControlCharacter(_))), "{range}: {refused:?}");
    }
}

#[test]
fn control_characters_are_refused_in_every_field() {
    let names = [
        "st", "se", "sp", "sip", "spr", "sv", "ss", "srt", "ses", "si", "tn", "spk", "srk", "epk", "erk", "skoid",
        "sktid", "skt", "ske", "sks", "skv", "skdutid", "sduoid",
    ];
    for name in names {
        for escaped in ["%00", "%09", "%0A", "%0d", "%1f", "%7F", "%C2%80", "%C2%9f"] {
            let query = format!("{name}=a{escaped}b&sig=x");
            assert_eq!(verify(&query, ACCOUNT, &keys()), Err(SasError::ControlCharacter(name)), "{query}");
        }
    }
    let fields = Fields { start_partition: "a\nb".into(), ..Fields::default() };
    assert_eq!(fields.sign(ACCOUNT, &keys()[1]), Err(SasError::ControlCharacter("spk")));
    // The Unicode line separator does not separate the lines of a string to sign.
    let shown = token("sv=2019-02-02&tn=Harvest&sp=r&se=2031-04-01&spk=a%E2%80%A8b");
    assert!(verify(&shown, ACCOUNT, &keys()).is_ok());
}

/// S12 of 08 §13: a user delegation SAS, whose key is the bytes 0x00 to 0x3F.
const DELEGATED: &str = "sp=ra&st=2031-03-01T00:00:00Z&se=2031-03-02T00:00:00Z&spr=https&sv=2025-07-05&tn=Harvest&spk=north&epk=north&skoid=11111111-2222-3333-4444-555555555555&sktid=66666666-7777-8888-9999-000000000000&skt=2031-03-01T00:00:00Z&ske=2031-03-02T00:00:00Z&sks=t&skv=2025-07-05&sig=5mun6BZ0iq7aJbhKJ7CeNJnQ%2BmTU6pEQP5nsKbW4IfQ=";

/// The account has two keys; the second is the key of S12.
fn delegated(query: &str) -> Result<Sas<'_>, SasError> {
    verify_delegated(query, ACCOUNT, &[], |_| keys().to_vec())
}

fn delegated_token(fields: &str) -> String {
    let terms = "sv=2025-07-05&tn=Harvest&skoid=o&sktid=t&skt=2031-03-01&ske=2031-03-02&sks=t&skv=2025-07-05";
    token(&format!("{fields}&{terms}"))
}

fn delegated_scope(fields: &str, now: &str) -> Result<Scope, SasError> {
    delegated(&delegated_token(fields))?.scope(&StoredAccessPolicies::default(), used(now))
}

#[test]
fn a_user_delegation_sas() {
    let (fields, _) = Fields::parse(DELEGATED, true).unwrap();
    let text = "ra\n2031-03-01T00:00:00Z\n2031-03-02T00:00:00Z\n/table/orchardacct/harvest\n\
        11111111-2222-3333-4444-555555555555\n66666666-7777-8888-9999-000000000000\n2031-03-01T00:00:00Z\n\
        2031-03-02T00:00:00Z\nt\n2025-07-05\n\n\n\nhttps\n2025-07-05\nnorth\n\nnorth\n";
    assert_eq!(fields.strings_to_sign(ACCOUNT).unwrap(), [text]);
    let made = fields.sign(ACCOUNT, &keys()[1]).unwrap();
    assert_eq!(Fields::parse(&made, true), Fields::parse(DELEGATED, true));
    let sas = delegated(DELEGATED).unwrap();
    let delegation = sas.delegation().unwrap();
    assert_eq!((delegation.signer, &*delegation.user), (1, ""));
    assert_eq!(delegation.key.delegator, "11111111-2222-3333-4444-555555555555");
    let used = SasContext { is_https: true, ..used("2031-03-01T06:30:00Z") };
    let range = KeyRange::pairs(Some(("north", None)), Some(("north", None)));
    let permissions = Permissions::parse_table("ra").unwrap();
    let expected = Scope::Delegated { table: "Harvest".into(), permissions, range, roles: RoleScope::default() };
    assert_eq!(sas.scope(&StoredAccessPolicies::default(), used), Ok(expected));
}

#[test]
fn keys_sign_tokens_of_their_own_kinds() {
    assert!(verify(DELEGATED, ACCOUNT, &keys()).is_err(), "an account key must not sign a user delegation SAS");
    for (name, token, _) in WORKED_EXAMPLES {
        assert!(delegated(token).is_err(), "{name}: a user delegation key must sign nothing else");
        assert!(verify_delegated(token, ACCOUNT, &keys(), |_| Vec::new()).unwrap().delegation().is_none(), "{name}");
    }
}

#[test]
fn every_changed_or_added_field_of_a_user_delegation_sas_is_noticed() {
    for pair in DELEGATED.split('&') {
        let changed = DELEGATED.replacen(pair, &pair.replacen('=', "=1", 1), 1);
        assert!(delegated(&changed).is_err(), "{pair}");
        let removed = DELEGATED.replacen(pair, "x=y", 1);
        assert!(delegated(&removed).is_err(), "without {pair}");
    }
    for added in ["srk=a", "erk=a", "sip=203.0.113.5", "skdutid=t", "sduoid=u"] {
        assert!(delegated(&format!("{DELEGATED}&{added}")).is_err(), "{added}");
    }
}

/// The server derives the key from these terms, so the derivation must depend on each of them. For times, only the
/// value matters, not the text.
#[test]
fn the_terms_of_a_key_are_those_of_the_token() {
    let seen = std::cell::RefCell::new(Vec::new());
    let skt = "2031-03-01T01:00%2B01:00";
    let terms = format!("sv=2025-07-05&tn=Harvest&skoid=o&sktid=t&skt={skt}&ske=2031-03-02&sks=t&skv=2025-07-05");
    let token = token(&format!("sp=r&se=2031-03-02&skdutid=d&{terms}"));
    let verified = verify_delegated(&token, ACCOUNT, &[], |terms| {
        seen.borrow_mut().push(format!("{terms:?}"));
        keys().to_vec()
    });
    let expected = KeyTerms {
        delegator: "o".into(),
        tenant: "t".into(),
        start: parse_time("2031-03-01").unwrap(),
        expiry: parse_time("2031-03-02").unwrap(),
        service: "t".into(),
        version: "2025-07-05".into(),
        delegated_tenant: "d".into(),
    };
    assert_eq!(verified.unwrap().delegation().unwrap().key, expected);
    assert_eq!(seen.into_inner(), [format!("{expected:?}")]);
}

#[test]
fn a_user_delegation_sas_is_valid_while_it_and_its_key_are() {
    let scope = |fields: &str, now: &str| delegated_scope(fields, now).map(drop);
    assert_eq!(scope("sp=r&se=2032-01-01", "2031-03-02"), Ok(()));
    let refused = scope("sp=r&se=2032-01-01", "2031-03-02T00:00:01Z").unwrap_err();
    assert!(matches!(refused, SasError::KeyTime { .. }), "{refused:?}");
    assert!(refused.to_string().contains("Key expiry [2031-03-02T00:00:00Z]"), "{refused}");
    assert!(matches!(scope("sp=r&se=2032-01-01", "2031-02-28"), Err(SasError::KeyTime { .. })));
    assert!(matches!(scope("sp=r&se=2031-03-01T01:00Z", "2031-03-01T02:00Z"), Err(SasError::Time { .. })));
    assert!(matches!(
        scope("sp=r&se=2031-03-02&st=2031-03-01T03:00Z", "2031-03-01T02:00Z"),
        Err(SasError::Time { .. })
    ));
    let now = "2031-03-01T06:30Z";
    for (fields, expected) in [
        ("sp=r", SasError::Missing("se")),
        ("se=2032-01-01", SasError::Missing("sp")),
        ("sp=rl&se=2032-01-01", SasError::Field("sp")),
        ("sp=r&se=2032-01-01&srk=a", SasError::Field("srk")),
        ("sp=r&se=2032-01-01&si=pol", SasError::Field("si")),
    ] {
        assert_eq!(scope(fields, now), Err(expected), "{fields}");
    }
    assert_eq!(delegated_scope("sp=r&se=2032-01-01&spr=https", now), Ok(Scope::Nothing(Denial::Protocol)));
    let elsewhere = "203.0.113.5".parse().unwrap();
    assert_eq!(
        delegated_scope("sp=r&se=2032-01-01&sip=203.0.113.4", now),
        Ok(Scope::Nothing(Denial::Source(elsewhere)))
    );
}
