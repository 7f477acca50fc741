//! One-to-many: departments and their employees, in three designs.
//!
//! | design | good for |
//! |---|---|
//! | department and employees in one partition | most programs: one query reads them together, one transaction changes them together |
//! | departments in a separate table | departments that are read separately, or that would overload a single partition |
//! | a copy of the department in each employee | data that is read all the time and almost never changes |

use crate::support::{Pattern, Result, fill, requests};
use rowhouse_client::{Entity, IfMatch, Table, Transaction};

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "department")]
struct Department {
    #[entity(partition_key)]
    name: String,
    phone: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "employee_{id:06}")]
struct Employee {
    #[entity(partition_key)]
    department: String,
    id: u32,
    name: String,
}

#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(tag = "Kind")]
enum Record {
    Department(Department),
    Employee(Employee),
}

/// An employee with a copy of the department's phone number.
#[derive(Entity, Debug, Clone, PartialEq)]
#[entity(row_key = "employee_{id:06}")]
struct EmployeeWithDepartment {
    #[entity(partition_key)]
    department: String,
    id: u32,
    name: String,
    department_phone: String,
}

/// Changes a hundred copies at a time. Concurrent readers may see old and new copies.
async fn change_copies(employees: &Table, department: &str, phone: &str) -> Result {
    let all = employees.query::<EmployeeWithDepartment>().partition(department).collect().await?;
    for chunk in all.chunks(100) {
        let mut transaction = Transaction::new();
        for employee in chunk {
            let changed = EmployeeWithDepartment { department_phone: phone.to_owned(), ..employee.entity.clone() };
            transaction = transaction.replace(&changed, employee);
        }
        employees.commit(transaction).await?;
    }
    Ok(())
}

pub(crate) async fn run() -> Result {
    let mut pattern = Pattern::start("one_to_many").await?;
    let department = Department { name: "sales".into(), phone: "100".into() };
    let moved = Department { phone: "200".into(), ..department.clone() };
    let employee = |id| Employee { department: "sales".into(), id, name: format!("Employee {id}") };

    let one = pattern.table("onepartition").await?;
    one.insert(&Record::Department(department.clone())).await?;
    fill(&one, &(1..=150).map(|id| Record::Employee(employee(id))).collect::<Vec<_>>()).await?;
    let both = async {
        one.get::<Record>("sales", "employee_000007").await?;
        one.get::<Record>("sales", "department").await
    };
    pattern.step("one partition: an employee with the department", requests(2).examined(2).returned(2), both).await?;
    let all = one.query::<Record>().partition("sales").collect();
    pattern
        .step("one partition: all employees with the department", requests(1).examined(151).returned(151), all)
        .await?;
    let record = Record::Department(moved.clone());
    let changed = one.replace(&record, IfMatch::Any);
    pattern.step("one partition: change the department", requests(1).written(1), changed).await?;

    let (departments, employees) = (pattern.table("departments").await?, pattern.table("employees").await?);
    departments.insert(&department).await?;
    fill(&employees, &(1..=150).map(employee).collect::<Vec<_>>()).await?;
    let both = async {
        employees.get::<Employee>("sales", "employee_000007").await?;
        departments.get::<Department>("sales", "department").await
    };
    pattern.step("two tables: an employee with the department", requests(2).examined(2).returned(2), both).await?;
    let all = async {
        departments.get::<Department>("sales", "department").await?;
        employees.query::<Employee>().partition("sales").collect().await
    };
    pattern.step("two tables: all employees with the department", requests(2).examined(151).returned(151), all).await?;
    let changed = departments.replace(&moved, IfMatch::Any);
    pattern.step("two tables: change the department", requests(1).written(1), changed).await?;

    let copies = pattern.table("copies").await?;
    let copy = |id| EmployeeWithDepartment {
        department: "sales".into(),
        id,
        name: format!("Employee {id}"),
        department_phone: "100".into(),
    };
    fill(&copies, &(1..=150).map(copy).collect::<Vec<_>>()).await?;
    let both = copies.get::<EmployeeWithDepartment>("sales", "employee_000007");
    pattern.step("copies: an employee with the department", requests(1).examined(1).returned(1), both).await?;
    let all = copies.query::<EmployeeWithDepartment>().partition("sales").collect();
    pattern.step("copies: all employees with the department", requests(1).examined(150).returned(150), all).await?;
    let cost = requests(3).examined(150).returned(150).written(150);
    pattern.step("copies: change the department", cost, change_copies(&copies, "sales", "200")).await?;
    let all = copies.query::<EmployeeWithDepartment>().select(|e| e.department_phone).collect().await?;
    assert!(all.iter().all(|phone| phone == "200"));

    pattern.finish().await
}
