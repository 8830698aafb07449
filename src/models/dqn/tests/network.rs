//! The network's identities on the real graph, in F64 and F32.

use super::super::{Heads, Network};
use super::*;
use crate::engine::autodiff::grad;
use crate::engine::env::ACTION_SIZES;
use crate::engine::op::Loss;

/// Rows of the batches here.
const N_ROWS: usize = 3;

fn network(changes: &[(&str, f64)], state_width: usize) -> Network {
    Network::new(
        &Settings::new(&params("", changes), &BTreeSet::new()),
        state_width,
    )
}

/// Shapes and values of a value head and three branches, padding included.
fn head_inputs(network: &Network) -> Vec<(Shape, Data)> {
    let width = network.atom_width;
    let mut inputs = vec![(
        Shape::from([N_ROWS, width]),
        Data::F32(noise("value", N_ROWS * width, 2.0)),
    )];
    for (d, n) in ACTION_SIZES.into_iter().enumerate() {
        let values = noise(&format!("branch {d}"), N_ROWS * n * width, 2.0);
        inputs.push((Shape::from([N_ROWS, n, width]), Data::F32(values)));
    }
    inputs
}

fn heads(nodes: &[NodeId]) -> Heads {
    Heads {
        value: nodes[0],
        advantage: nodes[1..4].to_vec(),
    }
}

fn floats(data: &Data) -> Vec<f32> {
    match data {
        Data::F32(values) => values.clone(),
        Data::F64(_) | Data::I32(_) => panic!("inputs are F32"),
    }
}

#[test]
fn each_branch_is_an_ordinary_dueling_head() {
    let network = network(&[], 8);
    let mut inputs = head_inputs(&network);
    let width = network.atom_width;
    for (d, n) in ACTION_SIZES.into_iter().enumerate() {
        let logits = |inputs: &[(Shape, Data)]| {
            compute(&oracle(), inputs, |b, nodes| {
                vec![network.logits(b, &heads(nodes), d)]
            })
        };
        let got = logits(&inputs);
        let (value, advantage) = (inputs[0].1.to_f64(), inputs[1 + d].1.to_f64());
        for (at, got) in got[0].iter().enumerate() {
            let (row, column) = (at / (n * width), at % width);
            let of_action = |a: usize| advantage[(row * n + a) * width + column];
            let mean = (0..n).map(of_action).sum::<f64>() / n as f64;
            let expected = value[row * width + column] + advantage[at] - mean;
            // A few roundings of F64 at order one.
            assert!((got - expected).abs() < 1e-14, "branch {d}, element {at}");
        }
        // No other branch has a say.
        let other = 1 + (d + 1) % ACTION_SIZES.len();
        inputs[other].1 = Data::F32(floats(&inputs[other].1).iter().map(|x| 7.0 - x).collect());
        assert_eq!(logits(&inputs), got);
    }
}

#[test]
fn dueling_matches_the_published_example() {
    let network = network(&[("model.atoms", 8.0)], 8);
    let fill = |shape: Shape, values: &[f32]| {
        let elements = values.iter().flat_map(|value| [*value; 8]).collect();
        (shape, Data::F32(elements))
    };
    let inputs = [
        fill(Shape::from([1, 8]), &[2.0]),
        fill(Shape::from([1, 5, 8]), &[0.0; 5]),
        fill(Shape::from([1, 3, 8]), &[1.0, 3.0, 5.0]),
        fill(Shape::from([1, 3, 8]), &[0.0; 3]),
    ];
    for backend in [&oracle() as &dyn Backend, &cpu()] {
        let got = compute(backend, &inputs, |b, nodes| {
            let logits = network.logits(b, &heads(nodes), 1);
            vec![logits, b.mean(logits, 1)]
        });
        for (action, expected) in [0.0, 2.0, 4.0].into_iter().enumerate() {
            let row = &got[0][action * 8..(action + 1) * 8];
            // The published tolerance of F32.
            assert!(row.iter().all(|x| (x - expected).abs() < 1e-5), "{row:?}");
        }
        assert!(
            got[1].iter().all(|mean| (mean - 2.0).abs() < 1e-5),
            "the mean is the value"
        );
    }
}

