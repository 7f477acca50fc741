//! Decodes the operations of a change set, on two threads where there is much to decode and a processor for the second.

use super::Refused;
use super::part::Part;
use crate::answer::Answer;
use crate::call::Call;
use crate::failure::Failure;
use crate::operations::update_entity::{self, Update};
use crate::operations::{delete_entity, insert_entity};
use crate::route::Operation;
use crate::second_thread::SecondThread;
use model::{Action, EntityKey, Mutation, RecordBuilder, Written};
use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use wire::ErrorCode;
use wire::negotiation::Preference;

/// A batch of fewer bytes is decoded by one thread: waking another takes as long.
pub(super) const SHARED_BYTES_MIN: usize = 32 * 1024;
/// How many operations a thread takes at a time.
const SHARE: usize = 10;

/// What an operation of a change set needs for its answer.
pub(super) struct Step<'a> {
    pub(super) call: Arc<Call<'a>>,
    pub(super) table: Cow<'a, str>,
    /// Key and properties of an entity that is shown again; `None` for operations that are answered without.
    inserted: Option<(EntityKey, Option<RecordBuilder>)>,
}

impl Step<'_> {
    /// Whether the answer shows the entity.
    pub(super) fn shows_entity(&self) -> bool {
        matches!(self.inserted, Some((_, Some(_))))
    }

    pub(super) fn answer(self, written: Written) -> Result<Answer, Failure> {
        match (self.inserted, written) {
            (Some((key, echo)), Written::Stored(timestamp)) => {
                insert_entity::answer(&self.call, &self.table, &key, echo, timestamp)
            }
            (None, Written::Stored(timestamp)) => Ok(Answer { etag: Some(timestamp), ..Answer::no_content() }),
            (_, Written::Deleted) => Ok(Answer::no_content()),
        }
    }
}

/// The operations of a change set up to the first that is refused.
#[derive(Default)]
pub(super) struct Decoded<'p> {
    pub(super) steps: Vec<Step<'p>>,
    pub(super) mutations: Vec<Mutation>,
    /// The first that cannot be decoded, or that names another table than the first of all.
    pub(super) refused: Option<Refused>,
}

/// Decodes operations up to the first that is refused.
///
/// UNVERIFIED (05 §5.2): the code for operations on different tables.
pub(super) fn decode_all<'p>(second: Option<&SecondThread>, batch: &'p Call<'_>, parts: &'p [Part<'_>]) -> Decoded<'p> {
    if let Some(first) = parts.first() {
        first.note_table(batch);
    }
    let shares = match second {
        Some(second) => decode_shares(second, batch, parts),
        None => vec![decode_share(batch, parts, 0)],
    };
    let mut all = Decoded::default();
    for mut share in shares {
        let Some(first) = all.steps.first().or(share.steps.first()) else { return share };
        let is_strange = |step: &Step<'_>| !step.table.eq_ignore_ascii_case(&first.table);
        if let Some(at) = share.steps.iter().position(is_strange) {
            let code = ErrorCode::CommandsInBatchActOnDifferentPartitions;
            share.refused = Some(Refused::late(all.steps.len() + at, code));
            share.steps.truncate(at);
            share.mutations.truncate(at);
        }
        all.steps.append(&mut share.steps);
        all.mutations.append(&mut share.mutations);
        all.refused = share.refused;
        if all.refused.is_some() {
            break;
        }
    }
    all
}

/// Decodes operations in shares, which are in order. Behind one that holds what is refused, some may be missing.
fn decode_shares<'p>(second: &SecondThread, batch: &'p Call<'_>, parts: &'p [Part<'_>]) -> Vec<Decoded<'p>> {
    let shares: Vec<_> = parts.chunks(SHARE).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(shares.len())));
    second.share(|| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(share) = shares.get(number) else { break };
            let decoded = decode_share(batch, share, number * SHARE);
            if decoded.refused.is_some() {
                next.store(shares.len(), Ordering::Relaxed);
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).push((number, decoded));
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, decoded)| decoded).collect()
}

/// Decodes operations, of which the first has this index, up to the first that cannot be decoded.
fn decode_share<'p>(batch: &'p Call<'_>, parts: &'p [Part<'_>], first: usize) -> Decoded<'p> {
    let (mut steps, mut mutations) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
    let mut before: Option<Opened<'p>> = None;
    for (index, part) in parts.iter().enumerate() {
        let opened = match before.take().filter(|_| part.is_repeat) {
            Some(opened) => Ok(opened),
            None => part.open(batch).map(|(call, operation)| (Arc::new(call), operation)),
        };
        match opened.and_then(|opened| decode(before.insert(opened), part.request.body)) {
            Err(failure) => {
                let refused = Some(Refused::early(first + index, failure));
                return Decoded { steps, mutations, refused };
            }
            Ok((step, mutation)) => {
                steps.push(step);
                mutations.push(mutation);
            }
        }
    }
    Decoded { steps, mutations, refused: None }
}

/// What a part asks for. Parts that say the same share it.
type Opened<'p> = (Arc<Call<'p>>, Operation<'p>);

fn decode<'p>((call, operation): &Opened<'p>, body: &[u8]) -> Result<(Step<'p>, Mutation), Failure> {
    let (table, mutation, inserted) = match operation {
        Operation::InsertEntity(table) => {
            let (key, properties) = insert_entity::decode(call, body)?;
            let echo = (call.preference != Some(Preference::NoContent)).then(|| properties.clone());
            let inserted = Some((key.clone(), echo));
            (table.clone(), Mutation::Insert { key, properties }, inserted)
        }
        Operation::UpdateEntity(address) => {
            let mutation = update_entity::decode(call, Update::Replace, address, body)?;
            (address.table.clone(), mutation, None)
        }
        Operation::MergeEntity(address) => {
            let mutation = update_entity::decode(call, Update::Merge, address, body)?;
            (address.table.clone(), mutation, None)
        }
        Operation::DeleteEntity(address) => {
            let mutation = delete_entity::decode(call, address)?;
            (address.table.clone(), mutation, None)
        }
        // UNVERIFIED (05 §5.2): the code for a query in a change set.
        _ => return Err(Failure::query(ErrorCode::InvalidInput)),
    };
    call.allow(Action::of(&mutation, &table))?;
    Ok((Step { call: Arc::clone(call), table, inserted }, mutation))
}
