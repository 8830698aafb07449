//! Signals, and death without one.

#[cfg(feature = "slow")]
use super::home::ended_of;
use super::home::epochs_of;
use super::{Home, Sweep, code, stderr};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::Child;

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

/// The results of the sweep undisturbed, under a name of its own.
#[cfg(feature = "slow")]
fn undisturbed(home: &Home, name: &str) -> String {
    home.complete(&Sweep::long(name))
}

#[cfg(feature = "slow")]
#[test]
fn a_killed_run_goes_on_where_it_was() {
    let home = Home::shared();
    let expected = undisturbed(&home, "killed-never");
    // Before the first epoch, within the first trial, and after some have ended.
    let configurations = "SELECT count(*) FROM configuration JOIN study USING (study_id) \
        WHERE name = 'killed'";
    let points = [
        (configurations.to_owned(), 1),
        (epochs_of("killed"), 4),
        (ended_of("killed"), 2),
        (ended_of("killed"), 6),
    ];
    let sweep = Sweep::long("killed");
    let mut n_ended = 0;
    for (query, n) in points {
        let mut child = home.spawn(&sweep);
        home.wait_for(&query, n);
        send(&child, Signal::SIGKILL);
        assert_eq!(child.wait().unwrap().code(), None);
        let n_now = home.count(&ended_of("killed"));
        assert!(n_now >= n_ended, "an ended trial was lost");
        n_ended = n_now;
        let running = home.count(
            "SELECT count(*) FROM trial JOIN study USING (study_id) \
            WHERE name = 'killed' AND trial.state = 'running'",
        );
        // The next start says what it takes up again; that one is cut short at once.
        let next = home.spawn(&sweep);
        home.wait_for(&epochs_of("killed"), home.count(&epochs_of("killed")) + 1);
        send(&next, Signal::SIGINT);
        let output = next.wait_with_output().unwrap();
        let says = stderr(&output).contains(&format!("{running} trials that an earlier run left"));
        assert_eq!(says, running > 0, "{running} ran: {}", stderr(&output));
    }
    assert!(n_ended < 12, "it was interrupted to the last");
    let output = home.run(&sweep, &[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    home.assert_exact(&sweep);
    assert!(
        home.results("killed") == expected,
        "bit-equal to the undisturbed run"
    );
}

#[cfg(feature = "slow")]
#[test]
fn the_first_signal_finishes_the_epoch_and_the_study_resumes() {
    let home = Home::shared();
    let expected = undisturbed(&home, "signals-never");
    let sweep = Sweep::long("signals");
    for (signal, expected) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let n_epochs = home.count(&epochs_of("signals"));
        let child = home.spawn(&sweep);
        home.wait_for(&epochs_of("signals"), n_epochs + 1);
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), expected, "{}", stderr(&output));
        assert!(
            stderr(&output).contains("stopping at the end of the epoch"),
            "{}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains("the same command goes on"),
            "{}",
            stderr(&output)
        );
        let [study] = &home.json(&["show", "signals"])[..] else {
            panic!("one study")
        };
        assert_eq!(study["state"], "stopped");
        assert_eq!(study["stop_reason"], "interrupted");
        assert_eq!(study["n_running"], 0, "nothing is left running");
    }
    let output = home.run(&sweep, &[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    home.assert_exact(&sweep);
    assert!(
        home.results("signals") == expected,
        "bit-equal to the undisturbed run"
    );
}

#[test]
fn the_second_signal_stops_at_once() {
    let home = Home::shared();
    // Epochs that would take minutes.
    let sweep = Sweep {
        steps: 1_000_000,
        ..Sweep::long("impatient")
    };
    let child = home.spawn(&sweep);
    home.wait_for(
        "SELECT count(*) FROM attempt JOIN trial USING (trial_id) JOIN study USING (study_id) \
        WHERE name = 'impatient'",
        1,
    );
    send(&child, Signal::SIGINT);
    // Two signals in one instant are one; the first is answered before the second is sent.
    std::thread::sleep(std::time::Duration::from_millis(300));
    send(&child, Signal::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130);
    assert_eq!(home.count(&epochs_of("impatient")), 0);
}

#[test]
fn ctrl_c_leaves_the_database_to_others() {
    // A cluster of its own, since it is stopped; Ctrl-C goes to the whole process group.
    use std::os::unix::process::CommandExt;
    let home = Home::apart();
    let sweep = Sweep {
        steps: 400,
        ..Sweep::long("ctrl-c")
    };
    let mut command = home.command(&sweep, &[]);
    let child = command.process_group(0).spawn().unwrap();
    let group = Pid::from_raw(child.id().cast_signed());
    home.wait_for(&epochs_of("ctrl-c"), 1);
    nix::sys::signal::killpg(group, Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    // The server that the run started is no child of it, and still answers.
    assert!(home.count(&epochs_of("ctrl-c")) > 0);
    let stopped = home.call(&["db", "stop"]);
    assert_eq!(
        (code(&stopped), super::stdout(&stopped).trim()),
        (0, "stopped")
    );
    let again = home.call(&["db", "stop"]);
    assert_eq!(
        (code(&again), super::stdout(&again).trim()),
        (0, "not running")
    );
}
