use anyhow::Context;
use std::sync::mpsc::sync_channel;
use std::thread;

/// The number of files that all threads together read ahead, if there are no more threads.
const FILES_AHEAD_MAX: usize = 4;

/// Passes the results of `read` to the sink in the order of the items. Each thread reads one file at a time.
pub(super) fn read_ahead<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    read: impl Fn(&T) -> R + Sync,
    mut sink: impl FnMut(&T, R) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let threads = threads.min(items.len()).max(1);
    thread::scope(|scope| {
        let mut results = Vec::new();
        for first in 0..threads {
            let (ahead, result) = sync_channel(FILES_AHEAD_MAX.div_ceil(threads));
            let read = &read;
            scope.spawn(move || {
                for item in items.iter().skip(first).step_by(threads) {
                    if ahead.send(read(item)).is_err() {
                        // The receiver stopped because of an error.
                        return;
                    }
                }
            });
            results.push(result);
        }
        for (item, result) in items.iter().zip(results.iter().cycle()) {
            sink(item, result.recv().context("a thread that reads the repository panicked")?)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::ensure;

    #[test]
    fn results_arrive_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..100).collect();
        for threads in [1, 2, 7, 200] {
            let mut seen = Vec::new();
            read_ahead(
                threads,
                &items,
                |item| item * 2,
                |item, result| {
                    assert_eq!(result, item * 2);
                    seen.push(*item);
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(seen, items);
        }
        read_ahead(3, &[0; 0], |_| (), |_, ()| Ok(())).unwrap();
    }

    #[test]
    fn an_error_of_the_sink_ends_the_threads() {
        let items: Vec<usize> = (0..100).collect();
        let result = read_ahead(
            4,
            &items,
            |item| *item,
            |_, item| {
                ensure!(item < 10, "stop");
                Ok(())
            },
        );
        assert_eq!(result.unwrap_err().to_string(), "stop");
    }
}
