//! Get Table Service Stats (10 §6).

use crate::Layer::FrontEnd;
use crate::{Server, check, get};

const STATS: &str = "/?restype=service&comp=stats";
const LIVE: &str = "<StorageServiceStats><GeoReplication><Status>live</Status><LastSyncTime>Fri, 14 Mar 2031 08:15:30 GMT</LastSyncTime></GeoReplication></StorageServiceStats>";

#[test]
fn only_the_secondary_endpoint_has_statistics() {
    let secondary = format!("-secondary{STATS}");
    check(
        &Server::start(),
        [
            get(&secondary).ok(200).xml(LIVE),
            get(&secondary).without("Accept").ok(200).xml(LIVE),
            get(STATS).fails(400, "InvalidQueryParameterValue", FrontEnd),
            crate::Case::new("HEAD", &secondary, "").answers(405, "UnsupportedHttpVerb"),
        ],
    );
    // A setting allows it on the primary endpoint in path style, because the JavaScript client asks there.
    let server = Server::with(|settings| settings.stats_on_primary = true);
    check(&server, [get(STATS).ok(200).xml(LIVE), get(&secondary).ok(200).xml(LIVE)]);
}
