//! Reading and writing job graphs.
