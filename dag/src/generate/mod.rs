//! Seeded generators.
