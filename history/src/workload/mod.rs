//! A workload for any service: clients that send random conflicting requests to few entities, and record the answers.
//!
//! This module must not depend on a transport; tests implement [`Client`].

mod choices;

use crate::operation::{Action, Answer, Mutation, Page, Version};
use crate::recorder::ClientLog;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

pub use choices::{Choices, Mix, Query, Request};

/// The reason why an operation has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// The service failed, and may have executed the request; it may serve the next one.
    Failed,
    /// The service promises that it did not execute the request, or the request was not sent. The service may serve
    /// the next one.
    NotExecuted,
}

/// A connection to a service.
pub trait Client: Send {
    /// Reads an entity.
    fn get(&mut self, partition: &str, row: &str) -> impl Future<Output = Result<Option<Version>, NoAnswer>> + Send;

    /// Reads a page. The boundaries of the page must be those that the service states.
    fn page(&mut self, partition: &str, query: &Query) -> impl Future<Output = Result<Page, NoAnswer>> + Send;

    /// Executes the mutations as one transaction, or a single mutation as such.
    fn write(
        &mut self,
        partition: &str,
        mutations: &[Mutation],
    ) -> impl Future<Output = Result<Answer, NoAnswer>> + Send;
}

/// Sends requests until `count` were sent, the connection is lost, or `is_over` is set. Returns the number of answers.
pub async fn run_client<C: Client>(
    client: &mut C,
    log: &ClientLog,
    choices: &mut Choices,
    count: u64,
    is_over: &AtomicBool,
) -> u64 {
    let mut answers = 0;
    for _ in 0..count {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let (number, request) = choices.request(&mut || log.token());
        let partition = format!("p{number}");
        let result = send(client, log, &partition, &request).await;
        match result {
            Ok(action) => {
                choices.learn(number, &request, &action);
                answers += 1;
            }
            Err(NoAnswer::Failed | NoAnswer::NotExecuted) => {}
        }
    }
    answers
}

async fn send<C: Client>(
    client: &mut C,
    log: &ClientLog,
    partition: &str,
    request: &Request,
) -> Result<Action, NoAnswer> {
    Ok(match request {
        Request::Get(row) => {
            let pending = log.read();
            let found = client.get(partition, row).await?;
            pending.found(partition, row, found.clone());
            Action::Get { row: row.clone(), found }
        }
        Request::Page(query) => {
            let pending = log.read();
            let page = client.page(partition, query).await?;
            pending.pages([(partition.to_owned(), page.clone())]);
            Action::Page(page)
        }
        Request::Write(mutations) => {
            let pending = log.write(partition, mutations.clone());
            let answer = match client.write(partition, mutations).await {
                Ok(answer) => answer,
                Err(reason) => {
                    if reason == NoAnswer::NotExecuted {
                        pending.discard();
                    }
                    return Err(reason);
                }
            };
            pending.answered(answer.clone());
            Action::Write { mutations: mutations.clone(), answer }
        }
    })
}
