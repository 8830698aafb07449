//! Every fault by line (snapshots), and what loads.

use std::error::Error;
use std::io::Write;

use super::*;

fn new_york() -> CsvOptions {
    CsvOptions {
        time_zone: Some("America/New_York".to_owned()),
        ..CsvOptions::default()
    }
}

/// The error and its causes, one a line.
fn chain(error: &MarketError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!("\ncaused by: {error}"));
        cause = error.source();
    }
    text
}

#[track_caller]
fn snapshot(name: &str, file: &str, options: &CsvOptions) {
    let path = Path::new("tests/data/csv_bad").join(file);
    let error = load(&path, options).expect_err("the file is malformed");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../../tests/golden/csv_bad");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, chain(&error)));
}

#[test]
fn malformed_files_name_place_and_remedy() {
    for name in [
        "duplicate",
        "unsorted",
        "non_finite",
        "high_below_low",
        "bad_values",
        "not_a_number",
        "missing_column",
        "repeated_column",
        "binary",
        "empty",
        "header_only",
        "timestamps",
        "many_faults",
    ] {
        snapshot(name, &format!("{name}.csv"), &new_york());
    }
    snapshot("truncated", "truncated.csv.gz", &new_york());
    snapshot("not_gzip", "not_gzip.csv.gz", &new_york());
    snapshot("no_such_file", "no_such_file.csv", &new_york());
}

#[test]
fn wrong_options_name_place_and_remedy() {
    snapshot("no_time_zone", "duplicate.csv", &CsvOptions::default());
    let unknown = CsvOptions {
        time_zone: Some("America/NewYork".to_owned()),
        ..CsvOptions::default()
    };
    snapshot("unknown_time_zone", "duplicate.csv", &unknown);
    let mapped = |role: &str, name: &str| CsvOptions {
        columns: BTreeMap::from([(role.to_owned(), name.to_owned())]),
        ..new_york()
    };
    snapshot("unmapped", "duplicate.csv", &mapped("close", "Adj Close"));
    snapshot("unknown_role", "duplicate.csv", &mapped("clos", "close"));
}

fn write(name: &str, bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::File::create(&path)
        .unwrap()
        .write_all(bytes)
        .unwrap();
    (folder, path)
}

fn load_text(text: &str, options: &CsvOptions) -> Result<Bars, MarketError> {
    let (_folder, path) = write("bars.csv", text.as_bytes());
    load(&path, options)
}

#[test]
fn real_bars_load_with_their_digest() {
    let path = Path::new("sweeps/data/sp500_1d.csv");
    let bars = load(path, &new_york()).unwrap();
    assert_eq!(bars.len(), 5_031);
    assert_eq!(bars.open[0], 1_229.229_98);
    assert_eq!(bars.volume[5_030], 3_442_870_000.0);
    assert_eq!(bars.local[0].to_string(), "1999-01-04 00:00:00");
    assert_eq!(
        bars.digest,
        "c7e7a504509eeb69916b77db3ad3b6533bc03cc69ad942223156a28b41151285"
    );
}

#[test]
fn gzip_loads_like_plain_text() {
    let plain = std::fs::read("tests/data/sp500_1d_300.csv").unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&plain).unwrap();
    let (_folder, path) = write("bars.csv.gz", &encoder.finish().unwrap());
    let unzipped = load(&path, &new_york()).unwrap();
    let mut bars = load(Path::new("tests/data/sp500_1d_300.csv"), &new_york()).unwrap();
    assert_ne!(unzipped.digest, bars.digest);
    bars.digest = unzipped.digest.clone();
    assert_eq!(unzipped, bars);
}

#[test]
fn columns_map_and_match_without_regard_to_case() {
    let options = CsvOptions {
        columns: BTreeMap::from([("close".to_owned(), "Adj Close".to_owned())]),
        ..new_york()
    };
    let text = "\u{feff}Date;OPEN;High;low;Close;Adj Close;Volume\r\n\
                2020-01-02;10;11;9;99;10.5;7\r\n\r\n2020-01-03;10;11;9;99;10.25;0";
    let bars = load_text(text, &options).unwrap();
    assert_eq!(bars.close, [10.5, 10.25]);
    assert_eq!(bars.volume, [7.0, 0.0]);
}

#[test]
fn timestamps_of_every_form_agree() {
    for stamp in [
        "2020-01-02T14:30:00Z",
        "2020-01-02 09:30:00-05:00",
        "2020-01-02 09:30-0500",
        "2020-01-02T09:30:00.000-05",
        "2020-01-02 09:30:00",
        "2020/01/02 09:30",
        "1577975400",
        "1577975400.0",
        "1577975400000",
        "1577975400000000000",
    ] {
        let text = format!("time,open,high,low,close,volume\n{stamp},10,11,9,10,1\n");
        let bars = load_text(&text, &new_york()).unwrap();
        assert_eq!(bars.time_utc_ms, [1_577_975_400_000], "{stamp}");
        assert_eq!(bars.local[0].to_string(), "2020-01-02 09:30:00", "{stamp}");
    }
    for stamp in ["20200102", "2020-01-02"] {
        let text = format!("time,open,high,low,close,volume\n{stamp},10,11,9,10,1\n");
        let bars = load_text(&text, &new_york()).unwrap();
        assert_eq!(bars.time_utc_ms, [1_577_941_200_000], "{stamp}");
    }
}

#[test]
fn offsets_make_the_zone_optional() {
    let text = "time,open,high,low,close,volume\n2020-01-02T09:30:00-05:00,10,11,9,10,1\n";
    let bars = load_text(text, &CsvOptions::default()).unwrap();
    assert_eq!(bars.local[0].to_string(), "2020-01-02 09:30:00");
}

#[test]
fn the_doubled_hour_is_read_in_order() {
    let text = "time,open,high,low,close,volume\n\
                2020-11-01 01:30,10,11,9,10,1\n2020-11-01 01:30,10,11,9,10,1\n";
    let bars = load_text(text, &new_york()).unwrap();
    assert_eq!(bars.time_utc_ms[1] - bars.time_utc_ms[0], 3_600_000);
}

proptest::proptest! {
    /// Whatever the bytes, loading ends with bars or a diagnostic.
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let mut file = b"timestamp,open,high,low,close,volume\n".to_vec();
        file.extend(bytes);
        let (_folder, path) = write("bars.csv", &file);
        if let Err(error) = load(&path, &new_york()) {
            proptest::prop_assert!(!error.to_string().is_empty());
        }
    }

    /// Whatever a field holds, loading ends with bars or a diagnostic.
    #[test]
    fn no_field_panics(stamp in "[-0-9T:+Z. é]{0,24}", price in "[-0-9.eE+naif]{0,8}") {
        let text = format!("time,open,high,low,close,volume\n{stamp},{price},11,9,10,1\n");
        if let Err(error) = load_text(&text, &new_york()) {
            proptest::prop_assert!(!error.to_string().is_empty());
        }
    }
}
