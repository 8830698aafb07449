//! Files are read back by the format's own reader.

use super::*;
use safetensors::SafeTensors;

/// `a` is `[2, 3]` with a bias of 3; `b` has two groups of 4 columns, 3 of them used.
fn layout() -> ParamLayout {
    let mut layout = ParamLayout::default();
    layout.dense("a", 2, 3);
    layout.grouped("b", 2, 2, 4, 3);
    layout
}

const ORIGIN: Origin<'_> = Origin {
    format: FORMAT,
    seed: u64::MAX,
    fold: 1,
    epoch: 2,
    precision: "bf16",
    plan_key: "plan",
    data_digest: "data",
};

#[test]
fn tensors_come_back_without_padding() {
    let layout = layout();
    let block: Vec<f32> = (0..layout.len()).map(|i| i as f32).collect();
    let bytes = serialize(&layout, &block, &ORIGIN);
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = |name: &str| {
        let view = file.tensor(name).unwrap();
        assert_eq!(view.dtype(), Dtype::F32);
        let values = view.data().chunks_exact(4);
        let values: Vec<f32> = values
            .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
            .collect();
        (view.shape().to_vec(), values)
    };
    assert_eq!(
        tensor("a.weight"),
        (vec![2, 3], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    );
    assert_eq!(tensor("a.bias"), (vec![3], vec![6.0, 7.0, 8.0]));
    // 9 to 24 are two rows of eight; every fourth column is padding.
    let used = [9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23];
    assert_eq!(
        tensor("b.weight"),
        (vec![2, 6], used.map(|i: u8| f32::from(i)).to_vec())
    );
    assert_eq!(tensor("b.bias").0, [6]);
    assert_eq!(file.len(), 4);
}

#[test]
fn the_metadata_say_where_weights_are_from() {
    let layout = layout();
    let bytes = serialize(&layout, &vec![0.0; layout.len()], &ORIGIN);
    let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    let origin = &metadata.metadata().as_ref().unwrap()[METADATA];
    let origin: serde_json::Value = serde_json::from_str(origin).unwrap();
    let expected = serde_json::json!({
        "format": "hyperopt-weights-1", "seed": u64::MAX, "fold": 1, "epoch": 2,
        "precision": "bf16", "plan_key": "plan", "data_digest": "data",
    });
    assert_eq!(origin, expected);
}

#[test]
fn equal_weights_are_equal_bytes() {
    let layout = layout();
    let block = vec![1.5; layout.len()];
    let first = serialize(&layout, &block, &ORIGIN);
    // Maps of the standard library are in another order each time: eight tries would differ.
    assert!((0..8).all(|_| serialize(&layout, &block, &ORIGIN) == first));
}
