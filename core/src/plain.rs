//! Ids of other crates as plain numbers, for serde.

/// A [`TaskId`](mdts_dag::TaskId) as its number; for `#[serde(with = "plain::task")]`.
pub(crate) mod task {
    use mdts_dag::TaskId;
    use serde::{Deserialize, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
    pub(crate) fn serialize<S: Serializer>(task: &TaskId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(task.get())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TaskId, D::Error> {
        u32::deserialize(deserializer).map(TaskId::from)
    }
}

/// A list of tasks as their numbers; for `#[serde(with = "plain::tasks")]`.
pub(crate) mod tasks {
    use mdts_dag::TaskId;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(tasks: &[TaskId], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(tasks.iter().map(|task| task.get()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: From<Vec<TaskId>>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        let tasks: Vec<TaskId> =
            Vec::<u32>::deserialize(deserializer)?.into_iter().map(TaskId::from).collect();
        Ok(tasks.into())
    }
}
