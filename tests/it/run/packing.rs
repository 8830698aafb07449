//! Lanes and executors change no bit.

use super::{Home, Sweep};

#[test]
fn two_executors_of_eight_lanes_give_the_bits_of_one_lane() {
    agree("packing", &[(1, 1), (2, 8)]);
}

#[cfg(feature = "slow")]
#[test]
fn any_number_of_executors_and_lanes_gives_the_same_bits() {
    agree(
        "packings",
        &[(1, 1), (1, 8), (2, 1), (2, 3), (2, 8), (4, 1), (4, 8)],
    );
}

fn agree(name: &str, shapes: &[(u32, u32)]) {
    let home = Home::shared();
    let mut first = None;
    for (executors, lanes) in shapes {
        let name = format!("{name}-{executors}-{lanes}");
        let sweep = Sweep {
            executors: *executors,
            lanes: *lanes,
            ..Sweep::new(&name)
        };
        let results = home.complete(&sweep);
        home.assert_exact(&sweep);
        // Four configurations, two arms, two folds of two epochs: every table has its rows.
        let rows: Vec<usize> = results
            .split("\n\n")
            .map(|part| part.lines().count())
            .collect();
        assert_eq!(rows, [8, 16, 32, 16]);
        let first = first.get_or_insert_with(|| results.clone());
        assert_eq!(*first, results, "{executors} executors of {lanes} lanes");
    }
}
