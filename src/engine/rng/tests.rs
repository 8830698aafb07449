use super::*;

fn words(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [block, step, stream, draw] = counter;
    let counter = Counter {
        block,
        step,
        stream,
        draw,
    };
    philox(counter, u64::from(key[1]) << 32 | u64::from(key[0]))
}

#[test]
fn known_answers() {
    // Random123, tests/kat_vectors, philox4x32 10.
    assert_eq!(
        words([0; 4], [0; 2]),
        [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
    );
    assert_eq!(
        words([u32::MAX; 4], [u32::MAX; 2]),
        [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
    );
    assert_eq!(
        words(
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0]
        ),
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
    );
}

#[test]
fn uniforms_lie_in_the_half_open_interval() {
    assert_eq!(uniform_f32(0), 0.0);
    assert_eq!(uniform_f32(0xff), 0.0);
    assert_eq!(uniform_f32(u32::MAX), 1.0 - 1.0 / 16_777_216.0);
}

#[test]
fn an_element_is_a_word_of_its_block() {
    for n in [0, 1, 3, 4, 5, 32, 101] {
        let mut out = vec![f32::NAN; n];
        fill_uniform(0x0123_4567_89ab_cdef, 9, 77, &mut out);
        for (i, &u) in out.iter().enumerate() {
            let words = words([(i / 4) as u32, 9, 77, 0], [0x89ab_cdef, 0x0123_4567]);
            assert_eq!(u, uniform_f32(words[i % 4]), "element {i} of {n}");
        }
    }
}

#[test]
fn uniforms_have_the_moments_of_uniforms() {
    let n = 40_000;
    let mut out = vec![0.0; n];
    fill_uniform(1, 0, stream_id("moments"), &mut out);
    let mean = out.iter().map(|&u| f64::from(u)).sum::<f64>() / n as f64;
    let variance = out
        .iter()
        .map(|&u| (f64::from(u) - mean).powi(2))
        .sum::<f64>()
        / n as f64;
    // Five standard errors: √(1/12/n) = 1.4e-3 and √(1/180/n) = 3.7e-4.
    assert!((mean - 0.5).abs() < 7.2e-3, "{mean}");
    assert!((variance - 1.0 / 12.0).abs() < 1.9e-3, "{variance}");
}

#[test]
fn stream_ids_are_stable() {
    // The offset basis and the test value of the FNV reference.
    assert_eq!(stream_id(""), 0x811c_9dc5);
    assert_eq!(stream_id("a"), 0xe40c_292c);
    assert_eq!(stream_id("foobar"), 0xbf9c_f968);
}
