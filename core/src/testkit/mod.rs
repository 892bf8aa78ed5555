//! Conformance kit: checks any third party's policy or executor against its contract.
