//! Converts YAML documents to JSON values, which are easier to traverse.

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Number, Value};

pub(super) fn documents(text: &str) -> Vec<Value> {
    Yaml::load_from_str(text).unwrap().iter().map(value).collect()
}

fn value(yaml: &Yaml<'_>) -> Value {
    match yaml {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(value)) => Value::Bool(*value),
        Yaml::Value(Scalar::Integer(value)) => Value::Number((*value).into()),
        Yaml::Value(Scalar::FloatingPoint(value)) => Value::Number(Number::from_f64(value.into_inner()).unwrap()),
        Yaml::Value(Scalar::String(value)) => Value::String(value.to_string()),
        Yaml::Sequence(values) => values.iter().map(value).collect(),
        Yaml::Mapping(members) => {
            let members = members.iter().map(|(name, member)| (name.as_str().unwrap().to_owned(), value(member)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        other => panic!("unexpected in these files: {other:?}"),
    }
}
