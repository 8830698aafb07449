use super::super::testing::values;
use super::*;
use crate::engine::op::replay::END_TIME_LIMIT;

const RING: Ring = Ring {
    capacity: 7,
    n_env: 3,
};

#[test]
fn every_start_of_whole_sequences_is_drawn_and_no_other() {
    for size in 0..=RING.capacity {
        for head in 0..RING.capacity {
            for n_step_max in 1..=4 {
                // A grid finer than the pairs, with the uniforms nearest to 0 and 1.
                let mut uniform: Vec<f32> = (0..500).map(|i| i as f32 / 500.0).collect();
                uniform.push(1.0 - 1.0 / 16_777_216.0);
                let mut out = vec![-1; uniform.len()];
                sample(&uniform, RING, Fill { size, head }, n_step_max, &mut out);
                out.sort_unstable();
                out.dedup();
                // Rows from the oldest on, as long as n_step_max rows follow.
                let mut expected: Vec<i32> = (0..size)
                    .filter(|age| age + n_step_max <= size)
                    .map(|age| (head + RING.capacity - size + age) % RING.capacity)
                    .flat_map(|row| (0..RING.n_env).map(move |e| (row * RING.n_env + e) as i32))
                    .collect();
                expected.sort_unstable();
                if expected.is_empty() {
                    expected.push(0);
                }
                assert_eq!(out, expected, "{size} {head} {n_step_max}");
            }
        }
    }
}

#[test]
fn strange_uniforms_stay_in_range() {
    let fill = Fill { size: 7, head: 2 };
    let mut out = [-1; 5];
    let uniform = [1.0, 2.0, f32::NAN, -1.0, f32::INFINITY];
    sample(&uniform, RING, fill, 1, &mut out);
    // Oldest row 2, newest row 1: the first pair is 6, the last 5.
    assert_eq!(out, [5, 5, 6, 6, 5]);
}

#[test]
fn pairs_are_equally_likely() {
    let fill = Fill { size: 6, head: 6 };
    let uniform = values("replay", 12_000, 0.0, 1.0);
    let mut out = vec![-1; uniform.len()];
    sample(&uniform, RING, fill, 3, &mut out);
    let mut counts = [0u32; 12];
    for &i in &out {
        counts[i as usize] += 1;
    }
    // 1000 expected, standard deviation 30: five of them.
    assert!(counts.iter().all(|&c| c.abs_diff(1000) < 150), "{counts:?}");
}

/// Returns, discounts and last indices for environment 1 of a ring of 7 × 3.
fn run(
    reward: [f64; 7],
    end: [i32; 7],
    starts: &[i32],
    n: usize,
) -> (Vec<f64>, Vec<f64>, Vec<i32>) {
    // The other environments hold NaN and ends: nobody may read them.
    let (mut rewards, mut ends) = (vec![f64::NAN; 21], vec![END_TERMINAL; 21]);
    for row in 0..7 {
        rewards[row * 3 + 1] = reward[row];
        ends[row * 3 + 1] = end[row];
    }
    let index: Vec<i32> = starts.iter().map(|row| row * 3 + 1).collect();
    let (mut returns, mut discount) = (vec![f64::NAN; index.len()], vec![f64::NAN; index.len()]);
    let mut last = vec![-1; index.len()];
    let out = NStep {
        returns: &mut returns,
        discount: &mut discount,
        last: &mut last,
    };
    n_step(&rewards, &ends, RING, &index, n, 0.5, out);
    (
        returns,
        discount,
        last.iter().map(|i| (i - 1) / 3).collect(),
    )
}

#[test]
fn returns_wrap_around_the_ring() {
    let reward = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
    let (returns, discount, last) = run(reward, [0; 7], &[0, 5, 6], 3);
    assert_eq!(returns, [3.0, 32.0 + 32.0 + 0.25, 64.0 + 0.5 + 0.5]);
    assert_eq!(discount, [0.125; 3]);
    assert_eq!(last, [2, 0, 1]);
    let (returns, discount, last) = run(reward, [0; 7], &[4], 1);
    assert_eq!((returns, discount, last), (vec![16.0], vec![0.5], vec![4]));
}

#[test]
fn returns_stop_at_the_first_end() {
    let reward = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
    let end = [0, END_TERMINAL, 0, END_TIME_LIMIT, END_TERMINAL, 0, 0];
    let (returns, discount, last) = run(reward, end, &[0, 1, 2, 3], 4);
    assert_eq!(returns, [2.0, 2.0, 8.0, 8.0]);
    // Nothing follows a terminal one; a time limit is bootstrapped after the steps made.
    assert_eq!(discount, [0.0, 0.0, 0.25, 0.5]);
    assert_eq!(last, [1, 1, 3, 3]);
}

#[test]
#[should_panic(expected = "index 21 is outside 0..21")]
fn an_index_past_the_ring_is_refused() {
    let (reward, end) = ([0f32; 21], [0; 21]);
    let out = NStep {
        returns: &mut [0f32],
        discount: &mut [0f32],
        last: &mut [0],
    };
    n_step(&reward, &end, RING, &[21], 1, 0.5, out);
}
