//! A complete first program: it stores customers in a table, and queries, changes and deletes them.
//!
//! Start a server with `rowhouse serve`, and then, in a clone of this repository, this program with
//! `cargo run -p rowhouse-client --example quickstart`. To use another service, add its connection string:
//! `-- 'AccountName=…;AccountKey=…;TableEndpoint=…'`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the program shows what it does")]

use rowhouse_client::{Entity, Error, ErrorKind, IfMatch, TableService, Transaction};
use std::env;
use std::process::ExitCode;

/// The server on this machine, with the account that every emulator of Azure Tables has.
const LOCAL_SERVER: &str = "UseDevelopmentStorage=true";

/// An entity: its keys are the city and the number, and its other fields are properties.
#[derive(Debug, Clone, Entity)]
#[entity(rename_all = "PascalCase")]
struct Customer {
    #[entity(partition_key)]
    city: String,
    #[entity(row_key, padded = 4)]
    number: u32,
    name: String,
    visits: i64,
    mail: Option<String>,
}

impl Customer {
    fn new(number: u32, name: &str, visits: i64) -> Self {
        Self { city: "Turin".to_owned(), number, name: name.to_owned(), visits, mail: None }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let connection_string = env::args().nth(1).unwrap_or_else(|| LOCAL_SERVER.to_owned());
    let Err(error) = run(&connection_string).await else { return ExitCode::SUCCESS };
    eprintln!("{error}");
    if error.kind() == ErrorKind::Unreachable {
        eprintln!("Is a server running there? `rowhouse serve` starts one on this machine.");
    }
    ExitCode::FAILURE
}

async fn run(connection_string: &str) -> Result<(), Error> {
    let customers = TableService::from_connection_string(connection_string)?.table("quickstart");
    customers.create_if_missing().await?;

    // The kind of an error tells a program what to do about it.
    match customers.insert(&Customer::new(1, "Ada", 9)).await {
        Ok(written) => println!("inserted Ada, version {}", written.etag.as_str()),
        Err(error) if error.kind() == ErrorKind::Conflict => println!("Ada is there from an earlier run"),
        Err(error) => return Err(error),
    }

    // A transaction writes up to 100 entities of one partition, all of them or none.
    let mut batch = Transaction::new();
    for (number, name, visits) in [(2, "Emmy", 4), (3, "Grace", 7), (4, "Maria", 2)] {
        batch = batch.insert_or_replace(&Customer::new(number, name, visits));
    }
    println!("wrote {} more customers in one transaction", customers.commit(batch).await?.len());

    // The compiler checks the names and the types in a filter. The stream reads one page after another.
    let mut regulars = customers.query::<Customer>().partition("Turin").filter(|c| c.visits.ge(5)).stream();
    while let Some(customer) = regulars.next().await {
        let customer = customer?;
        println!("{} has visited {} times", customer.name, customer.visits);
    }

    // An entity that was read contains its ETag, which identifies its version.
    let mut emmy = customers.get::<Customer>("Turin", "0002").await?;
    let outdated = emmy.clone();
    emmy.mail = Some("emmy@example.com".to_owned());
    customers.replace(&emmy, &emmy).await?;
    match customers.replace(&outdated, &outdated).await {
        Err(error) if error.kind() == ErrorKind::PreconditionFailed => println!("Emmy has changed since she was read"),
        result => drop(result?),
    }

    // `update` reads, changes and replaces an entity, and repeats this if another program was faster.
    let ada = customers
        .update::<Customer>("Turin", "0001", |ada| {
            ada.visits += 1;
            Ok(())
        })
        .await?;
    println!("Ada has now visited {} times", ada.visits);

    customers.delete("Turin", "0004", IfMatch::Any).await?;
    let names = customers.query::<Customer>().partition("Turin").select(|c| c.name).collect().await?;
    println!("the table contains {}", names.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Customer, run};
    use rowhouse_client::TableService;

    #[tokio::test]
    async fn it_runs_on_a_new_server_and_again() {
        let server = rowhouse_testing::TestServer::start().await.unwrap();
        let connection_string = server.connection_string();
        for visits in [10, 11] {
            run(&connection_string).await.unwrap();
            let table = TableService::from_connection_string(&connection_string).unwrap().table("quickstart");
            let all = table.query::<Customer>().collect().await.unwrap();
            let found: Vec<_> = all.iter().map(|customer| (customer.name.as_str(), customer.visits)).collect();
            assert_eq!(found, [("Ada", visits), ("Emmy", 4), ("Grace", 7)]);
            assert_eq!(all[1].mail.as_deref(), Some("emmy@example.com"));
        }
    }
}
