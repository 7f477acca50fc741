//! Tests with busy services and broken connections.

use super::{assert_same_files, done, manifest};
use crate::PROGRAM;
use std::sync::atomic::Ordering;
use test_support::command::endpoint;
use test_support::content::{fill, fill_with_everything};
use test_support::proxy::Proxy;

#[test]
fn lost_responses_cause_neither_gaps_nor_conflicts() {
    let folder = PROGRAM.folder();
    let (from, to) = (PROGRAM.start(&["--in-memory"]), PROGRAM.start(&["--in-memory"]));
    fill_with_everything(&from);
    fill(&from, "scattered", 600, 3);
    fill(&from, "deep", 2, 2000);
    done(&folder, "export", &["--from", &super::endpoint(&from), "--to", "whole"]);
    let (source, target) = (Proxy::start(&from.address, 8), Proxy::start(&to.address, 4));
    done(&folder, "export", &["--from", &endpoint(&source.address), "--to", "disturbed"]);
    assert_same_files(&folder, "disturbed", "whole");
    // An insert whose response was lost finds its own entity.
    done(&folder, "import", &["--from", "disturbed", "--to", &endpoint(&target.address), "--mode", "insert"]);
    done(&folder, "export", &["--from", &super::endpoint(&to), "--to", "again"]);
    assert_same_files(&folder, "again", "whole");
    assert_eq!(manifest(&folder, "again"), manifest(&folder, "whole"));
    for counts in [&source.counts, &target.counts] {
        for counter in [&counts.busy, &counts.dropped_requests, &counts.dropped_answers] {
            assert!(counter.load(Ordering::Relaxed) > 0, "{counts:?}");
        }
    }
}
