//! The examples of connecting, retries, signatures, transports and tests in docs/client.md.

use crate::tour::{Customer, ada, with_customers};
use crate::{Outcome, start};
use bytes::Bytes;
use http::{Request, Response};
use rowhouse_client::encryption::{AesKey, EncryptionMode, EncryptionPolicy};
use rowhouse_client::http::Proxies;
use rowhouse_client::{
    AccessToken, BoxFuture, CorsRule, CorsRules, Credential, DateTime, Endpoint, Entity, ErrorKind, HttpError, IfMatch,
    Permissions, PropertyBag, ReadFrom, RetryPolicy, StoredAccessPolicies, StoredAccessPolicy, TableSas, TableService,
    TokenCredential, TokenError, Transport,
};
use rowhouse_testing::TestServer;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

#[tokio::test]
async fn connecting() -> Outcome {
    let server = TestServer::start().await?;
    let connection_string = server.connection_string();
    {
        let service = TableService::from_connection_string(&connection_string)?;
        let customers = service.table("customers");
        customers.create_if_missing().await?;
        println!("{:?}", service.tables().prefix("cust").all().await?);
    }
    {
        let endpoint = Endpoint::parse("https://orchard.table.core.windows.net", None)?;
        let credential = Credential::parse("sv=2019-02-02&sig=abc%3D").ok_or("not a credential")?;
        let service = TableService::builder(endpoint, credential).timeout(Duration::from_secs(10)).build()?;
        drop(service);
    }
    Ok(())
}

#[test]
fn tokens() {
    #[derive(Debug)]
    struct FromFile;

    impl TokenCredential for FromFile {
        fn token<'a>(&'a self, _scope: &'a str) -> BoxFuture<'a, Result<AccessToken, TokenError>> {
            Box::pin(async {
                let text = std::fs::read_to_string("/run/secrets/token")?;
                Ok(AccessToken::new(text.trim(), None))
            })
        }
    }

    let credential = Credential::Token(Arc::new(FromFile));
    assert_eq!(format!("{credential:?}"), "Token(hidden)");
}

#[tokio::test]
async fn retries() -> Outcome {
    let (server, _service) = with_customers().await;
    let connection_string = server.connection_string();
    {
        let service = TableService::builder_from_connection_string(&connection_string)?
            .retry(RetryPolicy::exponential().attempts(8).budget(Duration::from_mins(1)))
            .timeout(Duration::from_secs(10))
            .build()?;
        let impatient = service.table("customers").with_retry(RetryPolicy::none()).with_timeout(Duration::from_secs(2));
        println!("{:?}", impatient.find::<Customer>("Turin", "000007").await?);
    }
    Ok(())
}

#[tokio::test]
async fn the_secondary() -> Outcome {
    let (server, _service) = with_customers().await;
    let connection_string = server.connection_string();
    {
        let service = TableService::builder_from_connection_string(&connection_string)?
            .read_from(ReadFrom::PrimaryThenSecondary)
            .build()?;
        println!("{:?}", service.statistics().await?);
    }
    Ok(())
}

#[tokio::test]
async fn signatures() -> Outcome {
    let (_server, service) = with_customers().await;
    let customers = service.table("customers");
    {
        let expiry = DateTime::from_system_time(SystemTime::now() + Duration::from_hours(1));
        let sas = TableSas::new(Permissions::READ, expiry).from_partition("Turin").to_partition("Turin");
        let text = customers.sas(&sas)?; // for a URL, or for another program

        let credential = Credential::parse(&text).ok_or("not a credential")?;
        let guest = TableService::new(service.endpoint().clone(), credential)?.table("customers");
        assert_eq!(guest.query::<Customer>().partition("Turin").collect().await?.len(), 2);
        let error = guest.delete("Turin", "000007", IfMatch::Any).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Forbidden);
    }
    {
        let mut readers = StoredAccessPolicy::new("readers").ok_or("the id is too long")?;
        readers.permissions = Some(Permissions::READ);
        readers.expiry = Some(DateTime::from_system_time(SystemTime::now() + Duration::from_hours(24)));
        let policies = StoredAccessPolicies::new(vec![readers]).ok_or("too many policies, or a duplicate id")?;
        customers.set_policies(&policies).await?;
        let text = customers.sas(&TableSas::with_policy("readers"))?;
        assert!(text.contains("si=readers"));
    }
    Ok(())
}

