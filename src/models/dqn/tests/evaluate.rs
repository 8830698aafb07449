//! The validation walk against the host's.

use super::*;
use crate::engine::env::{EXPOSURE_FLAT, Order};
use crate::market::simulate::simulate;
use crate::models::series;

/// Walks under weights so large that the greedy actions follow the state.
fn walked(setup: &Setup, backend: &dyn Backend, dtype: DType) -> Box<dyn Session> {
    let mut session = setup.start(backend, dtype);
    let theta = setup
        .model
        .layout()
        .initial(5)
        .into_iter()
        .map(|x| 4.0 * x)
        .collect();
    session
        .write(LaneIdx(0), setup.model.states.theta, &Data::F32(theta))
        .unwrap();
    session.evaluate().unwrap();
    session
}

#[test]
fn the_walk_is_the_host_s_under_the_same_actions() {
    let setup = Setup::small(&[]);
    let model = &setup.model;
    let states = &model.states;
    let backends: [(&dyn Backend, DType); 3] = [
        (&oracle(), DType::F32),
        (&cpu(), DType::F32),
        (&cpu(), DType::Bf16),
    ];
    for (backend, dtype) in backends {
        let session = walked(&setup, backend, dtype);
        let mut probe = Probe::new(&setup, backend, dtype, |program, b| {
            let account = program.read(b, states.evaluation_account);
            let bar = program.read(b, states.evaluation_bar);
            let observed = model.observe(program, b, account, bar);
            let x = model.state(program, b, bar, observed);
            let greedy = model.greedy(program, b, x);
            vec![Dqn::stack(b, &greedy)]
        });
        probe.copy(&*session);
        let range = setup.market.folds[0].validation.clone();
        let mut kinds = BTreeSet::new();
        let expected = simulate(
            &setup.market.environment,
            range.clone(),
            &setup.market.costs,
            |t, account| {
                let bar = Data::I32(vec![i32::try_from(t).unwrap()]);
                probe
                    .session
                    .write(LaneIdx(0), states.evaluation_bar, &bar)
                    .unwrap();
                let account = Data::F64(account.to_vec());
                probe
                    .session
                    .write(LaneIdx(0), states.evaluation_account, &account)
                    .unwrap();
                let action = probe.compute().remove(0);
                kinds.insert(
                    action
                        .iter()
                        .map(|index| *index as usize)
                        .collect::<Vec<_>>(),
                );
                Order::decode([action[0] as usize, action[1] as usize, action[2] as usize])
            },
        );
        let got = session.read(LaneIdx(0), states.evaluation).unwrap();
        // The same arithmetic in F64 on both sides: equal bits.
        assert_eq!(series(&got, range.len()), expected, "{dtype:?}");
        assert!(expected.net.iter().any(|net| *net != 0.0));
        assert!(
            kinds.len() > 1,
            "{dtype:?}: one action all along proves little: {kinds:?}"
        );
    }
}

#[test]
fn zero_exposure_returns_exactly_zero() {
    let setup = Setup::small(&[]);
    let model = &setup.model;
    let mut session = setup.start(&cpu(), DType::F32);
    // All weights 0 but the top atom of the flat exposure.
    let mut theta = vec![0.0; model.layout().len()];
    let bias = model
        .layout()
        .entries()
        .iter()
        .find(|e| e.name == "branch.0.output.bias")
        .unwrap();
    let atoms = model.network.atoms;
    let mut values = vec![0.0; bias.n_valid()];
    values[(EXPOSURE_FLAT + 1) * atoms - 1] = 5.0;
    bias.insert(&mut theta, &values);
    session
        .write(LaneIdx(0), model.states.theta, &Data::F32(theta))
        .unwrap();
    session.evaluate().unwrap();
    let walk = read(&*session, 0, model.states.evaluation);
    assert!(walk.iter().all(|value| value.to_bits() == 0), "{walk:?}");
    assert_eq!(read(&*session, 0, model.states.evaluation_count), [16.0]);
}

#[test]
fn bars_past_the_block_store_nothing() {
    let setup = Setup::small(&[]);
    let mut session = setup.open(&cpu(), setup.model.program(), 1);
    let run = setup.run(&setup.params, 7);
    let start = run.validation.start;
    let short = RunInput {
        validation: start..start + 10,
        ..run
    };
    setup.load(&mut *session, 0, &short);
    session.evaluate().unwrap();
    let states = &setup.model.states;
    assert_eq!(read(&*session, 0, states.evaluation_count), [10.0]);
    assert_eq!(
        read(&*session, 0, states.evaluation_bar),
        [(start + 10) as f64]
    );
    let walk = read(&*session, 0, states.evaluation);
    assert!(
        walk[10 * crate::models::EVALUATION_COLUMNS..]
            .iter()
            .all(|value| *value == 0.0)
    );
}

#[test]
fn each_fold_is_evaluated_with_its_own_scaler() {
    let planted = Planted::new(400, 3);
    let setup = Setup::new(market(planted), params("", &[]), &[]);
    let model = &setup.model;
    let table = builtin(&planted.bars(), BarLength::Day, Calendar::UsEquity);
    let mut rows = Vec::new();
    for (k, fold) in setup.market.folds.iter().enumerate() {
        let mut session = setup.open(&cpu(), model.program(), 1);
        let run = RunInput {
            fold: k,
            train: fold.train.clone(),
            validation: fold.validation.clone(),
            ..setup.run(&setup.params, 7)
        };
        setup.load(&mut *session, 0, &run);
        let mut probe = Probe::new(&setup, &cpu(), DType::F32, |program, b| {
            let account = program.read(b, model.states.evaluation_account);
            let bar = program.read(b, model.states.lane.validation_start);
            let bar = b.reshape(bar, [1]);
            let observed = model.observe(program, b, account, bar);
            vec![model.state(program, b, bar, observed)]
        });
        probe.copy(&*session);
        let x = probe.compute().remove(0);
        let scaler = Scaler::fit(&table, fold.train.clone());
        let row = table.row(fold.validation.start);
        for (idx, value) in row.iter().enumerate() {
            assert_eq!(
                x[idx],
                f64::from(scaler.apply(idx, *value)),
                "fold {k}, {idx}"
            );
        }
        rows.push(scaler);
    }
    assert_ne!(rows[0], rows[1], "the folds' scalers differ");
}
