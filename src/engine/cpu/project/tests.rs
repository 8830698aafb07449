use super::super::testing::{assert_close, bits, values, wide};
use super::*;

/// The definition, all pairs of atoms.
fn dense<R: Real>(p: &[R], reward: R, discount: R, support: Support<R>) -> Vec<R> {
    let last = R::from_f64((p.len() - 1) as f64);
    let spacing = (support.z_max - support.z_min) / last;
    let mut out = vec![R::ZERO; p.len()];
    for (i, out) in out.iter_mut().enumerate() {
        for (j, &p) in p.iter().enumerate() {
            let z = support.z_min + index::<R>(j) * spacing;
            let at = index::<R>(j);
            let s = clamp((reward + (discount - R::ONE) * z) / spacing, -at, last - at);
            *out += p * (R::ONE - (s + (at - index(i))).abs()).max(R::ZERO);
        }
    }
    out
}

fn one_row<R: Real>(p: &[R], reward: f64, discount: f64, z_min: f64, z_max: f64) -> Vec<f64> {
    let rows = Rows {
        n: 1,
        width: p.len(),
        n_valid: p.len(),
    };
    let support = Support {
        z_min: R::from_f64(z_min),
        z_max: R::from_f64(z_max),
    };
    let mut out = vec![R::NAN; p.len()];
    let (reward, discount) = ([R::from_f64(reward)], [R::from_f64(discount)]);
    project(p, &reward, &discount, support, &mut out, rows);
    out.iter().map(|x| x.to_f64()).collect()
}

#[test]
fn published_values() {
    // Support 0..4 seen from 3..7: z − 3.
    let p = [0.1, 0.2, 0.1, 0.3, 0.3];
    let got = one_row(&p, -3.0, 1.0, 3.0, 7.0);
    assert_close(&got, &[0.7, 0.3, 0.0, 0.0, 0.0], 1e-15);
    let got = one_row(&p.map(|x| x as f32), -3.0, 1.0, 3.0, 7.0);
    assert_close(&got, &[0.7, 0.3, 0.0, 0.0, 0.0], 1e-6);
    // All mass at 0, support −1..1, reward 0.3, discount 0.9.
    let got = one_row(&[0.0, 0.0, 1.0, 0.0, 0.0], 0.3, 0.9, -1.0, 1.0);
    assert_close(&got, &[0.0, 0.0, 0.4, 0.6, 0.0], 1e-15);
}

#[test]
fn the_two_neighbours_are_the_whole_definition() {
    for n_valid in [2usize, 3, 21, 51, 101] {
        let rows = Rows {
            n: 40,
            width: n_valid.next_multiple_of(8),
            n_valid,
        };
        let mut p = values("p", rows.len(), 0.0, 1.0);
        for row in p.chunks_mut(rows.width) {
            row[n_valid..].fill(f32::NAN);
        }
        let mut reward = values("r", rows.n, -30.0, 30.0);
        reward[..3].copy_from_slice(&[f32::INFINITY, f32::NEG_INFINITY, 0.0]);
        let mut discount = values("d", rows.n, 0.0, 1.0);
        discount[2..5].copy_from_slice(&[1.0, 0.0, 1.0]);
        let support = Support::symmetric(10f32);
        let mut out = vec![f32::NAN; rows.len()];
        project(&p, &reward, &discount, support, &mut out, rows);
        for (row, out) in out.chunks(rows.width).enumerate() {
            let p = &p[row * rows.width..][..n_valid];
            let expected = dense(p, reward[row], discount[row], support);
            assert_eq!(bits(&out[..n_valid]), bits(&expected), "{rows:?} {row}");
            assert!(out[n_valid..].iter().all(|x| x.to_bits() == 0));
        }
    }
}

#[test]
fn mass_is_kept_and_the_mean_unless_clamped() {
    let support = Support::symmetric(10f64);
    for case in 0..200 {
        let name = format!("case {case}");
        let mut p = wide(&values(&name, 51, 0.0, 1.0));
        let sum: f64 = p.iter().sum();
        p.iter_mut().for_each(|p| *p /= sum);
        let (reward, discount) = (f64::from(case) / 20.0 - 5.0, 0.5);
        let out = one_row(&p, reward, discount, support.z_min, support.z_max);
        let mean = |p: &[f64]| -> f64 {
            p.iter()
                .enumerate()
                .map(|(i, p)| p * (-10.0 + 0.4 * i as f64))
                .sum()
        };
        // f64 rounding of 51 terms.
        assert_close(&[out.iter().sum()], &[1.0], 1e-13);
        // |reward| + discount·10 ≤ 10: nothing is clamped.
        assert_close(&[mean(&out)], &[reward + discount * mean(&p)], 1e-12);
    }
}

#[test]
fn a_terminal_transition_leaves_the_reward_alone() {
    let p = [0.25f64; 4];
    let got = one_row(&p, 0.5, 0.0, -1.5, 1.5);
    assert_close(&got, &[0.0, 0.0, 1.0, 0.0], 1e-15);
    let got = one_row(&p, 99.0, 0.0, -1.5, 1.5);
    assert_close(&got, &[0.0, 0.0, 0.0, 1.0], 1e-15);
}

#[test]
fn nan_stays_in_its_row() {
    let rows = Rows {
        n: 3,
        width: 8,
        n_valid: 5,
    };
    let p = [0.125f32; 24];
    let support = Support::symmetric(1f32);
    let mut clean = [0f32; 24];
    project(&p, &[0.1; 3], &[0.9; 3], support, &mut clean, rows);
    let mut spoilt_p = p;
    spoilt_p[9] = f32::NAN;
    for (p, reward) in [(spoilt_p, [0.1; 3]), (p, [0.1, f32::NAN, 0.1])] {
        let mut out = [0f32; 24];
        project(&p, &reward, &[0.9; 3], support, &mut out, rows);
        assert!(out[8..13].iter().any(|x| x.is_nan()));
        assert_eq!(bits(&out[..8]), bits(&clean[..8]));
        assert_eq!(bits(&out[16..]), bits(&clean[16..]));
        assert!(out[13..16].iter().all(|x| x.to_bits() == 0));
    }
}