#[tokio::test]
async fn service_properties() -> Outcome {
    let (_server, service) = start().await;
    {
        let mut properties = service.properties().await?;
        let rule = CorsRule::new("https://shop.example.net", "GET,PUT", "x-ms-*", "etag", 600)?;
        properties.cors = CorsRules::new(vec![rule])?;
        service.set_properties(&properties).await?;
    }
    Ok(())
}

#[tokio::test]
async fn client_request_ids() -> Outcome {
    let (_server, service) = start().await;
    let orders = service.table("orders");
    let order = PropertyBag::new("2031", "0001")?;
    {
        let checkout = orders.with_client_request_id("checkout-4711");
        if let Err(error) = checkout.insert(&order).await {
            println!("{error}; request {}", error.client_request_id().unwrap_or("without an id"));
        }
    }
    Ok(())
}

#[test]
fn proxies() -> Outcome {
    let connection_string = "UseDevelopmentStorage=true".to_owned();
    {
        let proxies = Proxies::all("http://user:secret@proxy.example.net:3128")?.except("10.0.0.0/8, .example.net");
        let service = TableService::builder_from_connection_string(&connection_string)?.proxies(proxies).build()?;
        drop(service);
    }
    Ok(())
}

#[tokio::test]
async fn a_transport() -> Outcome {
    /// Responds to every request like a service that is too busy.
    #[derive(Debug)]
    struct Busy;

    impl Transport for Busy {
        fn send(&self, _: Request<Bytes>, _: Duration) -> BoxFuture<'_, Result<Response<Bytes>, HttpError>> {
            Box::pin(async {
                let busy = Response::builder().status(503).header("x-ms-error-code", "ServerBusy");
                Ok(busy.body(Bytes::new()).expect("a valid response"))
            })
        }
    }

    let service = TableService::builder_from_connection_string("UseDevelopmentStorage=true")?
        .transport(Busy)
        .retry(RetryPolicy::linear(Duration::ZERO).attempts(3))
        .build()?;
    let error = service.table("customers").insert(&ada()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Throttled);
    assert_eq!(error.refusal().map(|refusal| refusal.attempts), Some(3));
    Ok(())
}

mod tests {
    use super::*;

    #[tokio::test]
    async fn a_query_reads_one_partition() -> Result<(), Box<dyn std::error::Error>> {
        let server = TestServer::start().await?;
        let service = TableService::builder_from_connection_string(&server.connection_string())?
            .clock(server.clock().clone())
            .build()?;
        let customers = service.table("customers");
        customers.create().await?;
        customers.insert(&ada()).await?;
        customers.insert(&Customer { city: "Berlin".into(), ..ada() }).await?;

        server.clock().advance(Duration::from_hours(24));
        let before = server.costs();
        let found = customers.query::<Customer>().partition("Turin").collect().await?;
        let costs = server.costs() - before;
        assert_eq!((found.len(), costs.requests, costs.entities_examined), (1, 1, 1), "{costs}");
        Ok(())
    }
}

#[tokio::test]
async fn encryption() -> Outcome {
    let (_server, service) = start().await;
    let secret = [7; 32];
    service.table("patients").create().await?;
    {
        #[derive(Debug, Entity)]
        struct Patient {
            #[entity(partition_key)]
            ward: String,
            #[entity(row_key)]
            id: String,
            #[entity(encrypt)]
            diagnosis: String,
        }

        let policy =
            EncryptionPolicy::new(EncryptionMode::AesGcm).key(AesKey::new("key-2031", &secret)?).required(true);
        let patients = service.table("patients").with_encryption(policy);
        patients.insert(&Patient { ward: "3".into(), id: "1".into(), diagnosis: "a cold".into() }).await?;
        assert_eq!(patients.get::<Patient>("3", "1").await?.diagnosis, "a cold");
    }
    Ok(())
}
