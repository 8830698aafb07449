use super::*;

#[test]
fn rows_come_in_the_order_of_the_index() {
    let table = [0.0, 1.0, 10.0, 11.0, 20.0, 21.0];
    let mut out = [f64::NAN; 8];
    rows(&table, &[2, 0, 2, 1], &mut out, 2);
    assert_eq!(out, [20.0, 21.0, 0.0, 1.0, 20.0, 21.0, 10.0, 11.0]);
}

#[test]
fn spread_is_the_transpose_of_pick() {
    let axis = Axis {
        outer: 2,
        n: 3,
        inner: 2,
    };
    let x: Vec<f32> = (0..12u8).map(f32::from).collect();
    let index = [2, 0];
    let mut out = [f32::NAN; 4];
    pick(&x, &index, &mut out, axis);
    assert_eq!(out, [4.0, 5.0, 6.0, 7.0]);
    let g = [1.0f32, 2.0, 3.0, 4.0];
    let mut back = [f32::NAN; 12];
    spread(&g, &index, &mut back, axis);
    assert_eq!(
        back,
        [0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0]
    );
    // ⟨pick x, g⟩ = ⟨x, spread g⟩.
    let dot = |a: &[f32], b: &[f32]| -> f32 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    assert_eq!(dot(&out, &g), dot(&x, &back));
}

#[test]
fn nan_elsewhere_is_not_read() {
    let axis = Axis {
        outer: 1,
        n: 2,
        inner: 1,
    };
    let mut out = [0f32];
    pick(&[f32::NAN, 3.0], &[1], &mut out, axis);
    assert_eq!(out, [3.0]);
}

#[test]
#[should_panic(expected = "index 3 is outside 0..3")]
fn an_index_past_the_end_is_refused() {
    rows(&[0f32; 6], &[3], &mut [0f32; 2], 2);
}

#[test]
#[should_panic(expected = "index -1 is outside 0..3")]
fn a_negative_index_is_refused() {
    rows(&[0f32; 6], &[-1], &mut [0f32; 2], 2);
}
