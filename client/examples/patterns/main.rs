//! The design patterns that docs/patterns.md explains, one program in each module.
//!
//! ```sh
//! cargo run -p rowhouse-client --example patterns              # lists the programs
//! cargo run -p rowhouse-client --example patterns -- blog      # runs one
//! cargo run -p rowhouse-client --example patterns -- all       # runs all of them
//! ```
//!
//! The programs share one binary because each of them runs a server, and linking a server takes much longer than
//! compiling a program.

mod blog;
mod client_join;
mod compound_key;
mod data_series;
mod denormalization;
mod eventual_archive;
mod heterogeneous;
mod high_volume_delete;
mod home_page;
mod index_entities;
mod index_table;
mod inheritance;
mod inter_partition_index;
mod intra_partition_index;
mod large_entities;
mod log_data;
mod log_tail;
mod micro_blog;
mod micro_blog_partitions;
mod one_to_many;
mod one_to_one;
mod prepend_append;
mod stress_test;
mod support;
mod upsert;
mod versioning;
mod wide_entities;

use std::pin::Pin;
use support::Result;

struct Program {
    name: &'static str,
    source: &'static str,
    run: fn() -> Pin<Box<dyn Future<Output = Result>>>,
}

impl Program {
    /// Returns the first sentence of the program's source, which describes it.
    fn summary(&self) -> String {
        let paragraph = self.source.lines().map_while(|line| line.strip_prefix("//! "));
        let text = paragraph.collect::<Vec<_>>().join(" ");
        text.split_once(". ").map_or(text.trim_end_matches('.'), |(sentence, _)| sentence).to_owned()
    }
}

/// Lists the programs, and creates a test for each of them.
macro_rules! programs {
    ($($name:ident),+) => {
        const PROGRAMS: &[Program] = &[$(Program {
            name: stringify!($name),
            source: include_str!(concat!(stringify!($name), ".rs")),
            run: || Box::pin($name::run()),
        }),+];

        #[cfg(test)]
        mod works {
            $(#[tokio::test]
            async fn $name() -> crate::support::Result {
                crate::support::check(|| Box::pin(crate::$name::run())).await
            })+
        }
    };
}

programs!(
    blog,
    client_join,
    compound_key,
    data_series,
    denormalization,
    eventual_archive,
    heterogeneous,
    high_volume_delete,
    home_page,
    index_entities,
    index_table,
    inheritance,
    inter_partition_index,
    intra_partition_index,
    large_entities,
    log_data,
    log_tail,
    micro_blog,
    micro_blog_partitions,
    one_to_many,
    one_to_one,
    prepend_append,
    stress_test,
    upsert,
    versioning,
    wide_entities
);

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "the user requested the list")]
async fn main() -> Result {
    let Some(wanted) = std::env::args().nth(1) else {
        for program in PROGRAMS {
            println!("{:24}{}", program.name, program.summary());
        }
        return Ok(());
    };
    let chosen: Vec<_> = PROGRAMS.iter().filter(|program| wanted == "all" || program.name == wanted).collect();
    if chosen.is_empty() {
        return Err(format!("no program is called '{wanted}'; run without an argument to list them").into());
    }
    for program in chosen {
        (program.run)().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::PROGRAMS;

    #[test]
    fn the_page_has_a_place_for_every_program_and_no_other() {
        let page = include_str!("../../../docs/patterns.md");
        let places = page.lines().filter_map(|line| line.strip_prefix("<!-- costs of ")?.strip_suffix(" -->"));
        let mut places: Vec<_> = places.collect();
        places.sort_unstable();
        assert_eq!(places, PROGRAMS.iter().map(|program| program.name).collect::<Vec<_>>());
        for program in PROGRAMS {
            let link = format!("(../client/examples/patterns/{}.rs)", program.name);
            assert!(page.contains(&link), "docs/patterns.md does not link {}", program.name);
        }
    }
}
