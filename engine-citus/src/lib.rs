//! The database engine on PostgreSQL, and on a Citus cluster.
//!
//! [`engine_postgres`] knows only two things of a cluster: where a request to a partition goes (`routes`), and in which
//! order the nodes' transactions enter the change feed (`order`). This crate also connects to nodes that the URL omits
//! (`discovery`), measures the load of the partitions (`heat`), and evens out the load of the nodes (`balance`).
//!
//! `docs/scaling.md` describes how to operate a cluster, and ADR 13, ADR 28 and ADR 29 explain the design.

mod balance;
mod discovery;
mod hash;
mod heat;
#[cfg(test)]
mod node_tests;
mod order;
mod routes;

pub use balance::balancer::{Balance, take_step};
pub use balance::report::read_load;

use balance::balancer::balance_cluster;
use balance::publishing::publish_load;
use engine::{BoxFuture, LoadMonitor};
use engine_postgres::parts::Dialect;
use engine_postgres::{Cluster, Database, Postgres, PostgresOptions, StoreError};
use heat::Meter;
use model::Clock;
use order::citus_order::CitusOrders;
use routes::CitusRoutes;
use std::sync::Arc;

/// Opens a database, whether it is a Citus cluster or not. `balance` says what to do about an uneven load of the
/// workers.
pub fn open(
    options: &PostgresOptions,
    balance: Balance,
    clock: impl Clock,
) -> BoxFuture<'_, Result<Postgres, StoreError>> {
    open_cluster(options, balance, Arc::new(clock))
}

fn open_cluster(
    options: &PostgresOptions,
    balance: Balance,
    clock: Arc<dyn Clock>,
) -> BoxFuture<'_, Result<Postgres, StoreError>> {
    Box::pin(async move {
        let (mut is_citus, mut meter) = (false, None);
        let mut engine = Postgres::open(options, clock, &mut |database| {
            is_citus = database.dialect == Dialect::Citus;
            meter = (database.is_distributed && balance != Balance::Off).then(|| Arc::new(Meter::new()));
            if is_citus { cluster(database, meter.clone()) } else { Cluster::one_node() }
        })
        .await?;
        let (shared, settings) = (Arc::clone(engine.state()), engine.connection().clone());
        if is_citus {
            engine.add_task(tokio::spawn(routes::refresh_at_intervals(Arc::clone(&shared))));
            engine.add_task(tokio::spawn(discovery::add_nodes_at_intervals(Arc::clone(&shared))));
        }
        if let Some(meter) = meter {
            let load = LoadMonitor::default();
            engine.set_load(load.clone());
            engine.add_task(tokio::spawn(publish_load(Arc::clone(&shared), meter, settings.clone())));
            engine.add_task(tokio::spawn(balance_cluster(shared, settings, balance, load)));
        }
        Ok(engine)
    })
}

fn cluster(database: Database, meter: Option<Arc<Meter>>) -> Cluster {
    let routes = Arc::new(CitusRoutes::new(database.has_equal_nodes, meter));
    let cluster = Cluster { routes, ..Cluster::one_node() };
    if database.is_distributed { Cluster { orders: Arc::new(CitusOrders), ..cluster } } else { cluster }
}
