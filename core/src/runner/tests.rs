//! Stories of whole runs.