#[test]
fn advantages_compete_and_a_common_constant_means_nothing() {
    let network = network(&[], 8);
    let width = network.atom_width;
    let mut inputs = head_inputs(&network);
    inputs.push((Shape::from([N_ROWS]), Data::I32(vec![0, 2, 1])));
    inputs.push((
        Shape::from([N_ROWS, width]),
        Data::F32(noise("target", N_ROWS * width, 1.0)),
    ));
    inputs.push((Shape::default(), Data::F32(vec![5.0])));
    let run = |backend: &dyn Backend, inputs: &[(Shape, Data)]| {
        compute(backend, inputs, |b, nodes| {
            let heads = heads(nodes);
            let loss = (0..ACTION_SIZES.len()).fold(None, |sum: Option<NodeId>, d| {
                let logits = network.logits_of(b, &heads, d, nodes[4]);
                let op = Loss::CrossEntropy {
                    n_valid: network.atoms,
                };
                let terms = b.loss(op, &[logits, nodes[5]]);
                let part = b.sum_all(terms);
                Some(sum.map_or(part, |sum| b.add(sum, part)))
            });
            let grads = grad(b.graph(), loss.unwrap(), &heads.advantage);
            let mut outputs: Vec<NodeId> = grads
                .into_iter()
                .map(|grad| b.sum(grad.unwrap(), 1))
                .collect();
            outputs.push(grad(b.graph(), loss.unwrap(), &heads.advantage)[0].unwrap());
            for d in 0..ACTION_SIZES.len() {
                let logits = network.logits(b, &heads, d);
                outputs.push(network.expectation(b, logits, nodes[6]));
            }
            outputs
        })
    };
    for (backend, tolerance) in [
        // Roundings of numbers of order one, in each type.
        (&oracle() as &dyn Backend, 1e-13),
        (&cpu(), 1e-5),
    ] {
        let before = run(backend, &inputs);
        for sums in &before[..3] {
            assert!(
                sums.iter().all(|sum| sum.abs() < tolerance),
                "Σ_a dL/dA = 0: {sums:?}"
            );
        }
        assert!(
            before[3].iter().any(|grad| grad.abs() > 0.1),
            "the gradient itself is not 0"
        );
        let mut shifted = inputs.clone();
        for (_, data) in &mut shifted[1..4] {
            *data = Data::F32(floats(data).iter().map(|x| x + 1.5).collect());
        }
        let after = run(backend, &shifted);
        for (before, after) in before[4..].iter().zip(&after[4..]) {
            // The shift itself rounds F32 inputs by up to 2⁻²³.
            assert!(distance(after, before) < 1e-6_f64.max(tolerance), "q moved");
        }
    }
}

#[test]
fn logits_of_an_action_are_picked_from_all() {
    let network = network(&[], 8);
    let mut inputs = head_inputs(&network);
    inputs.push((Shape::from([N_ROWS]), Data::I32(vec![2, 0, 1])));
    for backend in [&oracle() as &dyn Backend, &cpu()] {
        for d in 0..ACTION_SIZES.len() {
            let got = compute(backend, &inputs, |b, nodes| {
                let all = network.logits(b, &heads(nodes), d);
                vec![
                    b.pick(all, nodes[4]),
                    network.logits_of(b, &heads(nodes), d, nodes[4]),
                ]
            });
            assert_eq!(got[0], got[1], "branch {d}");
        }
    }
}

#[test]
fn the_projection_of_a_mean_is_the_mean_of_projections() {
    let network = network(&[], 8);
    let width = network.atom_width;
    let rows = Shape::from([N_ROWS, width]);
    let mut inputs: Vec<(Shape, Data)> = (0..3)
        .map(|d| {
            (
                rows.clone(),
                Data::F32(noise(&format!("logits {d}"), N_ROWS * width, 2.0)),
            )
        })
        .collect();
    inputs.push((Shape::from([N_ROWS]), Data::F32(vec![0.3, -4.0, 1.0])));
    inputs.push((Shape::from([N_ROWS]), Data::F32(vec![0.9, 0.5, 0.0])));
    inputs.push((Shape::default(), Data::F32(vec![5.0])));
    let got = compute(&oracle(), &inputs, |b, nodes| {
        let n_valid = network.atoms;
        let third = b.scalar(1.0 / 3.0);
        let mean = |b: &mut Builder<'_>, parts: &[NodeId]| {
            let sum = b.add(parts[0], parts[1]);
            let sum = b.add(sum, parts[2]);
            b.mul(sum, third)
        };
        let project = |b: &mut Builder<'_>, p| {
            b.loss(
                Loss::Project { n_valid },
                &[p, nodes[3], nodes[4], nodes[5]],
            )
        };
        let p: Vec<NodeId> = nodes[..3]
            .iter()
            .map(|logits| b.loss(Loss::Softmax { n_valid }, &[*logits]))
            .collect();
        let each: Vec<NodeId> = p.iter().map(|p| project(b, *p)).collect();
        let of_each = mean(b, &each);
        let of_mean = mean(b, &p);
        let of_mean = project(b, of_mean);
        vec![of_mean, of_each, network.mean_of(b, of_mean, nodes[5])]
    });
    // Sums of eleven probabilities in F64.
    assert!(distance(&got[0], &got[1]) < 1e-14);
    assert!(got[2].iter().all(|mean| mean.abs() <= 5.0));
}

