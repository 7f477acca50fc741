use rowhouse_client::entity::{Entity, EntityError, PropertyBag};

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "{department}", row_key = "e_{id}")]
struct Employee {
    department: String,
    id: u32,
    #[entity(encrypt)]
    salary: i64,
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "{name}", row_key = "department")]
struct Department {
    name: String,
    #[entity(encrypt)]
    budget: Option<i64>,
    employees: i32,
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(tag = "EntityType")]
enum Closed {
    #[entity(kind = "employee")]
    Employee(Employee),
    Department(Department),
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(tag = "EntityType")]
enum Open {
    Employee(Employee),
    #[entity(other)]
    Other(PropertyBag),
}

fn employee() -> Employee {
    Employee { department: "Sales".into(), id: 7, salary: 1 }
}

#[test]
fn the_tag_decides() {
    let department = Department { name: "Sales".into(), budget: None, employees: 2 };
    for (entity, kind, row_key) in [
        (Closed::Employee(employee()), "employee", "e_7"),
        (Closed::Department(department), "Department", "department"),
    ] {
        let bag = entity.to_bag().unwrap();
        assert_eq!(bag.get::<String>("EntityType").unwrap(), kind);
        assert_eq!(bag.key.row.as_str(), row_key);
        assert_eq!(entity.key().unwrap(), bag.key);
        assert_eq!(Closed::from_bag(bag).unwrap(), entity);
    }
    assert_eq!(Closed::SELECT, None);
    assert_eq!(Closed::ENCRYPTED, ["salary", "budget"]);
}

#[test]
fn an_unknown_kind_is_an_error_that_names_it() {
    let bag = employee().to_bag().unwrap();
    let unknown = bag.clone().with("EntityType", "Manager".to_owned()).unwrap();
    let error = Closed::from_bag(unknown).unwrap_err();
    assert_eq!(error, EntityError::UnknownKind { tag: "EntityType".into(), kind: Some("Manager".into()) });
    assert_eq!(error.to_string(), "property 'EntityType': the kind 'Manager' is unknown");
    for without in [bag.clone(), bag.with("EntityType", 1).unwrap()] {
        let error = Closed::from_bag(without).unwrap_err();
        assert_eq!(error, EntityError::UnknownKind { tag: "EntityType".into(), kind: None });
    }
}

#[test]
fn the_variant_for_others_keeps_everything() {
    let bag = PropertyBag::new("p", "r").unwrap().with("EntityType", "Manager".to_owned()).unwrap();
    let read = Open::from_bag(bag.clone()).unwrap();
    assert_eq!(read, Open::Other(bag.clone()));
    assert_eq!(read.to_bag().unwrap(), bag);
    let employee = Open::Employee(employee());
    assert_eq!(Open::from_bag(employee.to_bag().unwrap()).unwrap(), employee);
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(partition_key = "p", row_key = "r")]
struct Tagged {
    #[entity(rename = "EntityType")]
    tag: String,
}

#[derive(Debug, Clone, PartialEq, Entity)]
#[entity(tag = "EntityType")]
enum Clash {
    Tagged(Tagged),
}

#[test]
fn a_type_that_has_the_tag_as_its_own_property_is_an_error() {
    let error = Clash::Tagged(Tagged { tag: "x".into() }).to_bag().unwrap_err();
    assert_eq!(error, EntityError::Duplicate { property: "EntityType".into() });
}

#[test]
fn filters_of_enums() {
    let p = Closed::PROPERTIES;
    let rich = Employee::PROPERTIES.row_key.starts_with("e_").for_type();
    let filter = p.partition_key.eq("Sales") & p.kind.eq("employee") & rich;
    assert_eq!(
        filter.to_string(),
        "PartitionKey eq 'Sales' and EntityType eq 'employee' and RowKey ge 'e_' and RowKey lt 'e`'"
    );
}
