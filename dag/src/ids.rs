//! Typed indices, so that a task is never mistaken for a node or a file.

/// Defines a dense, `u32`-backed index type.
///
/// The type is ordered, hashable, 4 bytes wide, and converts to `usize` by `.index()`.
#[macro_export]
macro_rules! typed_id {
    ($(#[$meta:meta])* $name:ident, $letter:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u32);

        impl $name {
            /// The id of the `index`-th item.
            ///
            /// # Panics
            /// If `index` does not fit 32 bits.
            #[inline]
            pub const fn new(index: usize) -> Self {
                assert!(index <= u32::MAX as usize, "more than 2^32 items");
                Self(index as u32)
            }

            /// Position of the item in arrays indexed by this id.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// The number itself.
            #[inline]
            pub const fn get(self) -> u32 {
                self.0
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, concat!($letter, "{}"), self.0)
            }
        }

        impl From<u32> for $name {
            #[inline]
            fn from(value: u32) -> Self {
                Self(value)
            }
        }
    };
}

typed_id!(
    /// A task of one job graph.
    TaskId, "t"
);
typed_id!(
    /// A file that tasks of one job graph read or write.
    FileId, "f"
);
typed_id!(
    /// A task kind (category) of one job graph.
    KindId, "k"
);
typed_id!(
    /// A distinct demand (cores, memory, ...) of one job graph; tasks with equal demands share it.
    DemandId, "d"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_small_and_readable() {
        assert_eq!(size_of::<TaskId>(), 4);
        assert_eq!(format!("{:?}", TaskId::new(7)), "t7");
        assert_eq!(FileId::new(3).index(), 3);
        assert!(KindId::new(1) < KindId::new(2));
    }
}