#[test]
fn parameter_counts_are_as_published() {
    let market = market(Planted::new(400, 3));
    for (preset, expected) in [("", 288_868), ("ref-dqn", 292_964)] {
        let schema = &catalogue()[0];
        let mut values: Params = schema
            .params
            .iter()
            .map(|param| (param.name.to_owned(), param.default.clone()))
            .collect();
        let preset = schema.preset(preset).unwrap_or_default();
        values.extend(
            preset
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone())),
        );
        let model = Dqn::new(&Settings::new(&values, &BTreeSet::new()), market.shape);
        assert_eq!(model.layout().n_params(), expected);
        assert_eq!(model.layout().matrices().0.len(), 10);
        assert_eq!(model.layout().entries().len(), 20);
    }
}

/// Marks the padding of a parameter block.
fn padding(network: &Network) -> Vec<bool> {
    let layout = &network.layout;
    let mut used = vec![0.0_f32; layout.len()];
    for entry in layout.entries() {
        entry.insert(&mut used, &vec![1.0; entry.n_valid()]);
    }
    used.iter().map(|used| *used == 0.0).collect()
}

#[test]
fn padding_changes_no_value_and_gets_no_gradient() {
    let network = network(&[("model.atoms", 51.0)], 8);
    assert_eq!((network.atoms, network.atom_width), (51, 56));
    let is_padding = padding(&network);
    let clean = network.layout.initial(3);
    let n_padding = is_padding.iter().filter(|is_padding| **is_padding).count();
    assert_eq!(
        n_padding,
        5 * (8 + 1) * (1 + 5 + 3 + 3),
        "weights and biases of 12 groups"
    );
    let dirty: Vec<f32> = clean
        .iter()
        .zip(&is_padding)
        .map(|(x, pad)| if *pad { 3.0 } else { *x })
        .collect();
    let run = |theta: Vec<f32>| {
        let inputs = [
            (Shape::from([network.layout.len()]), Data::F32(theta)),
            (
                Shape::from([N_ROWS, 8]),
                Data::F32(noise("state", N_ROWS * 8, 1.0)),
            ),
            (Shape::from([N_ROWS]), Data::I32(vec![0, 2, 1])),
            (
                Shape::from([N_ROWS, 56]),
                Data::F32(noise("target", N_ROWS * 56, 1.0)),
            ),
            (Shape::default(), Data::F32(vec![10.0])),
        ];
        compute(&cpu(), &inputs, |b, nodes| {
            let heads = network.forward(b, nodes[0], nodes[1]);
            let logits = network.logits_of(b, &heads, 0, nodes[2]);
            let op = Loss::CrossEntropy {
                n_valid: network.atoms,
            };
            let loss = b.loss(op, &[logits, nodes[3]]);
            let loss = b.mean_all(loss);
            let gradient = grad(b.graph(), loss, &[nodes[0]])[0].unwrap();
            let all = network.logits(b, &heads, 2);
            vec![network.expectation(b, all, nodes[4]), loss, gradient]
        })
    };
    let (clean, dirty) = (run(clean), run(dirty));
    assert_eq!(clean, dirty);
    assert!(
        clean[2]
            .iter()
            .zip(&is_padding)
            .all(|(grad, pad)| !*pad || *grad == 0.0)
    );
}

#[test]
fn padding_stays_zero_in_training() {
    let setup = Setup::small(&[("model.atoms", 51.0), ("train.weight_decay", 0.01)]);
    let is_padding = padding(setup.model.network());
    for dtype in [DType::F32, DType::Bf16] {
        let mut session = setup.start(&cpu(), dtype);
        session.train(20).unwrap();
        let states = &setup.model.states;
        for state in [states.theta, states.target, states.m, states.v] {
            let block = read(&*session, 0, state);
            let stays = block
                .iter()
                .zip(&is_padding)
                .all(|(x, pad)| !*pad || x.to_bits() == 0);
            assert!(stays, "{dtype:?} {state:?}");
        }
        assert_eq!(
            read(&*session, 0, states.n_updates),
            [16.0],
            "warm after five rows"
        );
    }
}
