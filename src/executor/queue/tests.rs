//! Who may take what.

use super::{ExecutorId, Order, Queue};
use crate::executor::Prepared;
use crate::executor::testing::{Scripted, device_error, devices, preparer, request};
use crate::study::Precision;

fn executor(device: usize, executor: usize) -> ExecutorId {
    ExecutorId { device, executor }
}

fn prepared(n: i64) -> Vec<Prepared> {
    let preparer = preparer(&devices([Scripted::new()]));
    let trial = |id| preparer.prepare(request(id, Precision::F32));
    (0..n).map(trial).collect()
}

fn may_go(queue: &Queue, me: ExecutorId) -> bool {
    queue.state().next_plan(me, None).is_some()
}

fn claim(queue: &Queue, me: ExecutorId) -> Vec<i64> {
    let claim = queue.claim(me, None, |_| 1).unwrap();
    claim.trials.iter().map(|t| t.request.trial_id.0).collect()
}

#[test]
fn the_less_busy_device_comes_first() {
    let queue = Queue::new(2, 2);
    queue.submit(prepared(4));
    assert_eq!(claim(&queue, executor(0, 0)), [0]);
    assert!(!may_go(&queue, executor(0, 1)), "the other device is idle");
    assert!(may_go(&queue, executor(1, 0)));
    assert_eq!(claim(&queue, executor(1, 0)), [1]);
    assert!(may_go(&queue, executor(0, 1)), "both are as busy");
    // Whom nobody can follow is waited for by nobody.
    let queue = Queue::new(2, 2);
    queue.submit(prepared(4));
    assert_eq!(claim(&queue, executor(0, 0)), [0]);
    queue.retire(1, &device_error(true));
    assert!(may_go(&queue, executor(0, 1)), "the other device is lost");
    assert!(matches!(queue.order(1), Order::Leave(_)));
    assert!(queue.claim(executor(1, 0), None, |_| 1).is_none());
}

#[test]
fn a_trial_shuns_where_it_failed_as_long_as_there_is_another_place() {
    let queue = Queue::new(2, 2);
    let mut trials = prepared(1);
    trials[0].shuns = Some(executor(0, 0));
    queue.submit(trials);
    let who = |queue: &Queue| {
        let all = [executor(0, 0), executor(0, 1), executor(1, 0)];
        all.map(|me| may_go(queue, me))
    };
    assert_eq!(who(&queue), [false, false, true]);
    queue.retire(1, &device_error(true));
    assert_eq!(who(&queue)[..2], [false, true]);
    let departure = queue.leave(executor(0, 1));
    assert_eq!(departure.n_devices_left, 1);
    assert!(may_go(&queue, executor(0, 0)), "nobody else is left");
}
