//! The page `/metrics`, in the OpenMetrics text format.

use super::metrics_page::{MetricsPage, MetricsSnapshot};
use super::{engine_families, memory, process, server_families};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;
use std::fmt;

pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) fn write(snapshot: &MetricsSnapshot) -> Result<String, fmt::Error> {
    let mut page = String::with_capacity(32 * 1024);
    for (prefix, part) in [(Some("rowhouse"), Part::Server(Box::new(snapshot.clone()))), (None, Part::Process)] {
        let mut registry = prefix.map_or_else(Registry::default, Registry::with_prefix);
        registry.register_collector(Box::new(part));
        encode_registry(&mut page, &registry)?;
    }
    encode_eof(&mut page)?;
    Ok(page)
}

/// The two parts of the page, whose metrics have different name prefixes.
#[derive(Debug)]
enum Part {
    Server(Box<MetricsSnapshot>),
    Process,
}

impl Collector for Part {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = MetricsPage { encoder: &mut encoder };
        match self {
            Self::Server(snapshot) => {
                server_families::write(&mut page, snapshot)?;
                memory::write(&mut page, snapshot)?;
                match &snapshot.service {
                    Some((figures, _)) => engine_families::write(&mut page, figures),
                    None => Ok(()),
                }
            }
            Self::Process => process::write(&mut page),
        }
    }
}
