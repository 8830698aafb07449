//! Conformance on a real Postgres.
