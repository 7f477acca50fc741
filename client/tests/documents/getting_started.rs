//! The program in docs/getting-started.md, which docs/client.md also starts with.

#![expect(dead_code, reason = "its `main` needs a running service, so a test calls `run` instead")]

use rowhouse_client::{Entity, Error, TableService};

#[derive(Debug, Entity)]
#[entity(rename_all = "PascalCase")]
struct Car {
    #[entity(partition_key)]
    make: String,
    #[entity(row_key)]
    number: String,
    doors: i32,
    weight: Option<f64>,
}

async fn run(connection_string: &str) -> Result<(), Error> {
    let cars = TableService::from_connection_string(connection_string)?.table("cars");
    cars.create_if_missing().await?;
    let car = Car { make: "kestrel".into(), number: "0007".into(), doors: 4, weight: Some(981.5) };
    cars.insert_or_replace(&car).await?;
    let mut found = cars.query::<Car>().partition("kestrel").filter(|car| car.doors.ge(4)).stream();
    while let Some(car) = found.next().await {
        println!("{:?}", car?.entity);
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    run("UseDevelopmentStorage=true").await
}

#[tokio::test]
async fn it_runs() {
    let server = rowhouse_testing::TestServer::start().await.unwrap();
    for _ in 0..2 {
        run(&server.connection_string()).await.unwrap();
    }
    let costs = server.costs();
    assert_eq!((costs.entities_returned, costs.entities_written), (2, 2), "{costs}");
}
