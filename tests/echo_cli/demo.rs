//! The demonstration.

use crate::program::run;

#[test]
fn the_demonstration_ends_by_itself_with_a_table() {
    let Some(ended) = run(&[]) else { return };
    assert_eq!((ended.status, ended.err.len()), (Some(0), 0), "{ended:#?}");
    let table: Vec<_> =
        ended.out.iter().skip_while(|line| !line.starts_with("datagrams ")).collect();
    let [heading, std, batches, offload] = table[..] else { panic!("not four: {ended:#?}") };
    assert!(heading.ends_with("lost"), "{heading}");
    assert!(std.starts_with("one at a time (std)") && std.contains(" 1.00 "), "{std}");
    assert!(batches.starts_with("in batches (mmsg)"), "{batches}");
    assert!(offload.starts_with("with offload (mmsg)"), "{offload}");
    for row in [std, batches, offload] {
        let rates: Vec<u64> = row
            .split_whitespace()
            .filter_map(|word| word.strip_suffix("/s")?.replace(',', "").parse().ok())
            .collect();
        assert!(rates.len() == 2 && rates.iter().all(|rate| *rate > 0), "{row}");
    }
}
