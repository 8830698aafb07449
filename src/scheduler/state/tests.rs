//! Cohort arithmetic over configurations.
